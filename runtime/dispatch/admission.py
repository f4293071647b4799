"""Admission: items get their serial numbers and wait to be started; what happens when they are too many."""

from __future__ import annotations

from collections import deque

from runtime.dispatch.bundle import Bundle
from runtime.dispatch.events import BundleAdmitted
from runtime.dispatch.settings import DispatcherSettings


class Admission:
    """The queue before the first group. ``accepted`` items so far is the next serial number; ``queued`` wait."""

    def __init__(self, settings: DispatcherSettings, accepted: int = 0) -> None:
        self.queue: deque[Bundle] = deque()
        self.accepted = accepted
        self.queued = self.queued_bytes = 0
        self._buffer_items, self._buffer_bytes = settings.buffer_items, settings.buffer_bytes
        self.sheds = settings.overload == "shed"

    @property
    def has_room(self) -> bool:
        """Whether another bundle is welcome; where the oldest items make room it always is."""
        return self.sheds or (self.queued < self._buffer_items and self.queued_bytes < self._buffer_bytes)

    def take(self, event: BundleAdmitted, size_bytes: int) -> list[Bundle]:
        """Queues the items under the next serial numbers; returns those that must go for them, the oldest first."""
        _, arrived_s, payload, due_s, routes = event
        bundle = Bundle(self.accepted, arrived_s, payload, size_bytes=size_bytes, due_s=due_s, routes=routes)
        self.queue.append(bundle)
        self.accepted += bundle.count
        self._count(bundle, 1)
        return self._too_many() if self.sheds else []

    def start(self) -> Bundle:
        """The oldest leaves the queue."""
        bundle = self.queue.popleft()
        self._count(bundle, -1)
        return bundle

    def _too_many(self) -> list[Bundle]:
        going = []
        while (excess := self.queued - self._buffer_items) > 0:
            going.append(self._oldest(excess))
        while self.queued_bytes > self._buffer_bytes and self.queued > 1:
            going.append(self._oldest(1))
        return going

    def _oldest(self, most: int) -> Bundle:
        """Up to ``most`` items leave the queue."""
        bundle = self.start()
        if bundle.count <= most:
            return bundle
        rest = bundle.part(most, bundle.count)
        self.queue.appendleft(rest)
        self._count(rest, 1)
        return bundle.part(0, most)

    def _count(self, bundle: Bundle, sign: int) -> None:
        self.queued += sign * bundle.count
        self.queued_bytes += sign * bundle.size_bytes
