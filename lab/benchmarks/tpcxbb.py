"""The queries of ``apps/tpcxbb`` as SQL, whose results in DuckDB are the reference; and streams of their tables.

A stream is small tables in files, the items of a query over them, the results of a plain loop, and those of DuckDB.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
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
from lab.benchmarks.plain import serial

SOLD_S = f"(ss_sold_date_sk * {DAY_S} + ss_sold_time_sk)"
Q1_SQL = f"""
with sales as (select distinct ss_ticket_number ticket, ss_item_sk item, {SOLD_S} // 3600 * 3600 as since
               from store_sales join item on i_item_sk = ss_item_sk
               where i_category_id in (1, 2, 3) and ss_store_sk in ({{stores}})),
     pairs as (select l.since, l.item a, r.item b, count(*) n from sales l join sales r using (ticket)
               where l.item < r.item group by all having n > {{least}})
select since, a, b, n from pairs qualify row_number() over (partition by since order by n desc, a, b) <= {{most}}
order by since, n desc, a, b"""
CLICKED_S = f"(wcs_click_date_sk * {DAY_S} + wcs_click_time_sk)"
CLICKS = f"""
with clicks as (select row_number() over () as serial, {CLICKED_S} as t, wcs_user_sk as u, wcs_item_sk as item,
                       wcs_sales_sk as sale, wcs_web_page_sk as page from web_clickstreams),"""
SESSIONS = (
    CLICKS
    + """
     known as (select * from clicks where u is not null and {wanted}),
     marked as (select *, coalesce(t - lag(t) over (partition by u order by serial) > 3600, true) as new from known),
     numbered as (select *, sum(new::int) over (partition by u order by serial rows unbounded preceding) as n
                  from marked),
     clicked as (select *, (max(t) over (partition by u, n) + 3600) // 86400 * 86400 as day from numbered),
"""
)
Q2_SQL = (
    SESSIONS.format(wanted="item is not null")
    + """
     items as (select distinct day, u, n, item from clicked),
     counts as (select l.day, r.item, count(*) as c from items l join items r using (day, u, n)
                where l.item = 101 and r.item <> 101 group by all)
select day, item, c from counts qualify row_number() over (partition by day order by c desc, item) <= 30
order by day, c desc, item"""
)
Q3_SQL = (
    CLICKS
    + """
     seen as (select p.serial, p.t // 2592000 * 2592000 as since, p.t - v.t as ago, v.item,
                     row_number() over (partition by p.serial order by v.serial desc) as back
              from clicks p join clicks v on p.u = v.u and v.serial < p.serial join item on i_item_sk = v.item
              where p.item = 101 and p.sale is not null and v.sale is null and i_category_id in (2, 3)),
     counts as (select since, item, count(*) as c from seen where back <= 5 and ago <= 864000 group by all)
select since, item, c from counts qualify row_number() over (partition by since order by c desc, item) <= 30
order by since, c desc, item"""
)
Q4_SQL = (
    SESSIONS.format(wanted="true")
    + """
     carts as (select day, count(*) as pages, max(serial) filter (wp_type = 'dynamic') as filled,
                      max(serial) filter (wp_type = 'order') as paid
               from clicked join web_page on wp_web_page_sk = page group by day, u, n)
select day, count(*), sum(pages) / count(*) from carts where filled > coalesce(paid, 0) group by all order by all"""
)
Q15_SQL = """
with daily as (select i_category_id category, ss_sold_date_sk // 366 * 366 from_day, ss_sold_date_sk as x,
                      sum(round(ss_net_paid * 100)::bigint)::bigint cents
               from store_sales join item on i_item_sk = ss_item_sk where ss_store_sk = 10 group by all)
select from_day, category, count(*) as n, sum(cents)::bigint as y, regr_slope(cents, x) slope
from daily group by all having n > 1 and slope <= 0 order by from_day, category"""


STORE, ITEM, ITEMS, USERS = 10, 101, 110, 40
"""Everything is sold in one store, and few goods exist, so that a few hundred rows give results. Query 15 asks for that
store, queries 2 and 3 for that item, which is the most frequent one."""
CATEGORIES = {"q1": 4, "q3": 4}
"""Numbers of categories, fewer than usual: query 1 asks for three of them, query 3 for two."""
HOURS = {"q1": 4.0, "q2": 96.0, "q3": 96.0, "q4": 96.0, "q15": 3 * 366 * 24.0}
"""Hours of event time in a stream, which contain several windows."""
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
    """Rows of a query's table, with a row per item, or in portions of ``portion`` rows if that is not 0."""

    query: str
    rows: int
    portion: int
    partitions: int

    def make(self, folder: Path) -> App:
        """Return an app over the tables in ``folder``, for a worker as well."""
        form = "_arrow" if self.portion else ""
        options = {**OPTIONS[self.query], "partitions": self.partitions}
        options |= {"portion": self.portion} if self.portion else {"tick_s": TICK_S[self.query]}
        return create(f"tpcxbb_{self.query}{form}", {"tables": str(self.place(folder)), **options})

    def place(self, folder: Path) -> Path:
        return folder / f"{self.query}-{self.rows}"

    def written(self, folder: Path) -> Path:
        """Return the folder of its tables; create them if they are missing."""
        place = self.place(folder)
        if not place.exists():
            tables.write(place, Plan(rows=self.rows, hours=HOURS[self.query], items=ITEMS, users=USERS), "parquet")
            _changed(place / "store_sales.parquet", "ss_store_sk", lambda row: STORE)
            if few := CATEGORIES.get(self.query):
                _changed(place / "item.parquet", "i_category_id", lambda row: row % few + 1)
        return place


def _changed(path: Path, column: str, value: Callable[[int], int]) -> None:
    """Replace the column of a table by values from the row number."""
    table = pq.read_table(path)
    at = table.schema.get_field_index(column)
    field = table.schema.field(at)
    pq.write_table(table.set_column(at, field, pa.array(map(value, range(len(table))), field.type)), path)


@dataclass(frozen=True)
class Known:
    """The items of a stream, and the results of a plain loop, as text."""

    items: list[Any]
    told: str


def known(stream: Stream, folder: Path) -> Known:
    """Return items and results of a stream. Raises: AssertionError if a plain loop and DuckDB differ."""
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


def compared(stream: Stream, folder: Path) -> tuple[int, int]:
    """Return the number of DuckDB's answers, and of those that a plain loop gives at the same position."""
    stream.written(folder)
    app = stream.make(folder)
    told, found = READERS[stream.query](serial(app, list(app.items(None)))), _found(stream, folder)
    return len(found), sum(ours == theirs for ours, theirs in zip(told, found, strict=False))


def _found(stream: Stream, folder: Path) -> Rows:
    with duckdb.connect() as database:
        for path in sorted(stream.place(folder).iterdir()):
            database.execute(f"create view {path.stem} as select * from '{path}'")
        return asked(database, stream.query, SQL[stream.query])


def asked(database: duckdb.DuckDBPyConnection, query: str, sql: str) -> Rows:
    """Return the rows of ``sql`` in the form of ``READERS``: slopes are quotients, and SQL divides other floats."""
    found = database.execute(sql).fetchall()
    return sorted((*row[:4], round(row[4], 6)) for row in found) if query == "q15" else found


def _tops(told: list[Any]) -> Rows:
    return [(each["from_s"], *row) for each in told for row in each["top"]]


def _means(told: list[Any]) -> Rows:
    return [(each["from_s"], each["sessions"], each["pages"]) for each in told]


def _lines(told: list[Any]) -> Rows:
    """Return the lines with their slopes as quotients, because SQL divides floats differently."""
    names = ("from_day", "category", "days", "cents")
    return sorted((*(each[name] for name in names), round(each["slope"], 6)) for each in told)


READERS: Mapping[str, Callable[[list[Any]], Rows]] = {
    "q1": _tops, "q2": _tops, "q3": _tops, "q4": _means, "q15": _lines,
}  # fmt: skip
