"""Measure queries 1 and 15 of TPCx-BB over portions: rows per second, and latency at half the target rate.

    python -m lab.benchmarks.queries [--quick] [--json] [--portion 4096] [--partitions 2] [--pool ray]

Ours goes the whole way from a Parquet file to results on disk, and its results must equal those of a plain loop over
the same stages. Beside it, in the same rounds: that loop, in one thread; and DuckDB's SQL over the file, on all cores.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import duckdb

from apps.registry import create
from apps.tpcxbb.generate import Plan
from apps.tpcxbb.tables import write
from compositions.model import Composition, Group
from control.decisions import Mode
from lab.benchmarks.harness import Table, at_least, at_most, cores, main, ray_if
from lab.benchmarks.tpcxbb import Q1_SQL, Q15_SQL
from lab.experiments.runs import UP_S, delivered, delivering
from runtime.dispatch.events import NO_STATES
from runtime.dispatch.instructions import KeyedTask
from runtime.pools.calls import Calls
from runtime.pools.execute import execute, run_now
from service.runner.rpc.requests import ReadStatus
from service.runner.runner import Runner
from service.schemas.spec import InputSpec, RunSpec, SourceSpec

AIM_PER_S, AIM_P95_MS = 1_000_000, 20.0
SETTLE_S = 3.0
BUNDLE = 4
"""Portions that the plain loop processes at a time."""


@dataclass(frozen=True)
class Query:
    """A query over tables in a folder, in portions of so many rows."""

    app: str
    hours: float
    sql: str
    folder: Path
    rows: int
    portion: int
    partitions: int
    pool: str

    @property
    def options(self) -> dict[str, Any]:
        return {"tables": str(self.folder), "portion": self.portion, "partitions": self.partitions}

    def made(self) -> Query:
        write(self.folder, Plan(rows=self.rows, hours=self.hours), "parquet")
        return self

    # --- ours ---

    def rate_per_s(self, want: list[Any]) -> float:
        """Return the rows from the first result to the last. Raises: ValueError when results differ from the loop's."""
        with tempfile.TemporaryDirectory() as place, self._running(out_path=f"{place}/out.jsonl") as runner:
            before, began_s = delivered(runner), time.perf_counter()
            runner.wait(UP_S)
            spent_s, after = time.perf_counter() - began_s, delivered(runner)
            told = [json.loads(line)["value"] for line in Path(place, "out.jsonl").read_text().splitlines()]
        if told != want:
            raise ValueError(f"{self.app}: {len(told)} results, other than the {len(want)} of the loop")
        return self.rows * (1 - before / after) / spent_s

    def p95_ms(self, rows_per_s: float, seconds: float) -> float:
        """Return the p95 of a portion's latency from when it is due, plus the time in which its rows arrive."""
        with self._running(input=InputSpec(rate_per_s=rows_per_s / self.portion)) as runner:
            time.sleep(SETTLE_S)
            until_s, seen = time.monotonic() + seconds, []
            while time.monotonic() < until_s:
                time.sleep(0.5)
                seen.append(runner.ask(ReadStatus()).latency_ms.p95)
        return statistics.median(each for each in seen if each) + self.portion / rows_per_s * 1e3

    @contextmanager
    def _running(self, **more: Any) -> Iterator[Runner]:
        spec = RunSpec(
            app=self.app, options=self.options, mode=Mode.PINNED, compositions=(self._composition,), composition="one",
            source=SourceSpec(loop=False), pool=self.pool, **more,
        )  # fmt: skip
        with delivering(spec) as runner:
            yield runner

    @property
    def _composition(self) -> Composition:
        """Return the composition with one group, because the source's process uses the other core."""
        stages = create(self.app, self.options).stages
        return Composition("one", (Group(tuple(stage.name for stage in stages)),))

    # --- others ---

    def loop(self) -> list[Any]:
        """Return the results of the stages in one thread, portion after portion."""
        app = create(self.app, self.options)
        app.setup()
        items, names, states, told = list(app.items(None)), tuple(s.name for s in app.stages), {}, []
        calls = Calls(app)
        no_states = {stage.name: dict.fromkeys(range(stage.partitions), NO_STATES) for stage in app.stages}
        for first in range(0, len(items), BUNDLE):
            calls.keyed.begin(names, None if first else KeyedTask(None, no_states))
            done = run_now(execute(calls, names, items[first : first + BUNDLE], states))
            states = done.states
            told += [app.encode_result(value) for values in done.values for value in values]
        return told

    def found(self) -> int:
        """Return the number of rows in DuckDB's answer."""
        with duckdb.connect(config={"threads": cores()}) as database:
            for path in sorted(self.folder.iterdir()):
                database.execute(f"create view {path.stem} as select * from '{path}'")
            return len(database.execute(self.sql).fetchall())

    def timed(self, work: Callable[[], object]) -> float:
        began_s = time.perf_counter()
        work()
        return self.rows / (time.perf_counter() - began_s)


def measured(query: Query, rounds: int, seconds: float) -> Iterator[Table]:
    ours, loop, sql = query.app, "the same stages in a plain loop", "duckdb, SQL over the whole file"
    want = query.loop()
    yield Table(f"{query.app}, {query.rows} rows", "rows/s", [
        at_least("of the plain loop", ours, 0.5, loop), at_least("of DuckDB", ours, 0.1, sql),
        at_least("rows/s", ours, AIM_PER_S),
    ]).run({
        ours: partial(query.rate_per_s, want), loop: partial(query.timed, query.loop),
        sql: partial(query.timed, query.found),
    }, rounds)  # fmt: skip
    late = Table(f"{query.app}, p95 at {AIM_PER_S // 2} rows/s", "ms", [at_most("p95", ours, AIM_P95_MS)])
    yield late.run({ours: partial(query.p95_ms, AIM_PER_S / 2, seconds)}, rounds)


def measure(
    quick: Annotated[bool, "one short round instead of three long ones"] = False,
    portion: Annotated[int, "rows in an item"] = 2048,
    partitions: Annotated[int, "of the stages by key"] = 2,
    pool: Annotated[Literal["ray", "local"], "place of the workers"] = "ray",
) -> Iterator[Table]:
    rounds, seconds, rows = (1, 2.0, 4_000_000) if quick else (3, 5.0, 8_000_000)
    with ray_if(pool == "ray"), tempfile.TemporaryDirectory() as place:
        how = (rows, portion, partitions, pool)
        q1_sql = Q1_SQL.format(stores="10, 20, 33, 40, 50", least=50, most=100)
        yield from measured(Query("tpcxbb_q1_arrow", 3.0, q1_sql, Path(place, "q1"), *how).made(), rounds, seconds)
        q15 = Query("tpcxbb_q15_arrow", 366 * 24.0, Q15_SQL, Path(place, "q15"), *how)
        yield from measured(q15.made(), rounds, seconds)


if __name__ == "__main__":
    main(measure)
