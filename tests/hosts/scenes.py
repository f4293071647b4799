"""Act on the near one of two machines: ``hosts.py python scenes.py SCENE`` prints figures as JSON."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from hosts import FAR, FAR_PID, LAST_PID, NEAR, address_of, cut, inside, join, slow
from ray._private import state as ray_state
from rig import Rig

from apps.contract import App
from compositions.model import Stage
from runtime.dispatch.outcomes import Delivered
from runtime.dispatch.settings import DispatcherSettings
from runtime.pools.ray import cluster
from runtime.pools.ray.pool import RayPool
from service.runner.rpc.requests import ReadDecisions, ReadStatus, ReadWhatIf, ResetGaps, Start, Stop
from service.runner.runner import Runner
from tests.support.kills import judged, longest_gap_s, runner_of, wait_until_up
from tests.support.waiting import wait_until

KILLED_FOR_S = 6.0
PATIENCE_S, JOINED_FOR_S = 90.0, 4.0
WAIT_S, BOUND_S = 0.04, 0.12
HALF_LOAD_S = 2 * WAIT_S / 6


@contextmanager
def runner_up(**settings: Any) -> Iterator[tuple[Runner, str]]:
    """A runner whose workers are there, and the file of its results; in the end it is stopped and drained."""
    out_path = os.path.join(os.environ["TMPDIR"], "results.jsonl")
    runner = runner_of(out_path, settings=settings)
    runner.ask(Start())
    try:
        wait_until_up(runner)
        yield runner, out_path
    finally:
        runner.ask(Stop(drain=True, timeout_s=30.0))


def killed() -> dict[str, Any]:
    """The far machine goes with most of the workers, all at once."""
    with runner_up(worker_cpus=1) as (runner, out_path):  # so that two are near at most
        workers = runner.ask(ReadStatus()).workers
        runner.ask(ResetGaps())
        os.kill(int(os.environ[FAR_PID]), signal.SIGKILL)
        time.sleep(KILLED_FOR_S)
        restarts, gap_s = runner.ask(ReadStatus()).health.restarts or 0, longest_gap_s(runner)
    seen = judged(runner, out_path, 1, restarts, gap_s)
    far = [worker for worker in workers if worker.node == FAR]
    return {**asdict(seen), "workers": len(workers), "workers_lost": len(far)}


def parted() -> dict[str, Any]:
    """The cable is cut until no far worker is left, and joined: what they still had to send may come then."""
    with runner_up(worker_cpus=1) as (runner, out_path):  # so that two are near at most
        far = {worker.pid for worker in runner.ask(ReadStatus()).workers if worker.node == FAR}
        cut(True)
        wait_until(lambda: not any(worker.node == FAR for worker in runner.ask(ReadStatus()).workers), PATIENCE_S)
        before = runner.ask(ReadStatus()).items.delivered
        cut(False)
        time.sleep(JOINED_FOR_S)
        wait_until(lambda: runner.ask(ReadStatus()).items.delivered > before + 40, PATIENCE_S)
        status = runner.ask(ReadStatus())
    return {**asdict(judged(runner, out_path, 0, status.health.restarts or 0, 0.0)), "far": len(far)}


def cores() -> dict[str, Any]:
    """Three machines of 1, 4 and 2 CPUs: what status and what-if say, where workers are, and one machine is drained."""
    with runner_up(spares=0) as (runner, out_path):
        status = runner.ask(ReadStatus())
        told = {"cost": status.resources.cost.cores, "what_if": runner.ask(ReadWhatIf()).cores}
        before = Counter(worker.node for worker in status.workers)
        going = [sys.executable, "-m", "runtime.pools.ray.leave", "60"]
        leaving = subprocess.Popen(inside(os.environ[LAST_PID], *going))
        wait_until(lambda: len(ray_state.state.get_draining_nodes()) == 1, PATIENCE_S)
        began_s = time.monotonic()
        wait_until(lambda: not any(each.node == address_of(2) for each in runner.ask(ReadStatus()).workers), PATIENCE_S)
        emptied_s = time.monotonic() - began_s
        gone = leaving.wait(PATIENCE_S)
        later = runner.ask(ReadStatus())
        left = Counter(worker.node for worker in later.workers)
        time.sleep(2.0)
        told |= {"after": runner.ask(ReadStatus()).resources.cost.cores}
        restarts = later.health.restarts or 0
    seen = asdict(judged(runner, out_path, 0, restarts, 0.0))
    return {**seen, **told, "workers": dict(before), "left": dict(left), "emptied_s": emptied_s, "gone": gone}


def joined() -> dict[str, Any]:
    """A second machine joins one whose core is too little for what is offered: when its first worker has been there,
    where the workers are then, and the share of the items that its workers did afterwards."""
    with runner_up(spares=0) as (runner, out_path):
        join()
        wait_until(lambda: len(cluster.nodes()) == 2, PATIENCE_S)
        joined_s = time.monotonic()

        def there() -> Counter[str]:
            return Counter(worker.node for worker in runner.ask(ReadStatus()).workers)

        wait_until(lambda: there()[FAR] > 0, PATIENCE_S)
        first_s = time.monotonic() - joined_s
        wait_until(lambda: there()[NEAR] == 1, PATIENCE_S)
        all_s, status = time.monotonic() - joined_s, runner.ask(ReadStatus())
        why = [each.reason for each in runner.ask(ReadDecisions(0, 100)) if each.trigger == "placement"]
    seen = asdict(judged(runner, out_path, 0, status.health.restarts or 0, 0.0))
    on = Counter(each.node for each in status.workers)
    return {**seen, "first_s": first_s, "all_s": all_s, "workers": dict(on), "why": why}


class Waits(App):
    """One stage that waits."""

    name = "waits"
    stages = (Stage("wait"),)

    def wait(self, value: Any) -> Any:
        time.sleep(WAIT_S)
        return value


def slowed() -> dict[str, Any]:
    """The last of three machines, which has two of six workers, is 50 ms away for a while, at half load: the share of
    the items of each second that were out within a bound which the others keep easily."""
    pool = RayPool(Waits, ["wait"])
    try:
        rig = Rig(Waits.stages, pool, pool.codec, lambda _: None, settings=DispatcherSettings(spares=0))
        rig.open("Par*6(wait)").run_until(lambda: len(rig.engine.view().workers) == 6)
        on = Counter(worker.node for worker in rig.engine.view().workers)
        before = _shares(rig, 5)
        slow(True)
        after = _shares(rig, 20)
        slow(False)
        return {"workers": dict(on), "before": before, "after": after, "again": _shares(rig, 5)}
    finally:
        pool.close()


def _shares(rig: Rig, seconds: int) -> list[float]:
    shares = []
    for _ in range(seconds):
        begin_s, rig.outcomes = rig.engine.now_s, []
        for at in range(int(1 / HALF_LOAD_S)):
            due_s = begin_s + at * HALF_LOAD_S
            while rig.engine.now_s < due_s:
                rig.outcomes += rig.engine.advance(due_s)
            rig.engine.admit(rig.codec.encode([at]), (due_s,))
        out = [each for each in rig.outcomes if isinstance(each, Delivered)]
        shares.append(round(sum(each.at_s - each.arrived_s[0] <= BOUND_S for each in out) / max(1, len(out)), 3))
    return shares


def main() -> None:
    cluster.connect(os.environ["RAY_ADDRESS"])
    scenes = {each.__name__: each for each in (killed, parted, cores, slowed, joined)}
    print(json.dumps(scenes[sys.argv[1]]()), flush=True)


if __name__ == "__main__":
    main()
