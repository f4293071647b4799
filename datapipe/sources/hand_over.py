"""A small buffer between the thread of a source and its consumer, which signals when there is something to take."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Any, NamedTuple

from datapipe.sources.portions import Marks
from datapipe.sources.sources import Clock

PATIENT_ITEMS = 64
PATIENT_S = 0.02
"""A consumer that has enough is told of so many, or after so long, whichever comes first."""
MOST_BYTES = 4 * 2**20
"""When so much waits, no more is put: what waits here is in no budget."""


class Encoded(NamedTuple):
    """Items that were read, and travel together: their values encoded as one payload, and their times, one an item."""

    payload: Any
    arrived_s: tuple[float, ...]
    due_s: tuple[float, ...]
    marks: Marks | None = None
    """Where the source goes on behind each item; None: it has no positions."""
    error: str | None = None
    """Reason why the app refuses these items; there is no payload then."""


class HandOver:
    """``capacity`` payloads; more, and who puts them waits. All methods may be called from any thread.

    ``wake`` is called when there is something to take after there was nothing, and at the end. While the consumer is
    ``patient`` it has more than it can use, as with overload ``shed``: to be woken for every item would cost more than
    the item does.
    """

    def __init__(self, capacity: int, wake: Callable[[], None], clock: Clock) -> None:
        self._capacity, self._wake, self._clock = capacity, wake, clock
        self._changed = threading.Condition()
        self._ready: deque[Encoded] = deque()
        self._sizes: deque[int] = deque()
        """Of those in bytes, about."""
        self._abandoned = self._ended = False
        self._told = False
        """The consumer knows that something is there."""
        self._patient = False

    def put(self, encoded: Encoded, size_bytes: int = 0) -> None:
        """Waits for room; drops what comes after ``abandon``."""
        with self._changed:
            self._changed.wait_for(lambda: not self._full or self._abandoned)
            if self._abandoned:
                return
            self._ready.append(encoded)
            self._sizes.append(size_bytes)
            tell = not self._told and self._wanted
            self._told = self._told or tell
        if tell:
            self._wake()

    def take(self, most: int | None = None) -> list[Encoded]:
        """Up to ``most`` payloads (all when None) in order; does not wait."""
        if not self._ready:  # as at most turns of the consumer, which are several for every item: no lock for that
            return []
        with self._changed:
            taken = list(islice(self._ready, most))
            for _ in taken:
                self._ready.popleft()
                self._sizes.popleft()
            self._told = self._told and bool(self._ready)
            self._changed.notify_all()
            return taken

    def set_patient(self, patient: bool) -> None:
        """Whether the consumer has enough for now."""
        if patient == self._patient:
            return
        with self._changed:
            self._patient = patient
            tell = bool(self._ready) and not self._told and self._wanted
            self._told = self._told or tell
            self._changed.notify_all()
        if tell:
            self._wake()

    def abandon(self) -> None:
        """Nothing is taken any more."""
        with self._changed:
            self._abandoned = True
            self._changed.notify_all()

    def end(self) -> None:
        """Nothing will come any more."""
        with self._changed:
            self._ended = True
        self._wake()

    @property
    def full(self) -> bool:
        """Who puts more has to wait."""
        with self._changed:
            return self._full

    @property
    def finished(self) -> bool:
        """It has ended, and all was taken."""
        return self._ended and not self._ready  # in this order no lock is needed: nothing comes after the end

    @property
    def _full(self) -> bool:
        room = max(self._capacity, PATIENT_ITEMS) if self._patient else self._capacity
        return len(self._ready) >= room or sum(self._sizes) >= MOST_BYTES

    @property
    def _wanted(self) -> bool:
        """Return whether the consumer is to know of what is there."""
        if not self._patient:
            return True
        return self._full or self._clock() - self._ready[0].arrived_s[0] >= PATIENT_S
