"""What a runner knows of the micro-batch on its way: a row is taken once, its result kept until it is stored for good.

Pure. The rows of a batch are numbered from 0. Three marks divide them: *durable* ≤ *sent* ≤ *taken*. A driver that
comes back after a crash begins the same batch again: rows before *taken* are not asked for, results from *durable* on
are sent again. A runner that comes back knows nothing: rows from the driver's *durable* on are asked for.
"""

from __future__ import annotations

from collections import deque

from datapipe.live.messages import Key


class Ledger:
    def __init__(self) -> None:
        self._key: Key | None = None
        self._taken = self._sent = 0
        self._on_the_way: deque[tuple[Key, int]] = deque()
        self._results: dict[int, str] = {}

    def begin(self, key: Key, durable: int) -> int:
        """A driver begins ``key``, or begins it again. Returns the first row that is wanted of it."""
        if key != self._key:
            self._key, self._taken, self._results = key, durable, {}
        self._sent = durable
        self.durable(key, durable)
        self._taken = max(self._taken, durable)
        return self._taken

    def take(self, key: Key, row: int) -> bool:
        """Whether this row is to be processed now: it is the next one of the batch that is on its way."""
        if key != self._key or row != self._taken:
            return False
        self._taken += 1
        self._on_the_way.append((key, row))
        return True

    def refuse(self, key: Key, row: int, result: str) -> None:
        """The next row has its result without being processed."""
        if self.take(key, row):
            self._on_the_way.pop()
            self._results[row] = result

    def result(self, text: str) -> None:
        """Of the oldest row that is on its way. That of a batch which a driver gave up is of no use to anybody."""
        key, row = self._on_the_way.popleft()
        if key == self._key:
            self._results[row] = text

    def unsent(self, most: int) -> tuple[Key, int, list[str]] | None:
        """The next results without a gap, ``most`` at a time; they count as sent from now on."""
        if self._key is None:
            return None
        first, texts = self._sent, list[str]()
        while len(texts) < most and first + len(texts) in self._results:
            texts.append(self._results[first + len(texts)])
        self._sent += len(texts)
        return (self._key, first, texts) if texts else None

    def durable(self, key: Key, until: int) -> None:
        """Results of the rows before ``until`` need not be kept."""
        if key == self._key:
            for row in [row for row in self._results if row < until]:
                del self._results[row]

    @property
    def has_unsent(self) -> bool:
        return self._sent in self._results

    @property
    def kept(self) -> int:
        """Results in memory."""
        return len(self._results)

    @property
    def key(self) -> Key | None:
        return self._key

    @property
    def taken(self) -> int:
        return self._taken
