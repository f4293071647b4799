"""Compare the answers of the queries with DuckDB's: ``python -m lab.benchmarks.query_matrix [--record]``.

``tests/unit/test_query_matrix.py`` runs them in drawn compositions while workers die.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from lab.benchmarks.harness import Rows, main
from lab.benchmarks.tpcxbb import SQL, Stream, compared
from lab.papers.prasaad.figures import FINE
from lab.papers.prasaad.page import RECORDED


def measure(
    record: Annotated[bool, "also write the table that lab.papers.prasaad.page reads"] = False,
) -> Iterator[Rows]:
    """Yield how many answers of each query equal DuckDB's, with the hundred partitions of the paper."""
    with tempfile.TemporaryDirectory() as folder:
        counts = {name: compared(Stream(name, 4_000, 0, FINE), Path(folder)) for name in SQL}
    rows = {name: {"answers": answers, "equal": equal} for name, (answers, equal) in counts.items()}
    if record:
        (RECORDED / "queries.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    checks = {f"{name} as DuckDB": row["answers"] == row["equal"] > 0 for name, row in rows.items()}
    yield Rows("answers equal to DuckDB's", [{"query": name, **row} for name, row in rows.items()], checks)


if __name__ == "__main__":
    main(measure)
