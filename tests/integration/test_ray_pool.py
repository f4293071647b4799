"""A real Ray: its pool of workers, with every way to die, and objects that processes of it host; nothing is left."""

import os
import signal
import subprocess
import sys
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
from compositions.errors import CompositionError, Fault, RecomposeError
from runtime.arena.reference import Reference
from runtime.dispatch.events import Event, TaskDone, TaskFailed, WorkerJoined, WorkerLost, WorkerStartFailed
from runtime.dispatch.instructions import Task
from runtime.pools.ray import cluster as ray_cluster
from runtime.pools.ray.pool import RayPool
from runtime.pools.ray.settings import RayPoolSettings
from runtime.transport.local_calls import LocalAddress
from tests.support.waiting import wait_until

HERE = Path(__file__).parent
STAGES = ("double", "count", "misbehave")
PATIENCE_S = 30.0
MakePool = Callable[..., RayPool]


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    """Classes of this file are found by name in Ray's processes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(HERE), prepend=os.pathsep)
        ray_cluster.connect()
        yield
        ray_cluster.shutdown()


def new_pool(settings: RayPoolSettings | None = None, **options: Any) -> RayPool:
    return RayPool(partial(create, "ray-probe", options, [HERE / "ray_apps"]), STAGES, settings)


@pytest.fixture
def make_pool() -> Iterator[MakePool]:
    """Makes pools of the probe app; checks afterwards that no process and no socket directory is left."""
    pools: list[RayPool] = []
    pids: set[int] = set()

    def make(*settings: RayPoolSettings, **options: Any) -> RayPool:
        pools.append(new_pool(*settings, **options))
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
def test_large_frames_are_shared_here_and_travel_by_network(make_pool: MakePool, transport: Any, shared: bool) -> None:
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
        ({"start_timeout_s": 3.0}, {"setup_s": 20.0}, ["was not ready 3 s after"]),
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
    assert failed.passing == ("start_timeout_s" in settings), "no node joins a Ray of our own"


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


# --- hosted objects ---------------------------------------------------------------------------------------------------


class Hosted:
    """What the tests host; imported in the other process. A request is a name and its arguments."""

    def __init__(self, start: int = 0) -> None:
        if start < 0:
            raise CompositionError([Fault("start", f"{start} is negative")])
        self.number = start

    def ask(self, request: tuple[Any, ...], *, timeout_s: float) -> Any:
        match request:
            case ("add", more):
                self.number += more
                return self.number
            case ("pid",):
                return os.getpid()
            case ("refuse",):
                raise CompositionError([Fault("a.b", "is wrong"), Fault("a.c", "too")])
            case ("break_down",):
                return self.number / 0
            case ("hold", seconds):
                time.sleep(seconds)
        return None


def add(remote: ray_cluster.RemoteObject, more: int) -> Any:
    return remote.ask(("add", more), timeout_s=30.0)


@pytest.fixture(scope="module")
def hosted(cluster: None) -> ray_cluster.RemoteObject:
    """It ends with its Ray."""
    return ray_cluster.spawn("hosted", Hosted, 5)


def test_a_hosted_object_keeps_its_state_in_a_process_of_its_own_and_is_asked_beside_ray(
    hosted: ray_cluster.RemoteObject, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert add(hosted, 2) == 7
    with monkeypatch.context() as without_ray:
        without_ray.delattr(ray_cluster.ray, "get")
        assert add(hosted, 3) == 10
    assert hosted.ask(("pid",), timeout_s=30.0) != os.getpid()
    assert hosted.state() is ray_cluster.Seen.ALIVE


def test_errors_for_the_user_arrive_as_they_are_and_others_with_a_traceback(
    hosted: ray_cluster.RemoteObject,
) -> None:
    with pytest.raises(CompositionError) as caught:
        hosted.ask(("refuse",), timeout_s=30.0)
    assert caught.value.faults == (Fault("a.b", "is wrong"), Fault("a.c", "too"))
    assert str(caught.value) == "a.b: is wrong\na.c: too"
    with pytest.raises(ray_cluster.RemoteFault, match="ZeroDivisionError") as broken:
        hosted.ask(("break_down",), timeout_s=30.0)
    assert "self.number / 0" in str(broken.value)
    assert add(hosted, 0) >= 5


def test_calls_are_answered_while_another_runs_and_a_late_one_says_so(hosted: ray_cluster.RemoteObject) -> None:
    with pytest.raises(ray_cluster.RemoteTimeout, match=r"hosted did not answer tuple within 0\.1 s"):
        hosted.ask(("hold", 3.0), timeout_s=0.1)
    assert hosted.ask(("add", 0), timeout_s=2.0) >= 5


def test_a_name_is_found_until_it_is_killed_and_then_free_again() -> None:
    remote = ray_cluster.spawn("named", Hosted, 1)
    found = ray_cluster.find("named")
    assert found is not None
    assert add(found, 1) == 2
    with pytest.raises(ray_cluster.ClusterError, match="'named' cannot be started"):
        ray_cluster.spawn("named", Hosted)
    found.kill()
    assert ray_cluster.find("named") is None
    assert remote.state() is ray_cluster.Seen.DEAD
    with pytest.raises(ray_cluster.RemoteGone, match="named has ended"):
        add(remote, 1)
    ray_cluster.spawn("named", Hosted).kill()


def test_an_object_that_refuses_to_be_built_leaves_nothing_behind() -> None:
    with pytest.raises(CompositionError, match="start: -1 is negative"):
        ray_cluster.spawn("unborn", Hosted, -1)
    assert ray_cluster.find("unborn") is None


def test_an_object_is_built_in_a_process_that_was_begun_and_warmed_before() -> None:
    remote = ray_cluster.begun("waits")
    remote.warm(time.sleep, 0.5)
    assert not remote.is_warm
    wait_until(lambda: not remote.is_built)  # a process that does not answer yet counts as built
    with pytest.raises(ray_cluster.RemoteGone, match="waits has not been built"):
        add(remote, 1)
    wait_until(lambda: remote.is_warm)
    remote.build(Hosted, (5,), lambda: False)
    assert remote.is_built
    assert add(remote, 1) == 6
    remote.kill()


def test_from_another_host_it_is_asked_through_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the socket of its host is not to be found."""
    monkeypatch.setattr(LocalAddress, "path", property(lambda _: "/no/such/socket"))
    remote = ray_cluster.spawn("far", Hosted)
    assert [add(remote, 1) for _ in range(2)] == [1, 2]
    remote.kill()


# --- the cluster ------------------------------------------------------------------------------------------------------


def test_a_ray_that_is_not_there_is_a_sentence() -> None:
    code = "from runtime.pools.ray import cluster; cluster.connect('127.0.0.1:1')"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=120)
    assert "ClusterError: Ray at '127.0.0.1:1' cannot be reached" in done.stderr


def test_without_a_connected_ray_the_pool_says_so() -> None:
    ray_cluster.shutdown()
    with pytest.raises(RecomposeError, match="needs a connected Ray"):
        RayPool(lambda: create("ray-probe"), STAGES)
