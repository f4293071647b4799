"""The source of pushed items: a buffer between the clients that push and the thread that reads."""

import threading
from collections import deque
from collections.abc import Sequence
from typing import Any

from compositions.errors import RecomposeError
from datapipe.sources.portions import Portion
from datapipe.sources.schedule import Offer
from datapipe.sources.sources import Arrival, Clock, Readable


class BufferFull(RecomposeError):  # noqa: N818 - says what happened, as queue.Full does
    """A push source has no room for another item now."""


class SourceClosed(RecomposeError):  # noqa: N818 - the same
    """A push source takes no items any more."""


class Push(Readable):
    """Items put by other threads, in order; they arrive when they are put. After ``close``, the rest is still read."""

    def __init__(self, capacity: int, *, clock: Clock) -> None:
        if capacity < 1:
            raise RecomposeError(f"capacity = {capacity}: a push source needs room for at least one item")
        self._capacity, self._clock = capacity, clock
        self._changed = threading.Condition()
        self._waiting: deque[Arrival] = deque()
        self.accepted = self._refused = self._announced = 0
        self._closed = False

    @property
    def waiting(self) -> int:
        """Number of items that were put and have not been read."""
        return len(self._waiting)

    def put(self, value: Any) -> int:
        """Accept an item, and return its serial number, from 0. Raises: BufferFull, SourceClosed."""
        with self._changed:
            self._look_for_room()
            self._waiting.append(self.arrived(value))
            self.accepted += 1
            self._changed.notify()
            return self.accepted - 1

    def announced(self, value: Any) -> Arrival:
        """Reserve room for an item, to be followed by ``extend`` when the item is stored, or by ``withdraw`` if it
        cannot be. Until then reading does not end. Raises: as ``put``."""
        with self._changed:
            self._look_for_room()
            self._announced += 1
            return self.arrived(value)

    def withdraw(self, count: int) -> None:
        """Cancel ``count`` announced items."""
        with self._changed:
            self._announced -= count
            self._changed.notify_all()

    def arrived(self, value: Any) -> Arrival:
        now_s = self._clock()
        return Arrival(now_s, value, now_s)

    def extend(self, arrivals: Sequence[Arrival]) -> None:
        with self._changed:
            self._announced -= len(arrivals)
            self._waiting.extend(arrivals)
            self.accepted += len(arrivals)
            self._changed.notify_all()

    def begin(self, values: Sequence[Any], accepted: int) -> None:
        """Take over items that an earlier runner of the run accepted and did not deliver. ``accepted``: its total."""
        with self._changed:
            self._waiting.extend(self.arrived(value) for value in values)
            self.accepted = accepted
            self._changed.notify_all()

    def _look_for_room(self) -> None:
        if self._closed:
            raise SourceClosed("the app is stopping and accepts no more items")
        if len(self._waiting) + self._announced >= self._capacity:
            self._refused += 1
            raise BufferFull(f"the input buffer holds {self._capacity} items and is full; try again later")

    def dry(self) -> bool:
        return not self.waiting

    def offer(self) -> Offer:
        """Return the items pushed so far, accepted or refused."""
        with self._changed:
            lag_s = self._clock() - self._waiting[0].arrived_s if self._waiting else 0.0
            return Offer(self.accepted + self._refused, self._refused, len(self._waiting), lag_s)

    def read(self, most: int, until_s: float) -> Portion | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or (self._closed and not self._announced))
            if not self._waiting:
                return None
            came = [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]
        times = tuple(arrival.arrived_s for arrival in came)
        return Portion([arrival.value for arrival in came], times, times)

    def at_hand(self, until_s: float) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed, max(0.0, until_s - self._clock()))
            return bool(self._waiting)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
