"""The runner's end: takes rows from a Spark driver, and gives results back until they are durable."""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from tempfile import TemporaryDirectory
from typing import Any, Protocol
from uuid import uuid4

from compositions.errors import RecomposeError
from datapipe.sources.fed import why_of
from datapipe.sources.sources import Arrival, Clock
from datapipe.spark.messages import Begin, Durable, Ended, Failed, Key, Message, ResultRows, Room, Rows, Setup, Wanted
from datapipe.spark.process import DriverProcess

# The runner's record of the current micro-batch: each row is taken once, each result kept until it is durable.
#
# Pure. The rows of a batch are numbered from 0. Three marks divide them: *durable* ≤ *sent* ≤ *taken*. A driver that
# comes back after a crash begins the same batch again: rows before *taken* are not requested again, results from
# *durable* on are sent again. A runner that comes back knows nothing: it requests rows from the driver's *durable* on.


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
        """Return whether this row is to be processed now: it is the next one of the batch that is on its way."""
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
        """Store the result of the oldest row that is on its way. A result for a batch that a driver gave up is
        dropped."""
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


WINDOW_ROWS = 256
"""Rows that a driver may send before they are taken: what the runner holds of its input, at most."""
SEND_RESULTS = 500
KEPT_RESULTS = 20_000
"""Results that wait to become durable before no more items are taken."""
END_S = 60.0
RESULT = ("value", "values", "error")
"""What of a result is stored."""
DRIVER = (sys.executable, "-m", f"{__package__}.driver")

Reads = Callable[[Any], Any]
log = logging.getLogger("recompose.live")


class Results(Protocol):
    """The results of items, one after the other."""

    def items(self) -> Iterable[dict[str, Any]]:
        """Return the results in order; each has ``value``, ``values`` or ``error``."""


class SparkLink:
    """Is the source of a run, the place of its results, or both. All methods are thread-safe.

    As a source, ``reads`` makes an item of a row (a dict); a row that it refuses gets that as its result. ``failed`` is
    set when no driver can work: a sentence.
    """

    def __init__(self, setup: Setup, reads: Reads, *, clock: Clock, command: tuple[str, ...] = DRIVER) -> None:
        self._scratch: TemporaryDirectory[str] | None = None
        """Checkpoint of a source that is to be read from its beginning in every run."""
        self._setup, self._reads, self._clock = setup, reads, clock
        self._driver = DriverProcess(command, lambda: self._setup, self._hear, self._lost, clock)
        self._changed = threading.Condition()
        self._ledger = Ledger()
        self._rows: deque[tuple[Key, int, str]] = deque()
        self._ready = False
        """The driver has begun a batch: it knows which results are meant."""
        self._closed = self._over = False
        self._refused = 0
        self.failed: str | None = None
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._drive, self._send)]
        if setup.source is None:  # the items come from elsewhere, and are one endless batch
            self._ledger.begin(Key(setup.query, 0), 0)

    def start(self) -> None:
        if self._scratch is None and self._setup.source is not None and self._setup.checkpoint is None:
            self._scratch = TemporaryDirectory()
            self._setup = self._setup._replace(checkpoint=self._scratch.name)
        for thread in self._threads:
            if thread.ident is None:
                thread.start()

    # --- source -----------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Arrival]:
        """Rows as items, until the query has ended or ``close``."""
        self.start()
        while (row := self._next()) is not None:
            key, number, text = row
            arrived_s = self._clock()
            try:
                value = self._reads(json.loads(text))
            except Exception as error:  # any exception of an app concerns this row only
                self._refuse(key, number, f"{self._setup.app} does not take this row: {why_of(error)}")
                continue
            if self._take(key, number):
                yield Arrival(arrived_s, value, arrived_s)
        if self.failed is not None:
            raise RecomposeError(self.failed)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _next(self) -> tuple[Key, int, str] | None:
        with self._changed:
            self._changed.wait_for(lambda: self._rows or self._closed or self._over)
            if self._closed or not self._rows:
                return None
            row = self._rows.popleft()
            key, number, _ = row
        if number % (WINDOW_ROWS // 4) == 0:
            self._driver.tell(Room(key, number + WINDOW_ROWS))
        return row

    def _take(self, key: Key, row: int) -> bool:
        with self._changed:
            return self._ledger.take(key, row)

    def _refuse(self, key: Key, row: int, why: str) -> None:
        with self._changed:
            self._refused += 1
            self._ledger.refuse(key, row, json.dumps({"error": why}))
            self._changed.notify_all()

    # --- sink -------------------------------------------------------------------------------------------------------

    def take(self, results: Results) -> None:
        """Store the results of the next items, in the order of the source."""
        texts = [
            json.dumps({key: item[key] for key in RESULT if key in item}, ensure_ascii=False)
            for item in results.items()
        ]
        with self._changed:
            for text in texts:
                if self._setup.source is None and self._ledger.key is not None:
                    self._ledger.take(self._ledger.key, self._ledger.taken)
                self._ledger.result(text)
            self._changed.notify_all()

    @property
    def has_room(self) -> bool:
        return self._ledger.kept < KEPT_RESULTS

    def finish(self, timeout_s: float = END_S) -> None:
        """Waits until all results are durable, then ends the driver."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._ledger.kept or self._over, timeout_s)
            if self._ledger.kept:
                log.error("%d results could not be written to the table", self._ledger.kept)
        self._driver.stop()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()
        if self._scratch is not None:
            self._scratch.cleanup()

    def status(self) -> dict[str, Any]:
        with self._changed:
            key = self._ledger.key
            return {
                "driver_pid": self._driver.pid,
                "restarts": self._driver.restarts,
                "batch": key.batch if key is not None and self._setup.source is not None else None,
                "rows_taken": self._ledger.taken,
                "rows_refused": self._refused,
                "results_kept": self._ledger.kept,
            }

    # --- the driver -------------------------------------------------------------------------------------------------

    def _drive(self) -> None:
        try:
            reason = self._driver.run()
        except Exception as error:  # nobody else can tell those who wait for rows or for results
            log.exception("the link to the Spark driver failed")
            reason = f"the link to the Spark driver failed: {type(error).__name__}: {error}"
        with self._changed:
            self._over, self.failed = True, self.failed or reason
            self._changed.notify_all()

    def _lost(self) -> None:
        """Rows that were not taken will come again, with the next driver."""
        with self._changed:
            self._ready = False
            self._rows.clear()

    def _hear(self, message: Message) -> None:
        match message:
            case Begin(key, durable):
                self._driver.tell(self._begun(key, durable))
            case Rows(key, first, texts):
                with self._changed:
                    self._rows.extend((key, first + n, text) for n, text in enumerate(texts))
                    self._changed.notify_all()
            case Durable(key, until):
                self._driver.progressed()
                with self._changed:
                    self._ledger.durable(key, until)
                    self._changed.notify_all()
            case Ended():
                self._driver.stop()
            case Failed(reason):
                self.failed = reason
                self._driver.stop()

    def _begun(self, key: Key, durable: int) -> Wanted:
        with self._changed:
            self._rows.clear()
            first = self._ledger.begin(key, durable)
            self._ready = True
            self._changed.notify_all()
        return Wanted(key, first, first + WINDOW_ROWS)

    def _send(self) -> None:
        """Results, as they come, while there is a driver that has begun their batch."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._over or (self._ready and self._ledger.has_unsent))
                sent = self._ledger.unsent(SEND_RESULTS) if self._ready else None
                if sent is None:
                    return
            self._driver.tell(ResultRows(*sent))


def new_query() -> str:
    """A name for the results of one run, whose source is not Spark's."""
    return f"run-{uuid4().hex[:12]}"
