"""The streams of the matrix: small tables in files, the items of a query over them, and what DuckDB finds there."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from apps.contract import App
from apps.registry import create
from apps.tpcxbb import tables
from apps.tpcxbb.generate import DAY_S, Plan
from compositions.model import Stage
from lab.benchmarks.matrix.plain import serial
from lab.benchmarks.tpcxbb_sql import Q1_SQL, Q2_SQL, Q3_SQL, Q4_SQL, Q15_SQL
from runtime.dispatch.instructions import Task

STORE, ITEM, ITEMS, USERS = 10, 101, 110, 40
"""All is sold in one store, and of few goods, so that a few hundred rows have something to tell; query 15 asks for that
store, 2 and 3 for that item, which is the most frequent of so many."""
CATEGORIES = {"q1": 4, "q3": 4}
"""Fewer than there are: query 1 asks for three of them, 3 for two."""
HOURS = {"q1": 4.0, "q2": 96.0, "q3": 96.0, "q4": 96.0, "q15": 3 * 366 * 24.0}
"""Of event time in a stream: several windows."""
TICK_S = {"q1": 900, "q2": 7200, "q3": 7200, "q4": 7200, "q15": 30 * DAY_S}
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "q1": {"least": 0, "most": 10}, "q2": {"item": ITEM}, "q3": {"item": ITEM}, "q4": {}, "q15": {"store": STORE},
}  # fmt: skip
SQL = {
    "q1": Q1_SQL.format(stores=STORE, least=0, most=10), "q2": Q2_SQL, "q3": Q3_SQL, "q4": Q4_SQL, "q15": Q15_SQL,
}  # fmt: skip
Rows = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Stream:
    """Of a query: ``rows`` of its table, an item each, or in portions of ``portion`` if that is not 0."""

    query: str
    rows: int
    portion: int
    partitions: int

    def make(self, folder: Path) -> App:
        """An app over the tables in ``folder``, for a worker as well."""
        form = "_arrow" if self.portion else ""
        options = {**OPTIONS[self.query], "partitions": self.partitions}
        options |= {"portion": self.portion} if self.portion else {"tick_s": TICK_S[self.query]}
        return create(f"tpcxbb_{self.query}{form}", {"tables": str(self.place(folder)), **options})

    def place(self, folder: Path) -> Path:
        return folder / f"{self.query}-{self.rows}"

    def written(self, folder: Path) -> Path:
        """Its tables, made if they are not there."""
        place = self.place(folder)
        if not place.exists():
            tables.write(place, Plan(rows=self.rows, hours=HOURS[self.query], items=ITEMS, users=USERS), "parquet")
            _changed(place / "store_sales.parquet", "ss_store_sk", lambda row: STORE)
            if few := CATEGORIES.get(self.query):
                _changed(place / "item.parquet", "i_category_id", lambda row: row % few + 1)
        return place


def _changed(path: Path, column: str, value: Callable[[int], int]) -> None:
    """The column of a table has other values, by the number of the row."""
    table = pq.read_table(path)
    at = table.schema.get_field_index(column)
    field = table.schema.field(at)
    pq.write_table(table.set_column(at, field, pa.array(map(value, range(len(table))), field.type)), path)


@dataclass(frozen=True)
class Known:
    """The items of a stream, and what a plain loop tells of them, as text."""

    items: list[Any]
    told: str


def known(stream: Stream, folder: Path) -> Known:
    """Raises: AssertionError where a plain loop tells something else than DuckDB finds, or nothing is to be told."""
    return _known(stream, stream.written(folder).parent)


@cache
def _known(stream: Stream, folder: Path) -> Known:
    app = stream.make(folder)
    items = list(app.items(None))
    told = serial(app, items)
    found = _found(stream, folder)
    assert found, f"{stream}: nothing is to be told"
    assert READERS[stream.query](told) == found, f"{stream}: a plain loop tells something else than DuckDB finds"
    return Known(items, json.dumps(told))


def _found(stream: Stream, folder: Path) -> Rows:
    with duckdb.connect() as database:
        for path in sorted(stream.place(folder).iterdir()):
            database.execute(f"create view {path.stem} as select * from '{path}'")
        return asked(database, stream.query, SQL[stream.query])


def asked(database: duckdb.DuckDBPyConnection, query: str, sql: str) -> Rows:
    """What ``sql`` finds, as ``READERS`` put what is told: slopes are quotients, and SQL divides other floats."""
    found = database.execute(sql).fetchall()
    return sorted((*row[:4], round(row[4], 6)) for row in found) if query == "q15" else found


def _tops(told: list[Any]) -> Rows:
    return [(each["from_s"], *row) for each in told for row in each["top"]]


def _views(told: list[Any]) -> Rows:
    """The last that is told of an item holds."""
    return sorted({each["item"]: each["views"] for each in told}.items())


def _means(told: list[Any]) -> Rows:
    return [(each["from_s"], each["sessions"], each["pages"]) for each in told]


def _lines(told: list[Any]) -> Rows:
    """Slopes are quotients: SQL divides other floats."""
    names = ("from_day", "category", "days", "cents")
    return sorted((*(each[name] for name in names), round(each["slope"], 6)) for each in told)


READERS: Mapping[str, Callable[[list[Any]], Rows]] = {
    "q1": _tops, "q2": _tops, "q3": _views, "q4": _means, "q15": _lines,
}  # fmt: skip


def stages_of(query: str) -> tuple[Stage, ...]:
    """The same for rows and portions, but for how they are called."""
    return create(f"tpcxbb_{query}", {}).stages


def brought(tasks: Sequence[Task]) -> int:
    """Partitions that come to a worker with their states."""
    kept = [each for task in tasks if task.keyed for each in task.keyed.kept.values()]
    return sum(bool(states) for each in kept for states in each.values())
