"""Admission: items get their serial numbers and wait to be started; what happens when they are too many."""

from __future__ import annotations

from collections import deque

from runtime.dispatch.events import BundleAdmitted
from runtime.dispatch.pipeline import Bundle
from runtime.dispatch.settings import DispatcherSettings


class Admission:
    """The queue before the first group. ``accepted`` items so far is the next serial number; ``queued`` wait."""

    def __init__(self, settings: DispatcherSettings) -> None:
        self.queue: deque[Bundle] = deque()
        self.accepted = self.queued = 0
        self._buffer_items = settings.buffer_items
        self.sheds = settings.overload == "shed"

    @property
    def has_room(self) -> bool:
        """Whether another bundle is welcome; where the oldest items make room it always is."""
        return self.sheds or self.queued < self._buffer_items

    def take(self, event: BundleAdmitted, size_bytes: int) -> list[Bundle]:
        """Queues the items under the next serial numbers; returns those that must go for them, the oldest first."""
        bundle = Bundle(self.accepted, event.arrived_s, event.payload, size_bytes=size_bytes, due_s=event.due_s)
        self.queue.append(bundle)
        self.accepted += bundle.count
        self.queued += bundle.count
        return self._too_many() if self.sheds and self.queued > self._buffer_items else []

    def start(self) -> Bundle:
        """The oldest leaves the queue."""
        bundle = self.queue.popleft()
        self.queued -= bundle.count
        return bundle

    def _too_many(self) -> list[Bundle]:
        going = []
        while (excess := self.queued - self._buffer_items) > 0:
            bundle = self.start()
            if bundle.count > excess:
                self.queue.appendleft(bundle.part(excess, bundle.count))
                self.queued += bundle.count - excess
                bundle = bundle.part(0, excess)
            going.append(bundle)
        return going
