"""Admission: items get their serial numbers and wait to be started; what happens when they are too many."""

from __future__ import annotations

from collections import deque

from runtime.dispatch.events import ItemAdmitted
from runtime.dispatch.pipeline import Item
from runtime.dispatch.settings import DispatcherSettings


class Admission:
    """The queue before the first group. ``accepted`` items so far is the next serial number."""

    def __init__(self, settings: DispatcherSettings) -> None:
        self.queue: deque[Item] = deque()
        self.accepted = 0
        self._buffer_items = settings.buffer_items
        self._sheds = settings.overload == "shed"

    @property
    def has_room(self) -> bool:
        """Whether another item is welcome; where the oldest makes room it always is."""
        return self._sheds or len(self.queue) < self._buffer_items

    def take(self, event: ItemAdmitted, size_bytes: int) -> Item | None:
        """Queues the item under the next serial number; returns the one that must go for it, if any."""
        self.queue.append(Item(self.accepted, event.arrived_s, event.payload, size_bytes=size_bytes, due_s=event.due_s))
        self.accepted += 1
        return self.queue.popleft() if self._sheds and len(self.queue) > self._buffer_items else None
