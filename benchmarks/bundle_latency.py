"""A latency that is asked for, and the size of bundles that nobody set: four light stages on the ray pool.

    python -m benchmarks.bundle_latency [--quick] [--json] [--rate 1000] [--target-ms 2] [--stage-us 50]

The whole way that a user gets, from source to results; latency counts from when an item was due to its delivery, as
`/status` has it. The rule is what was in force before a controller chose: as many as a quarter of the target bears.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from math import log2
from typing import Any

from benchmarks.harness import Goal, Table, report
from compositions.enumeration import generate
from compositions.model import Composition, Group, Stage
from control.decisions import Mode
from control.grain import PATIENCE_SHARE
from profiler.slo import Slo
from runtime.housekeeping import settle
from runtime.pools import ray_cluster
from service.bodies.spec import InputSpec, RunSpec
from service.bodies.status import Status
from service.running.asking.requests import ReadStatus, Start, Stop
from service.running.runner import Runner

STAGES = ("f1", "f2", "f3", "f4")
CHAIN = Composition("chain", tuple(Group((name,)) for name in STAGES))
UP_S = 60.0
SETTLE_S = 5.0
"""Until stages are profiled and a controller has found its size."""
OPEN, DEFAULT, ONE = "nothing asked for", "four groups, the size left open", "four groups, one at a time"
RULE, MANY = "four groups, what a quarter of the target bears (rule)", "four groups, 64 at most"


@dataclass(frozen=True)
class Load:
    """What all of them get."""

    rate_per_s: float
    target_ms: float
    seconds: float
    stage_ms: float = 0.05

    @property
    def asked(self) -> Mapping[str, Mapping[str, Any]]:
        """Who is compared, and what each asks of bundles."""
        bears = PATIENCE_SHARE * self.target_ms / (self.stage_ms * len(STAGES))
        rule = 1 << int(log2(max(bears, 1.0)))
        return {OPEN: {}, DEFAULT: {}, ONE: {"items": 1}, RULE: {"items": rule}, MANY: {"items": 64}}


def p95_ms(load: Load, batching: Mapping[str, Any], *, pinned: bool) -> float:
    """Of the last window of a run; who chooses the size is said. Not ``pinned``: the composition is left open too."""
    every = generate([Stage(name) for name in STAGES], max_workers=len(STAGES), replicas=[1])
    spec = RunSpec(
        app="synthetic",
        options={"weights": ":".join("1" for _ in STAGES), "total_ms": load.stage_ms * len(STAGES)},
        mode=Mode.PINNED if pinned else Mode.AUTO,
        compositions=(CHAIN,) if pinned else (CHAIN, *every),
        composition=CHAIN.name,
        input=InputSpec(rate_per_s=load.rate_per_s),
        slo=Slo("latency", load.target_ms, 0.0, "p95"),
        batching=dict(batching),
    )
    runner = Runner(spec)
    settle()  # as the process of a runner does
    runner.ask(Start())
    try:
        _until_delivering(runner)
        time.sleep(SETTLE_S + load.seconds)
        return _told(runner.ask(ReadStatus()))
    finally:
        runner.ask(Stop(drain=False))


def _until_delivering(runner: Runner) -> None:
    until_s = time.monotonic() + UP_S
    while not (status := runner.ask(ReadStatus())).items.delivered:
        if time.monotonic() > until_s:
            raise TimeoutError(f"nothing was delivered within {UP_S:g} s: {status.failure}")
        time.sleep(0.05)


def _told(status: Status) -> float:
    batching, p95 = status.batching, status.latency_ms.p95
    if p95 is None or batching is None:
        raise ValueError(f"nothing was measured: {status.failure or status.held_up}")
    composition = status.composition.notation if status.composition else "none"
    print(f"  {p95:.2f} ms; {composition}; {batching.controller}, {batching.size}: {batching.reason}", flush=True)
    return p95


def measure(load: Load, rounds: int) -> list[Table]:
    goals = [Goal(f"of the target: {name}", name, "target", 1.0, True) for name in (OPEN, DEFAULT)]
    table = Table(f"p95 at {load.rate_per_s:g} items/s, four stages of {load.stage_ms * 1e3:g} µs", "ms", goals)
    contenders = {name: partial(p95_ms, load, asked, pinned=name != OPEN) for name, asked in load.asked.items()}
    table.run({**contenders, "target": lambda: load.target_ms}, rounds)
    return [table]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="1 short round instead of 3 longer ones")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    parser.add_argument("--rate", type=float, default=1000.0, help="items a second")
    parser.add_argument("--target-ms", type=float, default=2.0, help="of the p95")
    parser.add_argument("--stage-us", type=float, default=50.0, help="work of each of the four stages")
    arguments = parser.parse_args()
    ray_cluster.connect()
    load = Load(arguments.rate, arguments.target_ms, 5.0 if arguments.quick else 15.0, arguments.stage_us / 1e3)
    try:
        report(measure(load, 1 if arguments.quick else 3), arguments.json)
    finally:
        ray_cluster.shutdown()


if __name__ == "__main__":
    main()
