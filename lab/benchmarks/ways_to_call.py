"""Measure the cost per item of each way to call a stage, by bundle size.

It measures the CPU time of the stage and of its caller in the worker, without the way to the worker. The work of the
stage is the same in all cases and next to nothing.

    python -m lab.benchmarks.ways_to_call [--quick] [--json]
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from time import process_time
from typing import Annotated, Any

from apps.contract import App, Outputs
from compositions.model import Stage, StageKind
from lab.benchmarks.harness import Table, main
from runtime.pools.calls import Calls
from runtime.pools.execute import execute

SIZES = (1, 64, 1024)
COLUMNS = (("value", "int64"),)


class Ways(App):
    """A stage a way; each gives one value for one, those with columns a row."""

    name = "ways"
    stages = (
        Stage("plain"),
        Stage("outputs"),
        Stage("yields"),
        Stage("bundle", batch=True),
        Stage("columns", batch=True, columns=COLUMNS),
        Stage("waits", concurrency=50),
        Stage("state", StageKind.STATEFUL),
    )

    def plain(self, value: int) -> int:
        return value + 1

    def outputs(self, value: int) -> Any:
        return Outputs([value + 1])

    def yields(self, value: int) -> Iterator[int]:
        yield value + 1

    def bundle(self, values: list[int]) -> list[int]:
        return [value + 1 for value in values]

    def columns(self, batch: Any) -> Any:
        return batch

    async def waits(self, value: int) -> int:
        return value + 1

    def state(self, value: int, state: int | None) -> tuple[int, int]:
        return value + 1, (state or 0) + 1


def microseconds(calls: Calls, stage: str, size: int, items: int) -> float:
    values = [{"value": each} for each in range(size)] if stage == "columns" else list(range(size))
    times = max(1, items // size)

    async def run() -> float:
        began_s = process_time()
        for _ in range(times):
            await execute(calls, (stage,), values, {})
        return (process_time() - began_s) / (times * size) * 1e6

    return asyncio.run(run())


def measure(quick: Annotated[bool, "3 short rounds instead of 5 long ones"] = False) -> Iterator[Table]:
    rounds, items = (3, 5_000) if quick else (5, 20_000)
    for size in SIZES:
        contenders = {
            stage.name: partial(microseconds, Calls(Ways()), stage.name, size, items) for stage in Ways.stages
        }
        yield Table(f"one stage, {size} items together", "µs of CPU per item").run(contenders, rounds)


if __name__ == "__main__":
    main(measure)
