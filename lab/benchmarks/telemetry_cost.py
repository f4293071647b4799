"""Measure the cost of telemetry to the loop: four empty stages, pipelined, with every item written to disk and without.

python -m lab.benchmarks.telemetry_cost [--quick] [--json]
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from compositions.model import all_sequential
from datapipe.telemetry.writer import Origin
from lab.benchmarks.contenders import Recompose, rate_per_s
from lab.benchmarks.harness import Goal, Table, options, report
from lab.benchmarks.workloads import SMALL, Empty
from runtime.dispatch.outcomes import Delivered
from runtime.pools.ray import cluster
from service.runner.telemetry.telemetry import Telemetry
from service.schemas.spec import TelemetrySpec
from service.schemas.status import TelemetryStatus

WITHOUT, WITH, COST, LIMIT = "without telemetry", "with telemetry", "telemetry", "limit"
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


def measure(folder: Path, rounds: int, items: int) -> list[Table]:
    rate = Table("pipelined, small item, as fast as it goes", "items/s", [Goal("of it", WITH, WITHOUT, 0.98, False)])
    cpu = Table("CPU time of the runner's process for an item", "us")
    share = Table(
        f"… and of an item's time at {PACED_PER_S:.0f} items/s", "%", [Goal("of that", COST, LIMIT, 1.0, True)]
    )
    contender = Told(Empty, Empty.stages, all_sequential(Empty.stages))
    telemetry = Telemetry(TelemetrySpec(folder=str(folder)), Origin("empty", "run"), time.time() - time.monotonic())
    values = [SMALL] * items

    def one(told: Telemetry | None) -> float:
        contender.telemetry, began_s = told, time.process_time()
        figure = rate_per_s(contender, values)
        spent_us[WITHOUT if told is None else WITH] = (time.process_time() - began_s) / items * 1e6
        return figure

    spent_us: dict[str, float] = {}
    calls: dict[str, Callable[[], float]] = {WITHOUT: partial(one, None), WITH: partial(one, telemetry)}
    try:
        for call in calls.values():
            call()  # all is warm
        for _ in range(rounds):
            rate.run(calls, 1)
            cpu.rounds.append(dict(spent_us))
    finally:
        telemetry.close()
        contender.close()
    of_time = 100 * PACED_PER_S / 1e6
    share.rounds = [{COST: (turn[WITH] - turn[WITHOUT]) * of_time, LIMIT: 2.0} for turn in cpu.rounds]
    _expect_all_written(telemetry.status(), (rounds + 1) * items)
    return [rate, cpu, share]


def _expect_all_written(status: TelemetryStatus, items: int) -> None:
    assert status.lost == 0, f"telemetry lost {status.lost} of {items} records: {status.fault}"
    assert status.written == items, f"{items} items were delivered, {status.written} written"


def main() -> None:
    arguments = options(__doc__, "3 short rounds instead of 15 long ones").parse_args()
    cluster.connect()
    try:
        with tempfile.TemporaryDirectory() as folder:
            tables = measure(Path(folder), 3, 5_000) if arguments.quick else measure(Path(folder), 15, 20_000)
            report(tables, arguments.json)
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    main()
