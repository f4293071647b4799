"""Reports from the tables are those from the files of runners; a part of the records tells the same as all."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from written_telemetry import BEGAN_S, write

from datapipe.report import data
from datapipe.report.build import summary_rows
from datapipe.report.data import Period, load
from datapipe.spark.delta import TableKind, commit, write_files
from datapipe.telemetry.schema import INSTANT_OF, SCHEMAS
from service.cli import main

ITEMS = 1000


def an_item(number: int, run: str) -> dict[str, Any]:
    arrived = datetime.fromtimestamp(BEGAN_S + 0.02 * number, UTC)
    stage = {"stage": "rank", "wall_ns": 9_000_000, "cpu_ns": 8_000_000}
    outcome = "failed" if number % 100 == 0 else "delivered"
    known = {"app": "ferret", "run": run, "serial": number, "arrived": arrived, "outcome": outcome, "composition": "13"}
    return {**known, "read": arrived, "delivered": arrived + timedelta(milliseconds=200), "stages": [stage]}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "telemetry"
    for number in range(4):
        write(folder, number, run="r" if number < 2 else "s")
    write(folder, 0, app="other")
    (folder / "items").mkdir()
    for run in ("r", "s"):
        rows = [an_item(number, run) for number in range(ITEMS) if (number < ITEMS / 2) == (run == "r")]
        pq.write_table(pa.Table.from_pylist(rows, SCHEMAS["items"]), folder / "items" / f"ferret--{run}-000001.parquet")
    return folder


def as_tables(source: Path, out: Path) -> Path:
    """The same records as ``recompose telemetry`` would keep them."""
    for kind in ("snapshots", "items"):
        for number, file in enumerate(sorted((source / kind).glob("*.parquet"))):
            rows = pq.read_table(file, partitioning=None)
            rows = rows.append_column("date", rows.column(INSTANT_OF[kind]).cast(pa.date32()))
            table = TableKind(out / kind, rows.schema.remove_metadata())
            commit(
                table,
                [row for each in write_files(table, iter(rows.to_batches())) for row in each.to_pylist()],
                (kind, number),
            )
    return out


def test_a_report_from_tables_is_the_one_from_files(source: Path, tmp_path: Path) -> None:
    tables = as_tables(source, tmp_path / "tables")
    told = dict(summary_rows(load(source, "ferret", Period())))
    assert told["items"] == "990 delivered, 49.6 a second, 10 failed"
    assert dict(summary_rows(load(tables, "ferret", Period()))) == told
    for period in (Period(run="s"), Period(since=datetime.fromtimestamp(BEGAN_S + 15, UTC))):
        assert summary_rows(load(tables, "ferret", period)) == summary_rows(load(source, "ferret", period))
    assert load(tables, "ferret", Period(run="s")).counts == {"delivered": 495, "failed": 5, "shed": 0}


def test_of_many_records_some_are_read_and_all_items_are_counted(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = load(source, "ferret", Period())
    monkeypatch.setattr(data, "MOST", {"snapshots": 20, "items": 100})
    some = load(source, "ferret", Period())
    assert (some.items.num_rows, some.snapshots.num_rows, some.every) == (100, 20, {"snapshots": 8, "items": 10})
    assert some.counts == whole.counts
    expected, told = dict(summary_rows(whole)), dict(summary_rows(some))
    assert {name: told[name] for name in ("objective", "met")} == {
        name: expected[name] for name in ("objective", "met")
    }
    assert told["CPU of the stages"].split(" s")[0] == expected["CPU of the stages"].split(" s")[0]


def test_a_report_of_all_apps_has_a_row_for_each(source: Path, tmp_path: Path) -> None:
    tables = as_tables(source, tmp_path / "tables")
    for folder in (source, tables):
        out = tmp_path / "report.html"
        result = CliRunner().invoke(main, ["report", "--from", str(folder), "--out", str(out)])
        assert result.exit_code == 0, result.output
        page = out.read_text()
        assert page.count("<tr>") == 3
        assert "990 delivered" in page
        assert "<td>other</td>" in page
