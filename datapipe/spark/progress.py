"""Progress of a driver's micro-batch, shared by the thread that sends its rows and the one that hears the runner."""

from __future__ import annotations

import threading

from datapipe.spark.messages import Key


class Progress:
    """Marks within one batch, its rows numbered from 0. Thread-safe; what is said of another batch changes nothing."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._key: Key | None = None
        self._first = self._until = -1
        self._durable = 0
        self._total: int | None = None

    @property
    def key(self) -> Key | None:
        return self._key

    @property
    def durable(self) -> int:
        """Results of the rows before it are in the table."""
        return self._durable

    def lacks(self, results: int) -> bool:
        """Return whether more results are to come than these, which are to be written."""
        return self._durable + results != self._total

    # --- for the thread that sends rows -----------------------------------------------------------------------------

    def begin(self, key: Key, durable: int) -> None:
        with self._changed:
            self._key, self._durable, self._total = key, durable, None
            self._first = self._until = -1

    def await_runner(self) -> None:
        """Until the runner has said which rows it wants."""
        with self._changed:
            self._changed.wait_for(lambda: self._until >= 0)

    def known(self, first: int, count: int) -> int:
        """Return how many of ``count`` rows from ``first`` on the runner has already."""
        return min(max(0, self._first - first), count)

    def await_room(self, until: int) -> Key:
        """Until the runner has room for the rows before ``until``; of which batch they are."""
        with self._changed:
            self._changed.wait_for(lambda: self._until >= until)
            assert self._key is not None, "a batch has begun"
            return self._key

    def await_end(self, total: int) -> None:
        """The batch has ``total`` rows; until their results are durable."""
        with self._changed:
            self._total = total
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._durable >= total)

    # --- for the thread that hears ----------------------------------------------------------------------------------

    def wanted(self, key: Key, first: int, until: int) -> None:
        with self._changed:
            if key == self._key:
                self._first, self._until = first, until
                self._changed.notify_all()

    def room(self, key: Key, until: int) -> None:
        with self._changed:
            if key == self._key:
                self._until = max(self._until, until)
                self._changed.notify_all()

    def written(self, key: Key, until: int) -> None:
        with self._changed:
            if key == self._key:
                self._durable = until
                self._changed.notify_all()
