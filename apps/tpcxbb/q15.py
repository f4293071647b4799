"""Query 15: categories of goods whose sales in a store are flat or fall.

Stateless, stateless, keyed by category (table 1 of Prasaad et al.). The slope is that of the line of least squares
through the daily sums; sums of whole cents and days are exact, so it does not depend on how rows travelled.
"""

from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from pydantic import Field

from apps.contract import Options, Outputs
from apps.tpcxbb.generate import DAY_S, NULL, SALES
from apps.tpcxbb.options import CATEGORY_BITS, QueryOptions, categories
from apps.tpcxbb.portions import Ints, Portions
from apps.tpcxbb.query import TICK, PortionQuery, Query, Row, RowQuery, Value
from apps.tpcxbb.stages import by_key, on_portions
from compositions.model import Stage

READS = ("ss_item_sk", "ss_store_sk", "ss_net_paid")
Days = dict[tuple[int, int], dict[int, int]]
"""Cents of each day, by the first day of the window, and category."""


class Q15Options(QueryOptions):
    hours: float = Field(default=366 * 24.0, gt=0, le=100_000, description="Event time of the generated rows, in hours")
    tick_s: int = Field(default=DAY_S, ge=1, description="Event time between ticks, which mark the stream's progress")
    store: int = Field(default=10, ge=1, description="Store whose sales are counted")
    window_days: int = Field(default=366, ge=2, description="Event time of a regression line, in days")


class _Q15(Query):
    stream, reads = SALES, READS
    options_model: ClassVar[type[Options]] = Q15Options
    options: Q15Options

    def setup(self) -> None:
        self._categories = categories(self.options)

    def _told(self, days: Days, watermark: int) -> Outputs:
        """Return categories of windows that are over and whose line does not rise."""
        length = self.options.window_days
        done = sorted(key for key in days if (key[0] + length) * DAY_S <= watermark)
        lines = ((*key, _line(days.pop(key))) for key in done)
        return Outputs(
            {"from_day": first, "category": category, **line}
            for first, category, line in lines
            if line["days"] > 1 and line["slope"] <= 0
        )

    def _add(self, days: Days, day: int, category: int, cents: int) -> None:
        sums = days.setdefault((day - day % self.options.window_days, category), {})
        sums[day] = sums.get(day, 0) + cents


class Q15(RowQuery, _Q15):
    name = "tpcxbb_q15"
    description = "TPCx-BB 15: categories whose sales in a store are flat or fall; an item is a sale."
    stages: tuple[Stage, ...] = (Stage("in_store"), Stage("categorised"), by_key("trend"))

    def setup(self) -> None:
        super().setup()
        self._category = self._categories.by_item()

    def in_store(self, row: Row) -> Any:
        if TICK in row:
            return (row[TICK],)
        if row["ss_store_sk"] != self.options.store:
            return Outputs()
        return row["time"], row["ss_item_sk"], row["ss_net_paid"]

    def categorised(self, value: Value) -> Outputs:
        time, *sale = value
        if not sale:
            return self.ticks(time)
        item, cents = sale
        category = self._category.get(item, NULL)
        return Outputs([] if category == NULL else [(category % self.options.partitions, time, category, cents)])

    def trend(self, value: Value, state: Days | None) -> tuple[Outputs, Days]:
        days, (_, time, *sale) = state or {}, value
        if not sale:
            return self._told(days, time), days
        self._add(days, time // DAY_S, *sale)
        return Outputs(), days


class Q15Arrow(PortionQuery, _Q15):
    name = "tpcxbb_q15_arrow"
    description = "TPCx-BB 15: categories whose sales in a store are flat or fall; an item is a portion, as columns."
    stages = on_portions(Q15.stages, in_store=READS, categorised=("item", "cents"))

    def in_store(self, batch: pa.RecordBatch) -> list[dict[str, Any]]:
        sales = Portions.of(batch)
        here = sales.where(sales["ss_store_sk"] == self.options.store)
        return here.replaced(time=here["time"], item=here["ss_item_sk"], cents=here["ss_net_paid"]).packed()

    def categorised(self, batch: pa.RecordBatch) -> list[Outputs]:
        sales = Portions.of(batch)
        category = self._categories.take(sales["item"])
        known = sales.replaced(time=sales["time"], category=category, cents=sales["cents"]).where(category != NULL)
        return known.spread(known["category"] % self.options.partitions, self.options.partitions, closing=0)

    def trend(self, value: dict[str, Any], state: Days | None) -> tuple[Outputs, Days]:
        days, sales = state or {}, Portions.one(value)
        for day, category, cents in _daily(sales["time"] // DAY_S, sales["category"], sales["cents"]):
            self._add(days, day, category, cents)
        return self._told(days, sales.watermark), days


def _daily(day: Ints, category: Ints, cents: Ints) -> list[tuple[int, int, int]]:
    both, place = np.unique(day << CATEGORY_BITS | category, return_inverse=True)
    sums = np.zeros(len(both), np.int64)
    np.add.at(sums, place, cents)
    return list(
        zip((both >> CATEGORY_BITS).tolist(), (both & (1 << CATEGORY_BITS) - 1).tolist(), sums.tolist(), strict=True)
    )


def _line(sums: dict[int, int]) -> dict[str, Any]:
    """Return the line of least squares through the points (day, cents); slope 0 if there is one day only."""
    first, n = min(sums), len(sums)
    days = [day - first for day in sums]
    x, y = sum(days), sum(sums.values())
    xy, xx = sum((day - first) * cents for day, cents in sums.items()), sum(day * day for day in days)
    spread = n * xx - x * x
    return {"days": n, "cents": y, "slope": (n * xy - x * y) / spread if spread else 0.0}
