"""The end of the dispatcher: results wait for their turn, leave in order, and are counted."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from runtime.dispatch.ordering import ReorderBuffer
from runtime.dispatch.outcomes import Delivered, Shed
from runtime.dispatch.pipeline import Item


@dataclass(slots=True, eq=False)
class Fate:
    """What became of an item that was started: done, or dead with ``error``."""

    item: Item
    error: str | None


@dataclass(slots=True, eq=False)
class ShedRun:
    """Items shed one after the other, from serial ``first`` on: all that is left of them is when they arrived."""

    first: int
    arrived_s: list[float]

    @property
    def serials(self) -> range:
        return range(self.first, self.first + len(self.arrived_s))


class Outbox:
    """Takes every item once, with its fate; gives out what may leave now.

    Order is kept by *turns*: an item takes its turn when it is started. Those shed before never take one, so that they
    cost neither room nor order; they are reported in their place, before the item that was started next.
    """

    def __init__(self) -> None:
        self._reorder: ReorderBuffer[Fate] = ReorderBuffer()
        self._shed_before: dict[int, ShedRun] = {}
        """By the turn of the item that was started next."""
        self.turns_taken = 0
        self.delivered = self.failed = self.shed = 0

    @property
    def next_turn(self) -> int:
        """The turn that leaves next."""
        return self._reorder.next_serial

    @property
    def next_serial(self) -> int:
        """The serial number that leaves next: all before have left."""
        return self.delivered + self.failed + self.shed

    @property
    def waiting(self) -> Collection[int]:
        """The serial numbers of those that are done or shed, and wait for earlier ones."""
        done = [fate.item.serial for fate in self._reorder.waiting.values()]
        return [*done, *(serial for run in self._shed_before.values() for serial in run.serials)]

    @property
    def room_taken(self) -> int:
        """Items that were started and have not left."""
        return self.turns_taken - self._reorder.next_serial

    def take_turn(self) -> int:
        """An item is started, after all that were started before."""
        self.turns_taken += 1
        return self.turns_taken - 1

    def put(self, item: Item, error: str | None, now_s: float) -> list[Delivered | Shed]:
        """A started item is done, or dead (``error``); returns the outcomes of all that may leave now, in order."""
        out: list[Delivered | Shed] = []
        for fate in self._reorder.put(item.turn, Fate(item, error)):
            out.append(self._delivered(fate, now_s))
            if self._shed_before:
                out += self._leave_shed(fate.item.turn + 1, now_s)
        return out

    def put_shed(self, item: Item, now_s: float) -> list[Delivered | Shed]:
        """An item that was never started is dropped; what may leave now, as above."""
        run = self._shed_before.setdefault(self.turns_taken, ShedRun(item.serial, []))
        run.arrived_s.append(item.arrived_s)
        return self._leave_shed(self.turns_taken, now_s) if self.room_taken == 0 else []

    def _leave_shed(self, turn: int, now_s: float) -> list[Delivered | Shed]:
        run = self._shed_before.pop(turn, None)
        if run is None:
            return []
        self.shed += len(run.arrived_s)
        return [Shed(now_s, serial, at_s) for serial, at_s in zip(run.serials, run.arrived_s, strict=True)]

    def _delivered(self, fate: Fate, now_s: float) -> Delivered:
        item, error = fate.item, fate.error
        self.failed += error is not None
        self.delivered += error is None
        assert item.pipeline is not None, "an item in the reorder buffer has started"
        assert item.started_s is not None, "an item in the reorder buffer has started"
        payload = item.payload if error is None else None
        name = item.pipeline.composition.name
        return Delivered(now_s, item.serial, item.arrived_s, item.started_s, name, payload, error, item.due_s)
