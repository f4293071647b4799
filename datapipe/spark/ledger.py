"""The runner's record of the current micro-batch: each row is taken once, each result kept until it is durable.

Pure. The rows of a batch are numbered from 0. Three marks divide them: *durable* ≤ *offered* ≤ *taken*. A driver that
restarts after a crash begins the same batch again: rows before *taken* are not delivered again, results from *durable*
on are offered again. A restarted runner has no record: it gets rows from the driver's *durable* on.
"""

from collections import deque

from datapipe.spark.messages import Fetch, Key, Ready


class Ledger:
    def __init__(self) -> None:
        self.key: Key | None = None
        self.taken = self._offered = 0
        self._on_the_way: deque[tuple[Key, int]] = deque()
        self._results: dict[int, str] = {}
        self._ends: list[int] = []
        self.number = 0
        """The number of the present driver's batch. Executors with another number belong to a former driver."""
        self.refused = 0

    def begin(self, key: Key, durable: int) -> int:
        """Begin batch ``key``, or begin it again; return the first row to deliver."""
        if key != self.key:
            self.key, self.taken, self._results = key, durable, {}
        self.give_up()
        self._offered = durable
        self.durable(key, durable)
        self.taken = max(self.taken, durable)
        return self.taken

    def give_up(self) -> None:
        """Ignore the executors of the present driver from now on."""
        self.number += 1
        self._ends = []

    def first_of(self, partition: int) -> int | None:
        """Return the number of a partition's first row; None until all partitions before have been delivered."""
        return (0, *self._ends)[partition] if partition <= len(self._ends) else None

    def delivered(self, partition: int, until: int) -> None:
        """Record that all rows of a partition have come; they end before row ``until``."""
        if partition == len(self._ends):
            self._ends.append(until)

    def take(self, key: Key, row: int) -> bool:
        """Return whether this row is to be processed now: it is the next one of the batch that is on its way."""
        if key != self.key or row != self.taken:
            return False
        self.taken += 1
        self._on_the_way.append((key, row))
        return True

    def refuse(self, key: Key, row: int, result: str) -> None:
        """Store the result of the next row, which is not processed."""
        self.refused += 1
        if self.take(key, row):
            self._on_the_way.pop()
            self._results[row] = result

    def result(self, text: str) -> None:
        """Store the result of the oldest row under way; drop one for a batch that a driver gave up."""
        key, row = self._on_the_way.popleft()
        if key == self.key:
            self._results[row] = text

    def offer(self) -> Ready | None:
        """Return up to where results are here without a gap, if there are more than the last time."""
        if self.key is None or not self.has_more:
            return None
        while self.has_more:
            self._offered += 1
        return Ready(self.key, self._offered)

    def results(self, what: Fetch) -> list[str] | None:
        """Return results that were offered; None to an executor of a former driver."""
        if what.number != self.number:
            return None
        return [self._results[row] for row in range(what.first, what.first + what.rows)]

    def durable(self, key: Key, until: int) -> None:
        """Results of the rows before ``until`` need not be kept."""
        if key == self.key:
            for row in [row for row in self._results if row < until]:
                del self._results[row]

    @property
    def has_more(self) -> bool:
        """Results that were not offered yet."""
        return self._offered in self._results

    @property
    def kept(self) -> int:
        """Results in memory."""
        return len(self._results)
