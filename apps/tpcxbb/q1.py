"""Query 1: the pairs of goods that are most often sold together in stores, hour by hour.

Stateless, keyed by ticket, keyed by pair, one state (table 1 of Prasaad et al.); the parameters are the benchmark's.
"""

from itertools import chain
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from pydantic import Field

from apps.contract import Options, Outputs
from apps.tpcxbb.generate import NULL, SALES
from apps.tpcxbb.options import categories
from apps.tpcxbb.portions import Ints, Portions
from apps.tpcxbb.query import TICK, Query, Row, Value
from apps.tpcxbb.stages import PortionRanking, RankingOptions, RowRanking, by_key, on_portions
from compositions.model import Stage, StageKind

READS = ("ss_item_sk", "ss_store_sk", "ss_ticket_number")
Tickets = dict[int, tuple[int, list[int]]]
"""Open tickets by number: the time of each, and the goods on it."""


class Q1Options(RankingOptions):
    categories: tuple[int, ...] = Field(default=(1, 2, 3), description="Categories whose goods are counted")
    stores: tuple[int, ...] = Field(default=(10, 20, 33, 40, 50), description="Stores whose sales are counted")


class _Q1(Query):
    stream, reads = SALES, READS
    options_model: ClassVar[type[Options]] = Q1Options
    options: Q1Options

    def setup(self) -> None:
        self._wanted = categories(self.options).among(self.options.categories)


class Q1(RowRanking, _Q1):
    name = "tpcxbb_q1"
    description = "TPCx-BB 1: goods sold together, top 100 an hour; an item is a sale."
    options: Q1Options
    stages: tuple[Stage, ...] = (Stage("wanted"), by_key("pairs"), by_key("count"), Stage("top", StageKind.STATEFUL))

    def setup(self) -> None:
        super().setup()
        self._goods = frozenset(self._wanted.by_item())
        self._stores = frozenset(self.options.stores)

    def wanted(self, row: Row) -> Any:
        if TICK in row:
            return self.ticks(row[TICK])
        item, ticket = row["ss_item_sk"], row["ss_ticket_number"]
        if row["ss_store_sk"] not in self._stores or item not in self._goods:
            return Outputs()
        return ticket % self.options.partitions, row["time"], ticket, item

    def pairs(self, value: Value, state: Tickets | None) -> tuple[Outputs, Tickets]:
        """Return, by ticket, a pair for each good that was on it before."""
        tickets, (_, time, *sale) = state or {}, value
        if not sale:
            _forget(tickets, time)
            return self.onward(value), tickets
        ticket, item = sale
        found = _paired(tickets, time, ticket, item)
        return Outputs((_part(a, b, self.options.partitions), time, a, b) for a, b in found), tickets


class Q1Arrow(PortionRanking, _Q1):
    name = "tpcxbb_q1_arrow"
    description = "TPCx-BB 1: goods sold together, top 100 an hour; an item is a portion of sales, as columns."
    options: Q1Options
    counts_by = ("a", "b")
    stages = on_portions(Q1.stages, wanted=READS)

    def wanted(self, batch: pa.RecordBatch) -> list[Outputs]:
        sales = Portions.of(batch)
        sales = sales.where(np.isin(sales["ss_store_sk"], self.options.stores))
        sales = sales.where(self._wanted.take(sales["ss_item_sk"]) != NULL)
        sales = sales.replaced(time=sales["time"], ticket=sales["ss_ticket_number"], item=sales["ss_item_sk"])
        return sales.spread(sales["ticket"] % self.options.partitions, self.options.partitions, closing=0)

    def pairs(self, value: dict[str, Any], state: Tickets | None) -> tuple[Outputs, Tickets]:
        tickets, sales = state or {}, Portions.one(value)
        times, numbers, items = (sales[name].tolist() for name in ("time", "ticket", "item"))
        found = [
            (time, *pair)
            for time, ticket, item in zip(times, numbers, items, strict=True)
            for pair in _paired(tickets, time, ticket, item)
        ]
        _forget(tickets, sales.watermark)
        flat: Ints = np.fromiter(chain.from_iterable(found), np.int64, 3 * len(found)).reshape(-1, 3)
        pairs = sales.of_rows({"time": flat[:, 0], "a": flat[:, 1], "b": flat[:, 2]})
        part = _part(pairs["a"], pairs["b"], self.options.partitions)
        return pairs.spread(part, self.options.partitions, self.closing)[0], tickets


def _paired(tickets: Tickets, time: int, ticket: int, item: int) -> list[tuple[int, int]]:
    """Return the pairs of goods that a sale adds to its ticket."""
    _, items = tickets.setdefault(ticket, (time, []))
    if item in items:
        return []
    found = [(other, item) if other < item else (item, other) for other in items]
    items.append(item)
    return found


def _forget(tickets: Tickets, watermark: int) -> None:
    """Forget tickets: all sales of a ticket have the same time."""
    for ticket in [ticket for ticket, (time, _) in tickets.items() if time < watermark]:
        del tickets[ticket]


def _part(a: Any, b: Any, partitions: int) -> Any:
    return (a * 31 + b) % partitions
