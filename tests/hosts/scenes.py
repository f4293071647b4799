"""Act on the near one of two machines: ``hosts.py python scenes.py SCENE`` prints figures as JSON."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from statistics import median
from typing import Any

from hosts import FAR, FAR_PID, address_of, cut, slow
from rig import Rig

from apps.contract import App
from compositions.model import Stage
from lab.benchmarks.frames import Frames
from runtime.dispatch.outcomes import Delivered, TaskTimed
from runtime.dispatch.settings import DispatcherSettings
from runtime.pools.ray import cluster, nodes
from runtime.pools.ray.pool import RayPool
from runtime.pools.ray.settings import RayPoolSettings
from service.runner.rpc.requests import ReadStatus, ReadWhatIf, ResetGaps, Start, Stop
from tests.support.kills import judged, longest_gap_s, runner_of, wait_until_up

ALONE, STREAM_S, KILLED_FOR_S = 60, 3.0, 6.0
PATIENCE_S, JOINED_FOR_S = 90.0, 4.0
WAIT_S, BOUND_S = 0.04, 0.12
HALF_LOAD_S = 2 * WAIT_S / 6


def killed() -> dict[str, Any]:
    """The far machine goes with most of the workers, all at once."""
    out_path = os.path.join(os.environ["TMPDIR"], "results.jsonl")
    runner = runner_of(out_path, settings={"worker_cpus": 1})  # so that two are near at most
    runner.ask(Start())
    try:
        wait_until_up(runner)
        workers = runner.ask(ReadStatus()).workers
        runner.ask(ResetGaps())
        os.kill(int(os.environ[FAR_PID]), signal.SIGKILL)
        time.sleep(KILLED_FOR_S)
        restarts, gap_s = runner.ask(ReadStatus()).health.restarts or 0, longest_gap_s(runner)
    finally:
        runner.ask(Stop())
    seen = judged(runner, out_path, 1, restarts, gap_s)
    far = [worker for worker in workers if worker.node == FAR]
    return {**asdict(seen), "workers": len(workers), "workers_lost": len(far)}


def parted() -> dict[str, Any]:
    """The cable is cut until no far worker is left, and joined: what they still had to send may come then."""
    out_path = os.path.join(os.environ["TMPDIR"], "results.jsonl")
    runner = runner_of(out_path, settings={"worker_cpus": 1})  # so that two are near at most
    runner.ask(Start())
    try:
        wait_until_up(runner)
        far = {worker.pid for worker in runner.ask(ReadStatus()).workers if worker.node == FAR}
        cut(True)
        _wait_until(lambda: not any(worker.node == FAR for worker in runner.ask(ReadStatus()).workers))
        before = runner.ask(ReadStatus()).items.delivered
        cut(False)
        time.sleep(JOINED_FOR_S)
        _wait_until(lambda: runner.ask(ReadStatus()).items.delivered > before + 40)
        status = runner.ask(ReadStatus())
    finally:
        runner.ask(Stop(drain=True, timeout_s=30.0))
    return {**asdict(judged(runner, out_path, 0, status.health.restarts or 0, 0.0)), "far": len(far)}


def _wait_until(what: Callable[[], bool]) -> None:
    give_up_s = time.monotonic() + PATIENCE_S
    while not what():
        if time.monotonic() > give_up_s:
            raise TimeoutError(f"it did not come within {PATIENCE_S:g} s")
        time.sleep(0.2)


def cores() -> dict[str, Any]:
    """Three machines of 1, 4 and 2 CPUs: what status and what-if say, where workers are, and one machine is drained."""
    cluster.connect(os.environ["RAY_ADDRESS"])
    out_path = os.path.join(os.environ["TMPDIR"], "results.jsonl")
    runner = runner_of(out_path, settings={"spares": 0})
    runner.ask(Start())
    try:
        wait_until_up(runner)
        status = runner.ask(ReadStatus())
        told = {"cost": status.resources.cost.cores, "what_if": runner.ask(ReadWhatIf()).cores}
        before = Counter(worker.node for worker in status.workers)
        to_drain = next(node.id for node in cluster.nodes() if node.address == address_of(2))
        nodes.drain(to_drain, 60.0)
        began_s = time.monotonic()
        _wait_until(lambda: not any(each.node == address_of(2) for each in runner.ask(ReadStatus()).workers))
        emptied_s = time.monotonic() - began_s
        later = runner.ask(ReadStatus())
        left = Counter(worker.node for worker in later.workers)
        time.sleep(2.0)
        told |= {"after": runner.ask(ReadStatus()).resources.cost.cores}
        restarts = later.health.restarts or 0
    finally:
        runner.ask(Stop(drain=True, timeout_s=30.0))
    seen = asdict(judged(runner, out_path, 0, restarts, 0.0))
    return {**seen, **told, "workers": dict(before), "left": dict(left), "emptied_s": emptied_s}


class Waits(App):
    """One stage that waits."""

    name = "waits"
    stages = (Stage("wait"),)

    def wait(self, value: Any) -> Any:
        time.sleep(WAIT_S)
        return value


def slowed() -> dict[str, Any]:
    """Something happens to the last of three machines, which has two of six workers, at half load: the share of the
    items of each second that were out within a bound which the others keep easily."""
    pool = RayPool(Waits, ["wait"], RayPoolSettings())
    settings = DispatcherSettings(spares=0)
    rig = Rig(Waits.stages, pool, pool.codec, lambda _: None, settings=settings).open("Par*6(wait)")
    try:
        rig.run_until(lambda: len(rig.engine.view().workers) == 6)
        on = Counter(worker.node for worker in rig.engine.view().workers)
        before = _shares(rig, 5)
        slow(True)
        after = _shares(rig, 20)
        slow(False)
        again = _shares(rig, 5)
        return {"workers": dict(on), "before": before, "after": after, "again": again}
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


def hops() -> dict[str, Any]:
    """By machine and size of bundles: p50 of a hop, one bundle at a time; items a second, as many as there is room
    for. A hop is from a task's sending to its return, without its work: what the monitor gets."""
    return {f"{where} {size}": _hops(where, size) for where in ("near", "far") for size in (1, 64, 512)}


def _hops(where: str, size: int) -> dict[str, float]:
    pool = RayPool(Frames, [stage.name for stage in Frames.stages], RayPoolSettings(resources={where: 1}))
    settings = DispatcherSettings(spares=0)
    rig = Rig(Frames.stages, pool, pool.codec, lambda _: None, settings=settings).open("Seq(s1,s2,s3,s4)")
    try:
        bundle = range(size)
        for _ in range(ALONE):
            rig.feed_bundle(bundle)
            rig.finish()
        hops_s = [each.hop_s for each in rig.outcomes if isinstance(each, TaskTimed) and each.hop_s is not None]
        began_s, fed = rig.engine.now_s, 0
        while rig.engine.now_s < began_s + STREAM_S:
            rig.feed_bundle(bundle)
            fed += size
        rig.finish()
        return {"hop_ms": median(hops_s[ALONE // 6 :]) * 1e3, "items_per_s": fed / (rig.engine.now_s - began_s)}
    finally:
        pool.close()


def main() -> None:
    cluster.connect(os.environ["RAY_ADDRESS"])
    print(
        json.dumps({"killed": killed, "parted": parted, "hops": hops, "cores": cores, "slowed": slowed}[sys.argv[1]]()),
        flush=True,
    )


if __name__ == "__main__":
    main()
