"""Query 4: how many pages users saw in sessions in which they filled a cart and did not check out, day by day.

Stateless, keyed by user, stateless, one state (table 1 of Prasaad et al.); parameters are the benchmark's. A cart is
abandoned when no order follows the session's last dynamic page.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from pydantic import Field

from apps.contract import Options, Outputs
from apps.tpcxbb.generate import DAY_S, NULL
from apps.tpcxbb.options import pages_of
from apps.tpcxbb.portions import Ints, Portions, news_of
from apps.tpcxbb.query import TICK, Query, Row, Value
from apps.tpcxbb.stages import PortionSessions, RowSessions, Session, SessionOptions, by_key, column, on_portions
from compositions.model import Stage, StageKind

READS = ("wcs_user_sk", "wcs_web_page_sk")
OTHER, DYNAMIC, ORDER = 0, 1, 2
Cart = tuple[int, int]
"""Number of clicks of a session, and whether it has a cart that was not checked out."""
Totals = dict[int, Cart]
"""Sessions and clicks by start of the window."""


class Q4Options(SessionOptions):
    window_s: int = Field(
        default=DAY_S, ge=1, description="Event time of one mean, in seconds; a session counts where it ends"
    )


class _Q4(Query):
    """Query 4: the summary of a session's clicks, and the last stage."""

    reads = READS
    options_model: ClassVar[type[Options]] = Q4Options
    options: Q4Options

    def _add(self, session: Cart | None, click: int) -> Cart:
        clicks, cart = session or (0, 0)
        return clicks + 1, {DYNAMIC: 1, ORDER: 0}.get(click, cart)

    def _take(self, totals: Totals, end: int, clicks: int) -> None:
        start = end - end % self.options.window_s
        sessions, before = totals.get(start, (0, 0))
        totals[start] = sessions + 1, before + clicks

    def _means(self, totals: Totals, watermark: int) -> Outputs:
        done = sorted(start for start in totals if start + self.options.window_s <= watermark)
        return Outputs(self._mean(start, *totals.pop(start)) for start in done)

    def _mean(self, start: int, sessions: int, clicks: int) -> dict[str, Any]:
        until_s = start + self.options.window_s
        return {"from_s": start, "until_s": until_s, "sessions": sessions, "pages": clicks / sessions}


class Q4(_Q4, RowSessions):
    name = "tpcxbb_q4"
    options: Q4Options
    description = "TPCx-BB 4: pages seen in sessions with an abandoned cart, mean of a day; an item is a click."
    stages: tuple[Stage, ...] = (
        Stage("pages"),
        by_key("sessions"),
        Stage("abandoned"),
        Stage("mean", StageKind.STATEFUL),
    )

    def setup(self) -> None:
        super().setup()
        self._kinds = dict.fromkeys(pages_of(self.options, "dynamic"), DYNAMIC)
        self._kinds |= dict.fromkeys(pages_of(self.options, "order"), ORDER)

    def pages(self, row: Row) -> Any:
        if TICK in row:
            return self.ticks(row[TICK])
        user, kind = row["wcs_user_sk"], self._kinds.get(row["wcs_web_page_sk"], OTHER)
        return Outputs() if user == NULL else (user % self.options.partitions, row["time"], user, kind)

    def abandoned(self, value: Value) -> Any:
        part, end, *session = value
        if not session:
            return value if part == self.closing else Outputs()
        clicks, cart = session[0]
        return (part, end, clicks) if cart else Outputs()

    def mean(self, value: Value, state: Totals | None) -> tuple[Outputs, Totals]:
        totals, (_, time, *clicks) = state or {}, value
        if not clicks:
            return self._means(totals, time), totals
        self._take(totals, time, clicks[0])
        return Outputs(), totals


class Q4Arrow(_Q4, PortionSessions):
    name = "tpcxbb_q4_arrow"
    options: Q4Options
    description = "TPCx-BB 4: pages seen in sessions with an abandoned cart; an item is a portion, as columns."
    stages = on_portions(Q4.stages, pages=READS, abandoned=("clicks", "cart"))

    def setup(self) -> None:
        super().setup()
        self._dynamic, self._order = (sorted(pages_of(self.options, kind)) for kind in ("dynamic", "order"))

    def pages(self, batch: pa.RecordBatch) -> list[Outputs]:
        clicks = Portions.of(batch)
        clicks = clicks.where(clicks["wcs_user_sk"] != NULL)
        page = clicks["wcs_web_page_sk"]
        kind = np.isin(page, self._dynamic) * DYNAMIC + np.isin(page, self._order) * ORDER
        known = clicks.replaced(time=clicks["time"], user=clicks["wcs_user_sk"], kind=kind)
        return known.spread(known["user"] % self.options.partitions, self.options.partitions, closing=0)

    def _sessions_as_columns(self, sessions: Sequence[Session]) -> dict[str, Ints]:
        return {
            "time": column([end for end, _ in sessions]),
            "clicks": column([session[0] for _, session in sessions]),
            "cart": column([session[1] for _, session in sessions]),
        }

    def abandoned(self, batch: pa.RecordBatch) -> list[dict[str, Any]]:
        sessions = Portions.of(batch)
        return sessions.where(sessions["cart"] == 1).packed()

    def mean(self, value: dict[str, Any], state: Totals | None) -> tuple[Outputs, Totals]:
        totals, sessions = state or {}, Portions.one(value)
        for end, clicks in zip(sessions["time"].tolist(), sessions["clicks"].tolist(), strict=True):
            self._take(totals, end, clicks)
        return self._means(totals, news_of(value, self.closing)), totals
