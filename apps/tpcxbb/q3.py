"""Query 3: what users looked at last before they bought a certain item.

Stateless, keyed by user, keyed by item (table 1 of Prasaad et al.); the parameters are the benchmark's. Each row that
is told raises the count of an item: the last one of an item is its place in the ranking.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from pydantic import Field

from apps.contract import Options, Outputs
from apps.tpcxbb.generate import CLICKS, NULL
from apps.tpcxbb.options import QueryOptions, categories
from apps.tpcxbb.portions import Ints, Portions, columns_for, part_of
from apps.tpcxbb.query import TICK, PortionQuery, Query, Row, RowQuery, Value
from compositions.model import Stage, StageKind

READS = ("wcs_user_sk", "wcs_item_sk", "wcs_sales_sk")
Views = dict[int, tuple[tuple[int, int], ...]]
"""The last views of each user, oldest first: time and item."""
Counts = dict[int, int]


class Q3Options(QueryOptions):
    hours: float = Field(
        default=720.0, gt=0, le=100_000, description="Event time that the generated rows cover, in hours"
    )
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
        """Takes in a view; of a purchase, what was looked at before it."""
        last = views.get(user, ())
        if bought:
            return [other for at, other in last if time - at <= self.options.within_s]
        views[user] = (*last, (time, item))[-self.options.views :]
        return []


class Q3(RowQuery, _Q3):
    name = "tpcxbb_q3"
    description = "TPCx-BB 3: goods looked at before another was bought, counted; an item is a click."
    stages: tuple[Stage, ...] = (
        Stage("relevant"),
        Stage("before", StageKind.PARTITIONED),
        Stage("count", StageKind.PARTITIONED),
    )

    def setup(self) -> None:
        super().setup()
        self._goods = frozenset(self._looked_at.by_item())

    def relevant(self, row: Row) -> Any:
        if TICK in row or NULL in (row["wcs_user_sk"], row["wcs_item_sk"]):
            return Outputs()
        user, item, bought = row["wcs_user_sk"], row["wcs_item_sk"], row["wcs_sales_sk"] != NULL
        if item != self.options.item if bought else item not in self._goods:
            return Outputs()
        return user % self.options.partitions, row["time"], user, item, int(bought)

    def before_key(self, value: Value) -> int:
        return value[0]

    def before(self, value: Value, state: Views | None) -> tuple[Outputs, Views]:
        views, (_, time, user, item, bought) = state or {}, value
        return Outputs(self._seen(views, time, user, item, bought)), views

    def count_key(self, value: int) -> int:
        return value % self.options.partitions

    def count(self, value: int, state: Counts | None) -> tuple[dict[str, int], Counts]:
        counts = state or {}
        return _counted(counts, value), counts


class Q3Arrow(PortionQuery, _Q3):
    name = "tpcxbb_q3_arrow"
    description = "TPCx-BB 3: goods looked at before another was bought, counted; an item is a portion, as columns."
    stages: tuple[Stage, ...] = (
        Stage("relevant", batch=True, columns=columns_for("time", *READS)),
        Stage("before", StageKind.PARTITIONED),
        Stage("count", StageKind.PARTITIONED),
    )

    def relevant(self, batch: pa.RecordBatch) -> list[Outputs]:
        clicks = Portions.of(batch)
        item, bought = clicks["wcs_item_sk"], clicks["wcs_sales_sk"] != NULL
        wanted = np.where(bought, item == self.options.item, self._looked_at.take(item) != NULL)
        clicks = clicks.replaced(
            time=clicks["time"], user=clicks["wcs_user_sk"], item=item, bought=bought.astype(np.int64)
        )
        clicks = clicks.where(wanted & (clicks["user"] != NULL) & (item != NULL))
        return clicks.spread(clicks["user"] % self.options.partitions, self.options.partitions, closing=0)

    def before_key(self, value: dict[str, Any]) -> int:
        return part_of(value)

    def before(self, value: dict[str, Any], state: Views | None) -> tuple[Outputs, Views]:
        views, clicks = state or {}, Portions.one(value)
        rows = zip(*(column.tolist() for column in clicks.columns.values()), strict=True)
        items: Ints = np.array([item for row in rows for item in self._seen(views, *row)], np.int64)
        part = items % self.options.partitions
        return clicks.of_rows({"item": items}).spread(part, self.options.partitions, self.closing)[0], views

    def count_key(self, value: dict[str, Any]) -> int:
        return part_of(value)

    def count(self, value: dict[str, Any], state: Counts | None) -> tuple[Outputs, Counts]:
        counts = state or {}
        return Outputs(_counted(counts, item) for item in Portions.one(value)["item"].tolist()), counts


def _counted(counts: Counts, item: int) -> dict[str, int]:
    counts[item] = counts.get(item, 0) + 1
    return {"item": item, "views": counts[item]}
