"""Measure the cost of each stage of the TPCx-BB queries, a row at a time, for ``lab.benchmarks.ordered``.

    python -m lab.benchmarks.query_costs [--rows 60000] [--out lab/benchmarks/query_costs.json]

Each stage processes all of its input in one thread, stage after stage; the best of three rounds counts, because others
use this machine too. The selectivity of a stage is its number of outputs over its number of inputs. There are a hundred
ticks.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from apps.contract import App, Outputs
from apps.registry import create
from compositions.model import Stage, StageKind
from lab.benchmarks.harness import Rows, main, metadata

QUERIES = {"q1": 5.0, "q2": 48.0, "q3": 48.0, "q4": 48.0, "q15": 366 * 24.0}
"""Hours of event time that the rows take."""
ROUNDS, PARTITIONS = 3, 100
UPTO = {"q3": 3}
"""Stages of table 1: the paper's query 3 ends by key."""
FEW_KEYS = {"q15": 10}
"""Query 15 goes by category, of which there are ten (section 7.2.3)."""

Values = list[Any]


def measured(query: str, rows: int) -> list[dict[str, Any]]:
    """The stages of a query as operators."""
    options = {"rows": rows, "hours": QUERIES[query], "tick_s": int(QUERIES[query] * 36)}
    app = create(f"tpcxbb_{query}", options)
    app.setup()
    values, found = list(app.items(None)), []
    for stage in app.stages[: UPTO.get(query)]:
        seconds, given = min((_run(app, stage, values) for _ in range(ROUNDS)), key=lambda run: run[0])
        found.append(
            {
                "name": stage.name, "kind": stage.kind.value,
                "cost_us": round(seconds / len(values) * 1e6, 3), "selectivity": round(len(given) / len(values), 5),
                "partitions": FEW_KEYS.get(query, PARTITIONS),
            }
        )  # fmt: skip
        values = given
    return found


def _run(app: App, stage: Stage, values: Values) -> tuple[float, Values]:
    call = _caller(app, stage)
    given: Values = []
    began_s = time.perf_counter()
    for value in values:
        got = call(value)
        given += got if isinstance(got, Outputs) else [got]
    return time.perf_counter() - began_s, given


def _caller(app: App, stage: Stage) -> Callable[[Any], Any]:
    method = getattr(app, stage.name)
    if stage.kind is StageKind.STATELESS:
        return method
    key = getattr(app, f"{stage.name}_key") if stage.kind is StageKind.PARTITIONED else lambda value: None
    states: dict[Any, Any] = {}

    def call(value: Any) -> Any:
        place = key(value)
        got, states[place] = method(value, states.get(place))
        return got

    return call


def measure(rows: int = 60_000, out: Path = Path("lab/benchmarks/query_costs.json")) -> Iterator[Rows]:
    queries = {}
    for query in QUERIES:
        queries[query] = measured(query, rows)
        yield Rows(query, queries[query])
    about = {**metadata(), "rows": str(rows)}
    out.write_text(json.dumps({"about": about, "queries": queries}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(measure)
