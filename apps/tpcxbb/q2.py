"""Query 2: the goods that are most often looked at in one session with a certain one, day by day.

Stateless, keyed by user, stateless, keyed by item, one state (table 1 of Prasaad et al.); the parameters are the
benchmark's.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from pydantic import Field

from apps.contract import Options, Outputs
from apps.tpcxbb.generate import DAY_S, NULL
from apps.tpcxbb.portions import Ints, Portions
from apps.tpcxbb.query import TICK, Query, Row, Value
from apps.tpcxbb.stages import (
    PortionRanking,
    PortionSessions,
    RankingOptions,
    RowRanking,
    RowSessions,
    Session,
    SessionOptions,
    by_key,
    column,
    on_portions,
)
from compositions.model import Stage, StageKind

READS = ("wcs_user_sk", "wcs_item_sk")
Items = tuple[int, ...]


class Q2Options(SessionOptions, RankingOptions):
    item: int = Field(default=10_001, ge=1, description="Item with which the ranked items are viewed")
    window_s: int = Field(
        default=DAY_S, ge=1, description="Event time of one ranking, in seconds; a session counts where it ends"
    )
    least: int = Field(default=0, ge=0, description="A ranked item is in more sessions than this")
    most: int = Field(default=30, ge=1, description="Length of a ranking")


class _Q2(Query):
    reads = READS
    options_model: ClassVar[type[Options]] = Q2Options
    options: Q2Options

    def _add(self, session: Items | None, click: int) -> Items:
        """Return the goods of a session, in the order of their first view."""
        items = session or ()
        return items if click in items else (*items, click)


class Q2(_Q2, RowSessions, RowRanking):
    name = "tpcxbb_q2"
    options: Q2Options
    description = "TPCx-BB 2: goods looked at in one session with another, top 30 a day; an item is a click."
    stages: tuple[Stage, ...] = (
        Stage("views"),
        by_key("sessions"),
        Stage("together"),
        by_key("count"),
        Stage("top", StageKind.STATEFUL),
    )

    def views(self, row: Row) -> Any:
        if TICK in row:
            return self.ticks(row[TICK])
        user, item = row["wcs_user_sk"], row["wcs_item_sk"]
        return Outputs() if NULL in (user, item) else (user % self.options.partitions, row["time"], user, item)

    def together(self, value: Value) -> Any:
        _, end, *session = value
        if not session:
            return value
        items, asked = session[0], self.options.item
        others = (item for item in items if item != asked) if asked in items else ()
        return Outputs((item % self.options.partitions, end, item) for item in others)


class Q2Arrow(_Q2, PortionSessions, PortionRanking):
    name = "tpcxbb_q2_arrow"
    options: Q2Options
    description = (
        "TPCx-BB 2: goods looked at in one session with another, top 30 a day; an item is a portion, as columns."
    )
    counts_by = ("item",)
    stages = on_portions(Q2.stages, views=READS, together=("session", "item"))

    def views(self, batch: pa.RecordBatch) -> list[Outputs]:
        clicks = Portions.of(batch)
        known = clicks.where((clicks["wcs_user_sk"] != NULL) & (clicks["wcs_item_sk"] != NULL))
        known = known.replaced(time=known["time"], user=known["wcs_user_sk"], item=known["wcs_item_sk"])
        return known.spread(known["user"] % self.options.partitions, self.options.partitions, closing=0)

    def _sessions_as_columns(self, sessions: Sequence[Session]) -> dict[str, Ints]:
        rows = [(end, number, item) for number, (end, items) in enumerate(sessions) for item in items]
        ends, numbers, items = zip(*rows, strict=True) if rows else ((), (), ())
        return {"time": column(ends), "session": column(numbers), "item": column(items)}

    def together(self, batch: pa.RecordBatch) -> list[Outputs]:
        rows = Portions.of(batch)
        of_bundle = rows.owner * (1 << 32) + rows["session"]
        wanted = np.isin(of_bundle, of_bundle[rows["item"] == self.options.item])
        others = rows.replaced(time=rows["time"], item=rows["item"]).where(wanted & (rows["item"] != self.options.item))
        return others.spread(others["item"] % self.options.partitions, self.options.partitions, self.closing)
