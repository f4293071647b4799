"""The end of the dispatcher: results wait for their turn, leave in order, and are counted."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from runtime.dispatch.events import Delivered, Shed
from runtime.dispatch.ordering import ReorderBuffer
from runtime.dispatch.pipeline import Item


@dataclass(slots=True, eq=False)
class Fate:
    """What became of an item: done, dead (``error``), or shed."""

    item: Item
    error: str | None
    shed: bool


class Outbox:
    """Takes every item once, with its fate; gives out what may leave now."""

    def __init__(self) -> None:
        self._reorder: ReorderBuffer[Fate] = ReorderBuffer()
        self.delivered = self.failed = self.shed = 0

    @property
    def next_serial(self) -> int:
        """The serial number that leaves next."""
        return self._reorder.next_serial

    @property
    def waiting(self) -> Collection[int]:
        """The serial numbers of those that are done and wait for earlier ones."""
        return self._reorder.waiting

    def put(self, item: Item, error: str | None, shed: bool, now_s: float) -> list[Delivered | Shed]:
        """An item is done, dead (``error``) or shed; returns the outcomes of all that may leave now, in order."""
        return [self._outcome(fate, now_s) for fate in self._reorder.put(item.serial, Fate(item, error, shed))]

    def _outcome(self, fate: Fate, now_s: float) -> Delivered | Shed:
        item, error = fate.item, fate.error
        if fate.shed:
            self.shed += 1
            return Shed(now_s, item.serial, item.arrived_s)
        self.failed += error is not None
        self.delivered += error is None
        assert item.pipeline is not None, "an item that was not shed has started"
        assert item.started_s is not None, "an item that was not shed has started"
        payload = item.payload if error is None else None
        name = item.pipeline.composition.name
        return Delivered(now_s, item.serial, item.arrived_s, item.started_s, name, payload, error, item.due_s)
