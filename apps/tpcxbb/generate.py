"""Generate sales and clicks after the schema of TPCx-BB, from a seed: each chunk by itself, so any process may make it.

Items and users are drawn after Zipf; sessions begin as a Poisson process. A chunk is a stretch of event time; it
depends on the seed and its number alone, so one process, or many of Spark's, give the same rows.
"""

import argparse
from dataclasses import dataclass
from functools import cache
from math import ceil
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

DAY_S: Final = 86_400
PAGE_TYPES: Final = ("dynamic", "order", "protected", "feedback", "general", "ad", "welcome")
CATEGORIES: Final = 10
NULL: Final = 0
"""The placeholder of a missing key in columns of plain numbers; keys of the benchmark begin at 1."""


@dataclass(frozen=True)
class Stream:
    """A table whose rows are a stream: they are in the order of their date and time."""

    table: str
    date: str
    """Column of the day."""
    time: str
    """Column of the second of the day."""
    columns: pa.Schema


SALES = Stream(
    "store_sales", "ss_sold_date_sk", "ss_sold_time_sk",
    pa.schema(
        [
            *((name, pa.int64()) for name in (
                "ss_sold_date_sk", "ss_sold_time_sk", "ss_item_sk", "ss_customer_sk", "ss_store_sk",
                "ss_ticket_number", "ss_quantity",
            )),
            ("ss_net_paid", pa.float64()),
        ]
    ),
)  # fmt: skip
CLICKS = Stream(
    "web_clickstreams", "wcs_click_date_sk", "wcs_click_time_sk",
    pa.schema(
        [
            (name, pa.int64()) for name in (
                "wcs_click_date_sk", "wcs_click_time_sk", "wcs_sales_sk", "wcs_item_sk", "wcs_web_page_sk",
                "wcs_user_sk",
            )
        ]
    ),
)  # fmt: skip
ITEM = pa.schema([("i_item_sk", pa.int64()), ("i_category_id", pa.int64())])
WEB_PAGE = pa.schema([("wp_web_page_sk", pa.int64()), ("wp_type", pa.string())])
STREAMS: Final = {stream.table: stream for stream in (SALES, CLICKS)}
DIMENSIONS: Final = {"item": ITEM, "web_page": WEB_PAGE}


def add_plan(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, help="Folder to write the tables to.")
    for name, kind in (("seed", int), ("rows", int), ("hours", float), ("items", int), ("users", int)):
        default = getattr(Plan, name)
        parser.add_argument(f"--{name}", type=kind, default=default, help=f"Default: {default}.")
    parser.add_argument("--form", choices=["parquet", "csv"], default="parquet")


def plan_of(given: argparse.Namespace) -> "Plan":
    return Plan(given.seed, given.rows, given.hours, given.items, given.users)


FIRST_DAY = 2_451_545
"""Julian day of 2000-01-01, as dates of the benchmark are day numbers."""
CHUNK_ROWS = 16_384
LONGEST_S = 7_200
"""Maximum length of a session; a chunk lasts at least as long, so its clicks come from its own and the previous one."""
PAGES = 60
STORES = 60
_SALES, _CLICKS, _ITEMS = 1, 2, 3  # purposes of the random streams
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Plan:
    """The size of the tables: ``rows`` sales exactly, and about as many clicks; the stream lasts ``hours``."""

    seed: int = 0
    rows: int = 100_000
    hours: float = 3.0
    items: int = 18_000
    users: int = 5_000
    zipf: float = 1.1
    """Exponent of the popularity of items and users."""

    @property
    def chunks(self) -> int:
        return max(1, min(ceil(self.rows / CHUNK_ROWS), int(self.hours * 3600 // LONGEST_S)))

    @property
    def span_s(self) -> int:
        """Return the seconds of the stream in one chunk."""
        return int(self.hours * 3600) // self.chunks

    def random(self, stream: int, chunk: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, stream, chunk])


def sales(plan: Plan, chunk: int) -> pa.RecordBatch:
    """Return the sales of a chunk, in order of time; sales of one second are in any order."""
    random = plan.random(_SALES, chunk)
    rows = plan.rows // plan.chunks + (chunk < plan.rows % plan.chunks)
    sizes = 1 + random.poisson(7, rows // 4 + 100)  # more tickets than are needed
    ticket: Ints = np.repeat(np.arange(len(sizes)), sizes)[:rows]
    tickets = int(ticket[-1]) + 1 if rows else 0
    at = (chunk * plan.span_s + random.integers(0, plan.span_s, tickets))[ticket]
    store, customer = random.integers(1, STORES + 1, tickets), zipf(random, plan.users, plan.zipf, tickets)
    item, quantity = popular(plan, zipf(random, plan.items, plan.zipf, rows)), random.integers(1, 11, rows)
    cents = quantity * random.integers(100, 20_000, rows)
    order = np.lexsort((random.random(rows), at))
    numbers = ticket + chunk * (CHUNK_ROWS + plan.rows) + 1
    columns = [*_date_and_time(at), item, customer[ticket], store[ticket], numbers, quantity, cents / 100]
    return pa.RecordBatch.from_arrays([pa.array(column[order]) for column in columns], schema=SALES.columns)


def clicks(plan: Plan, chunk: int) -> pa.RecordBatch:
    """Return the clicks of a chunk, in order of time, of sessions that began in this chunk or the previous one."""
    parts = [_sessions(plan, of) for of in (chunk - 1, chunk) if of >= 0]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    inside = columns["at"] // plan.span_s == chunk
    order = np.lexsort((columns["user"], columns["at"]))
    order = order[inside[order]]
    at, user, item, page, sale = (columns[name][order] for name in ("at", "user", "item", "page", "sale"))
    nullable = (pa.array(keys, mask=keys == NULL) for keys in (sale, item, page, user))
    arrays = [*map(pa.array, _date_and_time(at)), *nullable]
    return pa.RecordBatch.from_arrays(arrays, schema=CLICKS.columns)


def _sessions(plan: Plan, chunk: int) -> dict[str, Ints]:
    """Return all clicks of the sessions that begin in a chunk; a missing key is 0."""
    random = plan.random(_CLICKS, chunk)
    sizes = random.geometric(1 / 8, random.poisson(plan.rows / plan.chunks / 8))
    session = np.repeat(np.arange(len(sizes)), sizes)
    rows, firsts = len(session), np.cumsum(sizes) - sizes
    pauses = random.exponential(90.0, rows)
    pauses[firsts] = 0.0
    since = np.cumsum(pauses)
    since = np.minimum(since - since[firsts][session], LONGEST_S - 1)
    begins = chunk * plan.span_s + random.integers(0, plan.span_s, len(sizes))
    user = zipf(random, plan.users, plan.zipf, len(sizes))
    user[random.random(len(sizes)) < 0.05] = 0  # the user is unknown
    item = popular(plan, zipf(random, plan.items, plan.zipf, rows))
    item[random.random(rows) < 0.1] = 0  # a page without an item
    page = random.integers(1, PAGES + 1, rows)
    bought = (random.random(rows) < 0.08) & (item > 0)
    page[bought] = page[bought] % 8 * len(PAGE_TYPES) + 1 + PAGE_TYPES.index("order")
    sale = np.where(bought, chunk * (CHUNK_ROWS + plan.rows) * 8 + np.arange(rows) + 1, 0)
    return {"at": begins[session] + since.astype(np.int64), "user": user[session], "item": item, "page": page,
            "sale": sale}  # fmt: skip


def item_table(plan: Plan) -> pa.Table:
    category = plan.random(_ITEMS, 0).integers(1, CATEGORIES + 1, plan.items)
    return pa.table([np.arange(1, plan.items + 1), category], schema=ITEM)


def web_page_table() -> pa.Table:
    pages = range(1, PAGES + 1)
    return pa.table([list(pages), [PAGE_TYPES[(page - 1) % len(PAGE_TYPES)] for page in pages]], schema=WEB_PAGE)


def zipf(random: np.random.Generator, among: int, exponent: float, count: int) -> Ints:
    """Return random ranks from 1 on; rank 1 is the most frequent."""
    return np.searchsorted(_shares(among, exponent), random.random(count)).astype(np.int64) + 1


@cache
def _shares(among: int, exponent: float) -> NDArray[np.float64]:
    weights = np.arange(1, among + 1, dtype=float) ** -exponent
    cumulated: NDArray[np.float64] = np.cumsum(weights) / weights.sum()
    cumulated[-1] = 1.0
    return cumulated


def popular(plan: Plan, rank: Ints) -> Ints:
    """Return the item key of each rank, spread over all keys; rank 1 is item 10001, which queries 2 and 3 ask for."""
    return (10_000 + (rank - 1) * 7_919) % plan.items + 1


def _date_and_time(at: Ints) -> tuple[Ints, Ints]:
    return FIRST_DAY + at // DAY_S, at % DAY_S
