"""Measure the cost of telemetry to the loop: four empty stages, pipelined, with every item written to disk and without.

The rate and the CPU time of an item are measured, in turns.

    python -m lab.benchmarks.telemetry_cost [--quick] [--json]
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated

from compositions.model import all_sequential
from datapipe.telemetry.writer import Origin
from lab.benchmarks.contenders import Recompose, rate_per_s
from lab.benchmarks.harness import Table, at_least, at_most, main
from lab.benchmarks.workloads import SMALL, Empty
from runtime.dispatch.outcomes import Delivered
from service.runner.telemetry.telemetry import Telemetry
from service.schemas.spec import TelemetrySpec

WITHOUT, WITH, COST = "without telemetry", "with telemetry", "telemetry"
PACED_PER_S = 1000.0
"""At this rate the cost of an item must be at most 2 % of the time that it has: 20 us."""


class Told(Recompose):
    """Shows every outcome to telemetry, as the loop does; on request."""

    telemetry: Telemetry | None = None

    def _collect(self, timeout_s: float = 1.0) -> int:
        count = 0
        for outcome in self._engine.advance(self._engine.now_s + timeout_s):
            if self.telemetry is not None:
                self.telemetry.observe(outcome)
            if isinstance(outcome, Delivered):
                self._codec.decode(outcome.payload)
                count += 1
        return count


def measure(quick: Annotated[bool, "3 short rounds instead of 15 long ones"] = False) -> Iterator[Table]:
    rounds, items = (3, 5_000) if quick else (15, 20_000)
    rate = Table("pipelined, small item, as fast as it goes", "items/s", [at_least("of it", WITH, 0.98, WITHOUT)])
    cpu = Table("CPU time of the runner's process per item", "us")
    share = Table(f"… relative to an item's time at {PACED_PER_S:.0f} items/s", "%", [at_most("of it", COST, 2.0)])
    contender = Told(Empty, Empty.stages, all_sequential(Empty.stages))
    values = [SMALL] * items
    spent_us: dict[str, float] = {}

    def one(telemetry: Telemetry | None) -> float:
        contender.telemetry, began_s = telemetry, time.process_time()
        figure = rate_per_s(contender, values)
        spent_us[WITH if telemetry else WITHOUT] = (time.process_time() - began_s) / items * 1e6
        return figure

    with tempfile.TemporaryDirectory() as folder:
        telemetry = Telemetry(TelemetrySpec(folder=folder), Origin("empty", "run"), time.time() - time.monotonic())
        calls: dict[str, Callable[[], float]] = {WITHOUT: partial(one, None), WITH: partial(one, telemetry)}
        try:
            for call in calls.values():
                call()  # warms up
            for _ in range(rounds):
                rate.run(calls, 1)
                cpu.rounds.append(dict(spent_us))
        finally:
            telemetry.close()
            contender.close()
        status = telemetry.status()
    assert status.lost == 0, f"telemetry lost {status.lost} records: {status.fault}"
    assert status.written == (rounds + 1) * items, f"{status.written} of {(rounds + 1) * items} items were written"
    share.rounds = [{COST: (turn[WITH] - turn[WITHOUT]) * 100 * PACED_PER_S / 1e6} for turn in cpu.rounds]
    yield from (rate, cpu, share)


if __name__ == "__main__":
    main(measure, ray=True)
