"""Objects hosted in processes of a real Ray: calls, errors, names, and workers that belong to them."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from apps.registry import create
from compositions.errors import CompositionError, Fault
from runtime.dispatch.events import TaskDone, WorkerJoined
from runtime.dispatch.instructions import Task
from runtime.pools.ray import cluster as ray_cluster
from runtime.pools.ray.pool import RayPool
from runtime.pools.ray.settings import RayPoolSettings
from runtime.transport.local_calls import LocalAddress
from tests.support.waiting import wait_until

APPS = Path(__file__).parent / "ray_apps"


class Hosted:
    """What the tests host; imported in the other process. A request is a name and its arguments."""

    def __init__(self, start: int = 0) -> None:
        if start < 0:
            raise CompositionError([Fault("start", f"{start} is negative")])
        self.number = start

    def ask(self, request: tuple[Any, ...], *, timeout_s: float) -> Any:
        match request:
            case ("add", more):
                return self.add(more)
            case ("pid",):
                return os.getpid()
            case ("refuse",):
                raise CompositionError([Fault("a.b", "is wrong"), Fault("a.c", "too")])
            case ("break_down",):
                return self.number / 0
            case ("hold", seconds):
                time.sleep(seconds)
            case ("be_late",):
                raise TimeoutError("the loop did not come to it")
            case ("open_pool",):
                return self.open_pool()
        return None

    def add(self, more: int) -> int:
        self.number += more
        return self.number

    def open_pool(self) -> int:
        """Starts a worker that waits for no other pool, and returns its process id once it has joined."""
        make_app = partial(create, "ray-probe", {}, [APPS])
        self.pool = RayPool(make_app, ("double", "count", "misbehave"), RayPoolSettings(orphan_s=0.0))
        self.pool.start(1)
        (joined,) = self._events(WorkerJoined)
        self.pool.send(joined.worker, [Task(1, 0, ("double",), self.pool.codec.encode([21]))])
        (done,) = self._events(TaskDone)
        assert self.pool.codec.decode(done.payload) == [42]
        return int(joined.pid)

    def _events(self, kind: type) -> list[Any]:
        deadline_s = time.monotonic() + 30
        while time.monotonic() < deadline_s:
            found = [event for event in self.pool.wait(deadline_s) if isinstance(event, kind)]
            if found:
                return found
        raise AssertionError(f"no {kind.__name__} within 30 s")


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    # Hosted classes of this file are found by name in Ray's processes.
    old = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = str(Path(__file__).parent)
    sys.path.insert(0, str(Path(__file__).parent))
    ray_cluster.connect()
    yield
    ray_cluster.shutdown()
    sys.path.remove(str(Path(__file__).parent))
    os.environ.pop("PYTHONPATH")
    if old is not None:
        os.environ["PYTHONPATH"] = old


def gone(pid: int, within_s: float = 10.0) -> bool:
    try:
        psutil.Process(pid).wait(within_s)
    except psutil.NoSuchProcess:
        return True
    except psutil.TimeoutExpired:
        return False
    return True


def test_a_hosted_object_keeps_its_state_in_a_process_of_its_own() -> None:
    remote = ray_cluster.spawn("adder", Hosted, 5)
    assert (remote.ask(("add", 2), timeout_s=30.0), remote.ask(("add", 3), timeout_s=30.0)) == (7, 10)
    assert remote.ask(("pid",), timeout_s=30.0) != os.getpid()
    assert remote.state() is ray_cluster.Seen.ALIVE
    remote.kill()


def test_a_name_is_found_until_it_is_killed_and_then_free_again() -> None:
    remote = ray_cluster.spawn("named", Hosted, 1)
    found = ray_cluster.find("named")
    assert found is not None
    assert found.ask(("add", 1), timeout_s=30.0) == 2
    with pytest.raises(ray_cluster.ClusterError, match="'named' cannot be started"):
        ray_cluster.spawn("named", Hosted)
    found.kill()
    assert ray_cluster.find("named") is None
    assert remote.state() is ray_cluster.Seen.DEAD
    with pytest.raises(ray_cluster.RemoteGone, match="named has ended"):
        remote.ask(("add", 1), timeout_s=30.0)
    ray_cluster.spawn("named", Hosted).kill()


def test_errors_for_the_user_arrive_as_themselves_and_others_with_their_traceback() -> None:
    remote = ray_cluster.spawn("refuser", Hosted)
    with pytest.raises(CompositionError) as caught:
        remote.ask(("refuse",), timeout_s=30.0)
    assert caught.value.faults == (Fault("a.b", "is wrong"), Fault("a.c", "too"))
    assert str(caught.value) == "a.b: is wrong\na.c: too"
    with pytest.raises(ray_cluster.RemoteFault, match="ZeroDivisionError") as broken:
        remote.ask(("break_down",), timeout_s=30.0)
    assert "self.number / 0" in str(broken.value)
    assert remote.ask(("add", 1), timeout_s=30.0) == 1
    remote.kill()


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
        remote.ask(("add", 1), timeout_s=30.0)
    while not remote.is_warm:
        time.sleep(0.05)
    remote.build(Hosted, (5,), lambda: False)
    assert remote.is_built
    assert remote.ask(("add", 1), timeout_s=30.0) == 6
    remote.kill()


def test_calls_are_answered_while_another_runs_and_a_late_one_says_so() -> None:
    remote = ray_cluster.spawn("busy", Hosted)
    with pytest.raises(ray_cluster.RemoteTimeout, match=r"busy did not answer tuple within 0\.1 s"):
        remote.ask(("hold", 3.0), timeout_s=0.1)
    assert remote.ask(("add", 1), timeout_s=2.0) == 1
    remote.kill()


def test_on_its_own_host_an_object_is_asked_beside_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    remote = ray_cluster.spawn("near", Hosted)
    assert remote.ask(("add", 1), timeout_s=30.0) == 1
    with monkeypatch.context() as without_ray:
        without_ray.delattr(ray_cluster.ray, "get")
        assert remote.ask(("add", 2), timeout_s=30.0) == 3
    remote.kill()


def test_from_another_host_it_is_asked_through_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the socket of its host is not to be found."""
    monkeypatch.setattr(LocalAddress, "path", property(lambda _: "/no/such/socket"))
    remote = ray_cluster.spawn("far", Hosted)
    assert [remote.ask(("add", 1), timeout_s=30.0) for _ in range(2)] == [1, 2]
    remote.kill()


def test_workers_started_by_a_hosted_object_end_with_it() -> None:
    remote = ray_cluster.spawn("runner", Hosted)
    worker_pid = remote.ask(("open_pool",), timeout_s=60.0)
    assert psutil.pid_exists(worker_pid)
    remote.kill()
    assert gone(worker_pid)


def test_nodes_tell_the_cores_of_this_machine() -> None:
    (node,) = ray_cluster.nodes()
    assert node.cores == len(os.sched_getaffinity(0))
    assert ray_cluster.head_answers()


def test_a_ray_that_is_not_there_is_a_sentence() -> None:
    code = (
        "from runtime.pools.ray import cluster as c\n"
        "try: c.connect('127.0.0.1:1')\n"
        "except c.ClusterError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, cwd="/", timeout=120
    )
    assert "Ray at '127.0.0.1:1' cannot be reached" in done.stdout
