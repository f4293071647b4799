"""Overload with ``shed``: what is offered in vain must cost next to nothing, neither rate nor memory.

    python -m benchmarks.shed [--quick] [--json] [--payload BYTES]

Eight workers, half a second an item on average (lognormal, waiting): 16 items/s, and results that wait for each other.
They are offered a little more than that, then 200, 1,000 and 4,000 a second, in turn within one run; delivered items a
second are compared within a round. Memory is that of this process, which holds the runner and not the workers.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import psutil

from apps.input.rates import Fixed
from benchmarks.harness import Goal, Table, report
from compositions.model import Composition, Group, Pattern
from control.decisions import Mode
from runtime.pools import ray_cluster
from service.bodies.figures import Items
from service.bodies.spec import InputSpec, RunSpec
from service.running.asking.requests import ReadStatus, ReadSummary, SetRate, Start, Stop
from service.running.runner import Runner

STAGE_MS = 500.0
EIGHT = Composition("eight", (Group(("f1",), Pattern.PAR, 8),))
CAPACITY_PER_S = 20.0
"""Offered to see what can be delivered: a little more than that."""
OFFERED = (200.0, 1000.0, 4000.0)
UP_S = 60.0
SETTLE_S = 2.0


def name(offered_per_s: float) -> str:
    return f"{offered_per_s:,g}/s offered"


@contextmanager
def running(payload_bytes: int) -> Iterator[Runner]:
    options = {
        "weights": "1", "total_ms": STAGE_MS, "compute": "wait", "distribution": "lognormal", "cv": 0.2,
        "payload_bytes": payload_bytes,
    }  # fmt: skip
    spec = RunSpec(
        app="synthetic", options=options, mode=Mode.PINNED, overload="shed", compositions=(EIGHT,), composition="eight",
        input=InputSpec(rate_per_s=CAPACITY_PER_S),
    )  # fmt: skip
    runner = Runner(spec)
    runner.ask(Start())
    try:
        wait_for(runner, 0)
        yield runner
    finally:
        runner.ask(Stop(drain=False))
        items = runner.ask(ReadSummary()).items
        if items is None or items.failed or items.lost or items.misordered:
            raise ValueError(f"what must never happen: {items}")


def wait_for(runner: Runner, delivered: int) -> Items:
    """Until there is another delivery than the first so many."""
    until_s = time.monotonic() + UP_S
    while (status := runner.ask(ReadStatus())).items.delivered == delivered:
        if status.failure is not None or time.monotonic() > until_s:
            raise TimeoutError(f"nothing was delivered: {status.failure or f'within {UP_S:g} s'}")
        time.sleep(0.001)
    return status.items


class Measured:
    """One runner, offered this and that."""

    def __init__(self, runner: Runner, seconds: float) -> None:
        self._runner, self._seconds = runner, seconds
        self.used_mb: dict[str, list[float]] = {}
        self.taken: dict[str, float] = {}

    def delivered_per_s(self, offered_per_s: float) -> float:
        """Of items delivered, from one delivery to another."""
        self._runner.ask(SetRate(Fixed(offered_per_s)))
        time.sleep(SETTLE_S)
        (before, accepted, began_s), used_before = self._next(), memory_mb()
        time.sleep(self._seconds)
        (after, accepted_after, ended_s), used_after = self._next(), memory_mb()
        self.used_mb.setdefault(name(offered_per_s), []).append(used_after - used_before)
        self.taken[name(offered_per_s)] = (accepted_after - accepted) / (ended_s - began_s)
        return (after - before) / (ended_s - began_s)

    def _next(self) -> tuple[int, int, float]:
        """Delivered and accepted items at the moment of a delivery."""
        first = self._runner.ask(ReadStatus()).items.delivered
        items = wait_for(self._runner, first)
        return items.delivered, items.accepted, time.perf_counter()


def memory_mb() -> float:
    return float(psutil.Process().memory_info().rss) / 1e6


def measure(rounds: int, seconds: float, payload_bytes: int) -> tuple[list[Table], dict[str, str]]:
    goals = [Goal(f"{name(each)}, of capacity", name(each), name(CAPACITY_PER_S), 0.97, False) for each in OFFERED]
    rates = Table(f"delivered by eight workers, {STAGE_MS:g} ms an item, overload shed", "items/s", goals)
    memory = Table("memory of the runner: growth while so much is offered", "MB")
    with running(payload_bytes) as runner:
        measured = Measured(runner, seconds)
        rates.run({name(each): partial(measured.delivered_per_s, each) for each in (CAPACITY_PER_S, *OFFERED)}, rounds)
    memory.rounds = [{each: grown[turn] for each, grown in measured.used_mb.items()} for turn in range(rounds)]
    taken = ", ".join(f"{each}: {per_s:,.0f}/s" for each, per_s in measured.taken.items())
    return [rates, memory], {"taken in": taken, "payload": f"{payload_bytes:,} bytes"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="1 round of 5 s each instead of 3 of 20 s")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    parser.add_argument("--payload", type=int, default=10_000, metavar="BYTES", help="that travel with every item")
    given = parser.parse_args()
    ray_cluster.connect()
    try:
        tables, more = measure(1, 5.0, given.payload) if given.quick else measure(3, 20.0, given.payload)
    finally:
        ray_cluster.shutdown()
    report(tables, given.json, more)


if __name__ == "__main__":
    main()
