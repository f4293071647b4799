"""Query 3: the goods that users looked at most often before they bought a certain item.

Stateless, keyed by user, keyed by item, as in table 1 of Prasaad et al.; and one state, for an operator by key does not
see the goods of other partitions, and cannot rank them. The parameters are the benchmark's; that a ranking is over 30
days is ours.
"""

from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from pydantic import Field

from apps.contract import Options, Outputs
from apps.tpcxbb.generate import CLICKS, DAY_S, NULL
from apps.tpcxbb.options import categories
from apps.tpcxbb.portions import Portions
from apps.tpcxbb.query import TICK, Query, Row, Value
from apps.tpcxbb.stages import PortionRanking, RankingOptions, RowRanking, by_key, column, on_portions
from compositions.model import Stage, StageKind

READS = ("wcs_user_sk", "wcs_item_sk", "wcs_sales_sk")
Views = dict[int, tuple[tuple[int, int], ...]]
"""The last views of each user, oldest first, as time and item."""


class Q3Options(RankingOptions):
    hours: float = Field(default=720.0, gt=0, le=100_000, description="Event time that generated rows cover, in hours")
    window_s: int = Field(
        default=30 * DAY_S, ge=1, description="Event time of one ranking, in seconds; a view counts at the purchase"
    )
    least: int = Field(default=0, ge=0, description="A ranked item was viewed more often than this")
    most: int = Field(default=30, ge=1, description="Length of a ranking")
    item: int = Field(default=10_001, ge=1, description="Item that is bought")
    categories: tuple[int, ...] = Field(default=(2, 3), description="Categories whose goods count as viewed")
    views: int = Field(default=5, ge=1, le=1000, description="Number of views before the purchase that count")
    within_s: int = Field(default=864_000, ge=0, description="Maximum time between view and purchase, in seconds")


class _Q3(Query):
    stream, reads = CLICKS, READS
    options_model: ClassVar[type[Options]] = Q3Options
    options: Q3Options

    def setup(self) -> None:
        self._looked_at = categories(self.options).among(self.options.categories)

    def _seen(self, views: Views, time: int, user: int, item: int, bought: int) -> list[int]:
        """Store a view; for a purchase, return the items viewed before it."""
        last = views.get(user, ())
        if bought:
            return [other for at, other in last if time - at <= self.options.within_s]
        views[user] = (*last, (time, item))[-self.options.views :]
        return []


class Q3(_Q3, RowRanking):
    name = "tpcxbb_q3"
    description = "TPCx-BB 3: goods looked at before another was bought, top 30; an item is a click."
    stages: tuple[Stage, ...] = (Stage("relevant"), by_key("before"), by_key("count"), Stage("top", StageKind.STATEFUL))
    options: Q3Options

    def setup(self) -> None:
        super().setup()
        self._goods = frozenset(self._looked_at.by_item())

    def relevant(self, row: Row) -> Any:
        if TICK in row:
            return self.ticks(row[TICK])
        if NULL in (row["wcs_user_sk"], row["wcs_item_sk"]):
            return Outputs()
        user, item, bought = row["wcs_user_sk"], row["wcs_item_sk"], row["wcs_sales_sk"] != NULL
        if item != self.options.item if bought else item not in self._goods:
            return Outputs()
        return user % self.options.partitions, row["time"], user, item, int(bought)

    def before(self, value: Value, state: Views | None) -> tuple[Outputs, Views]:
        views, (_, time, *click) = state or {}, value
        if not click:
            return self.onward(value), views
        items = self._seen(views, time, *click)
        return Outputs((item % self.options.partitions, time, item) for item in items), views


class Q3Arrow(_Q3, PortionRanking):
    name = "tpcxbb_q3_arrow"
    description = "TPCx-BB 3: goods looked at before another was bought, top 30; an item is a portion, as columns."
    counts_by = ("item",)
    stages = on_portions(Q3.stages, relevant=READS)
    options: Q3Options

    def relevant(self, batch: pa.RecordBatch) -> list[Outputs]:
        clicks = Portions.of(batch)
        item, bought = clicks["wcs_item_sk"], clicks["wcs_sales_sk"] != NULL
        wanted = np.where(bought, item == self.options.item, self._looked_at.take(item) != NULL)
        clicks = clicks.replaced(
            time=clicks["time"], user=clicks["wcs_user_sk"], item=item, bought=bought.astype(np.int64)
        )
        clicks = clicks.where(wanted & (clicks["user"] != NULL) & (item != NULL))
        return clicks.spread(clicks["user"] % self.options.partitions, self.options.partitions, closing=0)

    def before(self, value: dict[str, Any], state: Views | None) -> tuple[Outputs, Views]:
        views, clicks = state or {}, Portions.one(value)
        rows = zip(*(each.tolist() for each in clicks.columns.values()), strict=True)
        seen = [(time, item) for time, *click in rows for item in self._seen(views, time, *click)]
        times, items = (column(each) for each in (zip(*seen, strict=True) if seen else ((), ())))
        found = clicks.of_rows({"time": times, "item": items})
        return found.spread(items % self.options.partitions, self.options.partitions, self.closing)[0], views
