"""Tables made on Spark have the rows that one process makes of the same seed, in the same order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from apps.tpcxbb import tables
from apps.tpcxbb.generate import CLICKS, SALES, Plan, Stream
from datapipe.datasets.made_tables import write_on_spark

PLAN = Plan(seed=3, rows=40_000, hours=9, items=300, users=60)


def rows(folder: Path, stream: Stream) -> pa.Table:
    return pa.Table.from_batches(tables.read(folder, stream)).combine_chunks()


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_rows_are_those_of_one_process(spark: Any, tmp_path: Path, form: tables.Form) -> None:
    tables.write(tmp_path / "here", PLAN, form)
    write_on_spark(spark, tmp_path / "spark", PLAN, form)
    assert PLAN.chunks > 2
    for stream in (SALES, CLICKS):
        assert rows(tmp_path / "spark", stream).equals(rows(tmp_path / "here", stream))
    assert tables.dimension(tmp_path / "spark", "item").equals(tables.dimension(tmp_path / "here", "item"))
