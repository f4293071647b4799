"""What telemetry costs the loop: four empty stages, pipelined, with every item written to disk and without.

python -m benchmarks.telemetry_cost [--quick] [--json]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.contenders import Recompose, rate_per_s
from benchmarks.harness import Goal, Table, report
from benchmarks.workloads import SMALL, Empty
from compositions.model import all_sequential
from runtime import ray_cluster
from runtime.events import Delivered
from service.telemetry import Telemetry

WITHOUT, WITH = "without telemetry", "with telemetry"
PACED_PER_S = 1000.0
"""Items a second at which the cost is a share of a core."""
LIMIT_US = 20.0
"""2 % of the millisecond that an item has at 1,000 items/s."""


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
    rate = Table("pipelined, small item", "items/s", [Goal("of the rate without", WITH, WITHOUT, 0.98, False)])
    cost = Table(f"time of an item; the difference at {PACED_PER_S:.0f} items/s may be {LIMIT_US:.0f} us", "us")
    contender = Told(Empty, Empty.stages, all_sequential(Empty.stages))
    telemetry = Telemetry(folder, "empty", time.time() - time.monotonic())
    values = [SMALL] * items

    def one(told: Telemetry | None) -> float:
        contender.telemetry = told
        return rate_per_s(contender, values)

    calls: dict[str, Callable[[], float]] = {WITHOUT: partial(one, None), WITH: partial(one, telemetry)}
    try:
        for call in calls.values():
            call()  # all is warm
        rate.run(calls, rounds)
    finally:
        telemetry.close()
        contender.close()
    cost.rounds = [{name: 1e6 / figure for name, figure in turn.items()} for turn in rate.rounds]
    _expect_all_written(telemetry.status(), (rounds + 1) * items)
    return [rate, cost]


def _expect_all_written(status: dict[str, Any], items: int) -> None:
    assert status["lost"] == 0, f"telemetry lost {status['lost']} of {items} records: {status['fault']}"
    assert status["written"] == items, f"{items} items were delivered, {status['written']} written"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="3 short rounds instead of 15 long ones")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    arguments = parser.parse_args()
    ray_cluster.connect()
    try:
        with tempfile.TemporaryDirectory() as folder:
            tables = measure(Path(folder), 3, 5_000) if arguments.quick else measure(Path(folder), 15, 20_000)
            report(tables, arguments.json)
    finally:
        ray_cluster.shutdown()


if __name__ == "__main__":
    main()
