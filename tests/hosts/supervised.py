"""Show what a service on the near machine makes of a runner on the far one, from which it is cut off for a while:
``hosts.py python supervised.py SCENE`` prints figures as JSON."""

import json
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
from hosts import FAR, NEAR, cut, of_far
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from apps import registry
from runtime.pools.ray import cluster
from service import logs
from service.daemon.daemon import Daemon
from service.daemon.store.store import DaemonStore
from service.daemon.supervision.ray_host import RayHost
from service.runner.rpc.requests import ReadResults, Stop
from service.schemas.figures import DrainRequest
from service.schemas.requests import StartRequest
from service.schemas.results import Result
from service.schemas.spec import InputSpec, RunSpec
from service.schemas.status import Status
from tests.support.waiting import eventually

APP = "synthetic"
PATIENCE_S = 120.0
SHORT_S, LONG_S, LEASE_S = 10.0, 60.0, 15.0
RATE_PER_S = 20.0


class Service:
    """With one app, whose first runner is on the far machine."""

    def __init__(self, folder: Path, durability: str, lease_s: float) -> None:
        self.host = RayHost(os.environ["RAY_ADDRESS"])
        base = RunSpec(app="", journals=str(folder))
        self.daemon = Daemon({APP: registry.find(APP)}, self.host, DaemonStore(None), base)
        self.daemon.restore()
        with _first_on(FAR):
            how = {"durability": durability, "settings": {"lease_s": lease_s}, "options": {"compute": "wait"}}
            request = StartRequest(input=InputSpec(rate_per_s=RATE_PER_S), **how)
            self.daemon.apps.start(request.spec(APP))
            self.wait_for(lambda status: status.items.delivered >= 20)
        found = self.status().health.runner
        assert found.node == FAR
        self.first = found.pid

    def status(self) -> Status:
        return self.daemon.observation.status(APP)

    def wait_for(self, what: Callable[[Status], object]) -> Status:
        return eventually(self.status, what, PATIENCE_S, every_s=0.2)

    def close(self) -> None:
        self.daemon.apps.stop(APP, Stop(drain=False, timeout_s=0.0))
        self.daemon.close(drain=False)
        self.host.close()


class Progress(threading.Thread):
    """Looks twenty times a second how many results are out."""

    def __init__(self, served: Service) -> None:
        super().__init__(daemon=True)
        self._served, self._over = served, threading.Event()
        self._moved_s = [time.monotonic()]
        self.start()

    def run(self) -> None:
        before = -1
        while not self._over.wait(0.05):
            with suppress(Exception):
                if (now := self._served.status().items.delivered) != before:
                    self._moved_s.append(time.monotonic())
                    before = now

    def longest_gap_s(self) -> float:
        self._over.set()
        return max(later - earlier for earlier, later in pairwise(self._moved_s))


@contextmanager
def service(durability: str, lease_s: float) -> Iterator[Service]:
    folder = Path(tempfile.mkdtemp(dir="/var/tmp"))  # both machines see it
    made = Service(folder, durability, lease_s)
    try:
        yield made
    finally:
        made.close()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _first_on(address: str) -> Iterator[None]:
    """Where Ray would have any machine take it."""
    (node,) = [node.id for node in cluster.nodes() if node.address == address]
    strategy = NodeAffinitySchedulingStrategy(node, soft=False)
    before = cluster._where
    cluster._where = lambda: {"num_cpus": cluster.LEAST_CPUS, "scheduling_strategy": strategy}
    try:
        yield
    finally:
        cluster._where = before


def in_order(rows: Sequence[Result]) -> bool:
    return [row.serial for row in rows] == list(range(rows[0].serial, rows[0].serial + len(rows)))


def briefly(durability: str) -> dict[str, Any]:
    """Cut for less than the lease: nothing comes of it."""
    with service(durability, 30.0) as served:
        before = served.status()
        cut(True)
        time.sleep(SHORT_S)
        cut(False)
        joined_s = time.monotonic()
        served.wait_for(lambda status: status.items.delivered > before.items.delivered + RATE_PER_S * SHORT_S / 2)
        time.sleep(3.0)
        after = served.status()
        return {
            "same_runner": after.health.runner.pid == served.first,
            "same_run": (after.origin.run, after.origin.epoch) == (before.origin.run, before.origin.epoch),
            "killed": after.supervision.runner_restarts,
            "seen_again_s": time.monotonic() - joined_s - 3.0,
        }


def long() -> dict[str, Any]:
    """Cut for longer than the lease: another runner on the near machine, and none is left on the far one."""
    with service("exactly-once", LEASE_S) as served:
        before = served.status()
        old = of_far(served.first)
        cut(True)
        cut_s = time.monotonic()
        enough = before.items.delivered + 20
        after = served.wait_for(lambda status: status.origin.epoch == 2 and status.items.delivered > enough)
        again_s = time.monotonic() - cut_s
        time.sleep(max(0.0, LONG_S - again_s))
        cut(False)
        gone_s = _gone_within_s(old)
        later = served.status()
        window = served.daemon.observation.results(APP, ReadResults(None, 2000))
        return {
            "again_after_lease_s": again_s - LEASE_S, "node": after.health.runner.node, "near": NEAR,
            "epoch": later.origin.epoch, "zombie_gone_s": gone_s, "in_order": in_order(window),
        }  # fmt: skip


def drained(durability: str) -> dict[str, Any]:
    """The machine of the runner is to go: the runner moves, and its workers follow."""
    with service(durability, 30.0) as served:
        served.wait_for(lambda status: status.items.delivered >= 150)
        before = served.status()
        seen = Progress(served)
        served.daemon.nodes.drain(FAR, DrainRequest(deadline_s=60.0))
        asked_s = time.monotonic()
        moved = served.wait_for(lambda status: status.health.runner and status.health.runner.pid != served.first)
        moved_s = time.monotonic()
        served.wait_for(lambda status: status.workers and not any(worker.node == FAR for worker in status.workers))
        emptied_s = time.monotonic()
        more = before.items.delivered if durability != "none" else 0
        after = served.wait_for(lambda status: status.items.delivered >= more + 100)
        rows = served.daemon.observation.results(APP, ReadResults(None, 2000))
        return {
            "left": after.health.runner.node, "near": NEAR, "gap_s": seen.longest_gap_s(),
            "moved_s": moved_s - asked_s, "emptied_s": emptied_s - moved_s, "emptied_after_s": emptied_s - asked_s,
            "unfinished": moved.items.accepted - moved.items.delivered, "in_order": in_order(rows),
            "epoch": after.origin.epoch, "same_run": after.origin.run == before.origin.run,
            "restarts": after.supervision.runner_restarts, "lost_workers": after.health.restarts or 0,
            "failed": after.items.failed,
        }  # fmt: skip


def _gone_within_s(pid: int) -> float:
    began_s = time.monotonic()
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        if time.monotonic() > began_s + PATIENCE_S:
            raise TimeoutError(f"process {pid} of the far machine is still there")
        time.sleep(0.2)
    return time.monotonic() - began_s


SCENES: dict[str, Callable[[], dict[str, Any]]] = {"long": long}
for each in ("none", "exactly-once"):
    SCENES |= {f"briefly-{each}": partial(briefly, each), f"drained-{each}": partial(drained, each)}

if __name__ == "__main__":
    logs.configure("info", console=False)
    print(json.dumps(SCENES[sys.argv[1]]()), flush=True)
    os._exit(0)  # Ray of the rig ends with its machines
