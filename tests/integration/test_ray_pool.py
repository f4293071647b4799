"""The ray pool on a real Ray: tasks, failures, every way to die, nothing left behind."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from apps.registry import create
from compositions.errors import RecomposeError
from runtime.arena.reference import Reference
from runtime.dispatch.events import Event, TaskDone, TaskFailed, WorkerJoined, WorkerLost, WorkerStartFailed
from runtime.dispatch.instructions import Task
from runtime.pools.ray import cluster as ray_cluster
from runtime.pools.ray.pool import RayPool
from runtime.pools.ray.settings import RayPoolSettings

APPS = Path(__file__).parent / "ray_apps"
STAGES = ("double", "count", "misbehave")
PATIENCE_S = 30.0
MakePool = Callable[..., RayPool]


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    ray_cluster.connect()
    yield
    ray_cluster.shutdown()


@pytest.fixture
def make_pool() -> Iterator[MakePool]:
    """Makes pools of the probe app; checks afterwards that no process and no socket directory is left."""
    pools: list[RayPool] = []
    pids: set[int] = set()

    def make(settings: RayPoolSettings | None = None, **options: Any) -> RayPool:
        pools.append(RayPool(partial(create, "ray-probe", options, [APPS]), STAGES, settings))
        return pools[-1]

    yield make
    for pool in pools:
        pids |= {member.pid for member in pool._members.values() if member.pid}
        pool.close()
        pool.close()
    assert all(gone(pid) for pid in pids)
    assert not any(os.path.exists(pool._hub._directory) for pool in pools)


def gone(pid: int) -> bool:
    try:
        psutil.Process(pid).wait(PATIENCE_S)
    except psutil.NoSuchProcess:
        return True
    except psutil.TimeoutExpired:
        return False
    return True


def events(pool: RayPool, count: int) -> list[Event]:
    """The next ``count`` events."""
    found: list[Event] = []
    deadline_s = pool.now_s() + PATIENCE_S
    while len(found) < count and pool.now_s() < deadline_s:
        found += pool.wait(deadline_s)
    assert len(found) == count, found
    return found


def started(pool: RayPool, count: int = 1) -> list[WorkerJoined]:
    pool.start(count)
    joined = [event for event in events(pool, count) if isinstance(event, WorkerJoined)]
    assert len(joined) == count
    return joined


def task(pool: RayPool, number: int, stages: tuple[str, ...], value: Any, **states: Any) -> Task:
    encode = pool.codec.encode
    frames = {name: None if state is None else encode([state]) for name, state in states.items()}
    return Task(number, number, stages, encode([value]), frames)


@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_tasks_run_adjacent_stages_and_bring_value_states_and_timings(make_pool: MakePool, transport: Any) -> None:
    pool = make_pool(RayPoolSettings(transport=transport))
    (joined,) = started(pool)
    assert joined.pid != os.getpid()
    assert joined.node == ray_cluster.nodes()[0].address
    pool.send(joined.worker, [task(pool, 1, ("double", "count"), 21, count=None)])
    (done,) = events(pool, 1)
    assert isinstance(done, TaskDone)
    assert (done.worker, done.task_id) == (joined.worker, 1)
    assert pool.codec.decode(done.payload) == [[42, 1]]
    assert [timing.stage for timing in done.timings] == ["double", "count"]
    assert all(0 <= timing.cpu_s <= timing.wall_s + 0.01 for timing in done.timings)
    pool.send(joined.worker, [Task(2, 2, ("count",), done.payload, done.states)])
    (again,) = events(pool, 1)
    assert isinstance(again, TaskDone)
    assert pool.codec.decode(again.payload) == [[[42, 1], 2]]
    assert pool.codec.decode(again.states["count"])[0][0] == 2


@pytest.mark.parametrize(("transport", "shared"), [("unix", True), ("tcp", False)])
def test_large_frames_are_shared_on_this_host_and_travel_in_full_over_the_network(
    make_pool: MakePool, transport: Any, shared: bool
) -> None:
    pool = make_pool(RayPoolSettings(transport=transport))
    (joined,) = started(pool)
    for number in range(3):  # the first of its kind has no room yet
        pool.send(joined.worker, [task(pool, number, ("double",), np.full(100_000, number))])
        (done,) = events(pool, 1)
        assert isinstance(done, TaskDone)
        assert isinstance(done.payload[1], Reference) == (shared and number > 0)
        np.testing.assert_array_equal(pool.codec.decode(done.payload), [np.full(100_000, 2 * number)])
    del done
    arena = pool._hub.accounts.arena
    assert arena is None or arena.used_bytes == 0


def test_tasks_of_one_worker_come_back_in_the_order_sent_though_some_of_them_fail(make_pool: MakePool) -> None:
    """A failed one names its stage; a stage may change a large array in place, and libraries run with one thread."""
    pool, frame = make_pool(), np.arange(260 * 462 * 3, dtype=np.float32)
    (joined,) = started(pool)
    for number, what in enumerate(("raise", "unpicklable", frame, "environment")):
        pool.send(joined.worker, [task(pool, number, ("misbehave",), what)])
    for number in range(4, 50):
        pool.send(joined.worker, [task(pool, number, ("double",), number)])
    raised, unpicklable, *others = events(pool, 50)
    for failed, number, text in ((raised, 0, "ValueError: told to raise"), (unpicklable, 1, "cannot be pickled")):
        assert isinstance(failed, TaskFailed)
        assert (failed.task_id, failed.stage) == (number, "misbehave")
        assert text in failed.error
    done = [each for each in others if isinstance(each, TaskDone)]
    assert [each.task_id for each in done] == list(range(2, 50))
    changed, environment, *doubled = (pool.codec.decode(each.payload)[0] for each in done)
    np.testing.assert_array_equal(changed["array"], frame + 1)
    assert changed["aligned"]
    assert environment["OMP_NUM_THREADS"] == environment["OPENCV_FOR_THREADS_NUM"] == "1"
    assert doubled == [2 * number for number in range(4, 50)]


@pytest.mark.parametrize(("transport", "death"), [("unix", "exits in a stage"), ("tcp", "killed from outside")])
def test_a_dead_worker_is_told_at_once_and_once(make_pool: MakePool, transport: Any, death: str) -> None:
    pool = make_pool(RayPoolSettings(transport=transport))
    dying, other = started(pool, 2)
    if death == "killed from outside":
        os.kill(dying.pid, signal.SIGSEGV)
    else:
        pool.send(dying.worker, [task(pool, 1, ("misbehave",), "exit")])
    began_s = pool.now_s()
    (lost,) = events(pool, 1)
    assert pool.now_s() - began_s < 1.0
    assert isinstance(lost, WorkerLost)
    assert lost.worker == dying.worker
    if death == "killed from outside":
        assert lost.reason == "its process ended: SIGSEGV"
    pool.send(dying.worker, [task(pool, 2, ("double",), 1)])
    pool.send(other.worker, [task(pool, 3, ("double",), 1)])
    (done,) = events(pool, 1)
    assert isinstance(done, TaskDone)
    assert pool.wait(pool.now_s() + 2.0) == []  # Ray's own report of the death comes in that time


def test_an_ended_worker_leaves_without_a_report(make_pool: MakePool) -> None:
    pool = make_pool()
    (joined,) = started(pool)
    pool.end(joined.worker)
    assert gone(joined.pid)
    assert pool.wait(pool.now_s() + 0.5) == []
    pool.end(joined.worker)


def test_a_worker_stuck_with_the_interpreter_locked_is_killed_at_once(make_pool: MakePool) -> None:
    pool = make_pool()
    (joined,) = started(pool)
    pool.send(joined.worker, [task(pool, 1, ("misbehave",), "keep the interpreter")])
    began_s = pool.now_s()
    pool.end(joined.worker, kill=True)
    assert gone(joined.pid)
    assert pool.now_s() - began_s < 2.0
    assert pool.wait(pool.now_s() + 1.0) == []


@pytest.mark.parametrize(
    ("settings", "options", "texts"),
    [
        ({}, {"refuse": True}, ["the probe was told to refuse its setup"]),
        ({}, {"crash": True}, ["ended"]),
        ({}, {"not_for_travel": threading.Lock()}, ["Ray could not start it: TypeError: ", "pickle"]),
        ({"start_timeout_s": 3.0}, {"setup_s": 20.0}, ["was not ready within 3 s"]),
        ({"resources": {"decoder": 1}}, {}, ["0 of 1 worker of the app fit: each needs 1 decoder, and the node with"]),
    ],
)
def test_a_worker_that_cannot_start_says_why(
    make_pool: MakePool, settings: dict[str, Any], options: dict[str, Any], texts: list[str]
) -> None:
    pool = make_pool(RayPoolSettings(**settings), **options)
    pool.start(1)
    (failed,) = events(pool, 1)
    assert isinstance(failed, WorkerStartFailed)
    assert all(text in failed.reason for text in texts), failed.reason


def test_wait_keeps_its_time_and_wake_ends_it(make_pool: MakePool) -> None:
    pool = make_pool()
    until_s = pool.now_s() + 0.2
    assert pool.wait(until_s) == []
    assert until_s <= pool.now_s() < until_s + 0.5
    pool.wake()
    began_s = pool.now_s()
    assert pool.wait(began_s + 10.0) == []
    assert pool.now_s() - began_s < 1.0


def test_close_ends_busy_and_starting_workers(make_pool: MakePool) -> None:
    pool = make_pool()
    (joined,) = started(pool)
    pool.send(joined.worker, [task(pool, 1, ("misbehave",), 30.0)])
    pool.start(1)
    began_s = time.monotonic()
    pool.close()
    assert gone(joined.pid)
    assert time.monotonic() - began_s < 10.0


def test_without_a_connected_ray_the_pool_says_so() -> None:
    ray_cluster.shutdown()
    with pytest.raises(RecomposeError, match="needs a connected Ray"):
        RayPool(lambda: create("ray-probe"), STAGES)
