"""The beginning of a stream that is made up as it is read: its items, the one that ends it, and what DuckDB finds in
the rows that were taken."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from apps.contract import App
from apps.registry import create
from apps.tpcxbb import source, tables
from apps.tpcxbb.generate import item_table, web_page_table
from apps.tpcxbb.portions import END, packed
from apps.tpcxbb.query import Query
from benchmarks.matrix.streams import Rows, asked
from benchmarks.tpcxbb_sql import Q1_SQL, Q2_SQL, Q3_SQL, Q4_SQL, Q15_SQL

STORES = range(1, 61)
WINDOW_DAYS = 2
"""Of query 15, whose own 366 would leave minutes of a stream with nothing to tell."""
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "q1": {"hours": 40_000.0, "stores": [*STORES], "least": 0, "most": 20}, "q2": {"hours": 99_000.0, "item": 101},
    "q3": {"hours": 99_000.0, "item": 101}, "q4": {"hours": 99_000.0},
    "q15": {"hours": 99_000.0, "window_days": WINDOW_DAYS},
}  # fmt: skip
TICK_S = {"q1": 900, "q2": 900, "q3": 900, "q4": 900, "q15": 86_400}
MANY = {"rows": 20_000_000, "items": 300, "users": 200, "partitions": 16}
"""More than are taken."""
SQL = {
    "q1": Q1_SQL.format(stores=", ".join(map(str, STORES)), least=0, most=20), "q2": Q2_SQL, "q3": Q3_SQL,
    "q4": Q4_SQL, "q15": Q15_SQL.replace("366", str(WINDOW_DAYS)),
}  # fmt: skip


class Beginning:
    """Of a query's stream. ``portion``: rows in an item; 0: an item is a row."""

    def __init__(self, query: str, portion: int = 0) -> None:
        self.query, self.portion = query, portion
        form, own = ("_arrow", {"portion": portion}) if portion else ("", {"tick_s": TICK_S[query]})
        self.make = partial(create, f"tpcxbb_{query}{form}", {**MANY, **OPTIONS[query], **own})
        """The app, for a worker as well."""
        made = self.make()
        assert isinstance(made, Query)
        self._app: Query = made
        self._items: Iterator[Any] = iter(made.items(None))
        self.taken: list[Any] = []
        self.rows = 0

    @property
    def app(self) -> App:
        return self._app

    def take(self, most: int) -> list[Any]:
        """The next items."""
        items = list(islice(self._items, most))
        self.taken += items
        for item in items:
            self.rows += len(item["time"]) // 8 if self.portion else source.TICK not in item
        return items

    def end(self) -> Any:
        """The item after which nothing comes, so that all is told."""
        last: Any = {source.TICK: END}
        if self.portion:
            last = packed({name: np.zeros(0, np.int64) for name in ("time", *self._app.reads)}, END)
        self.taken.append(last)
        return last

    def found(self) -> Rows:
        """By DuckDB, in the rows that were taken."""
        plan, stream = self._app.options.plan, self._app.stream
        batches, rows = [], 0
        for batch in tables.made(plan, stream):
            if rows >= self.rows:
                break
            batches.append(batch)
            rows += len(batch)
        with duckdb.connect() as database:
            database.execute("set threads = 1")  # rows are numbered in their order
            database.register(stream.table, pa.Table.from_batches(batches).slice(0, self.rows))
            database.register("item", item_table(plan))
            database.register("web_page", web_page_table())
            return asked(database, self.query, SQL[self.query])
