"""The runner's end: takes rows from a Spark driver, and gives results back until they are durable."""

import json
import logging
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection
from tempfile import TemporaryDirectory
from typing import Any, Protocol
from uuid import uuid4

from compositions.errors import RecomposeError
from datapipe.sources.fed import why_of
from datapipe.sources.sources import Arrival, Clock
from datapipe.spark.door import Door
from datapipe.spark.ledger import Ledger
from datapipe.spark.messages import Begin, Begun, Deliver, Durable, Ended, Failed, Key, Message, Setup
from datapipe.spark.process import DriverProcess

WINDOW_ROWS = 256
"""Number of received rows, not yet taken, at which executors must wait."""
KEPT_RESULTS = 20_000
"""Number of results that are not durable yet at which no more items are taken."""
END_S = 60.0
RESULT = ("value", "values", "error")
"""The stored fields of a result."""
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
        """The door; and the checkpoint of a source that is to be read from its beginning in every run."""
        self._door: Door | None = None
        self._setup, self._reads, self._clock = setup, reads, clock
        self._driver = DriverProcess(command, lambda: self._setup, self._hear, self._lost, clock)
        self._changed = threading.Condition()
        self._ledger = Ledger()
        self._rows: deque[tuple[Key, int, str]] = deque()
        self._ready = False
        """The driver has begun a batch: it knows which results are meant."""
        self._closed = self._over = False
        self.failed: str | None = None
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._drive, self._send)]
        if setup.source is None:  # the items come from elsewhere, and are one endless batch
            self._ledger.begin(Key(setup.query, 0), 0)

    def start(self) -> None:
        if self._scratch is None:
            self._scratch = TemporaryDirectory(prefix="recompose-")
            checkpoint = self._setup.checkpoint
            if self._setup.source is not None and checkpoint is None:
                checkpoint = f"{self._scratch.name}/checkpoint"
            self._door = Door(f"{self._scratch.name}/door", self._serve)
            self._setup = self._setup._replace(checkpoint=checkpoint, door=self._door.address)
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
                self._refuse(key, number, f"{self._setup.app} does not accept this row: {why_of(error)}")
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
            if len(self._rows) == WINDOW_ROWS - 1:
                self._changed.notify_all()
        return row

    def _take(self, key: Key, row: int) -> bool:
        with self._changed:
            if not self._rows:  # it may be a partition's last
                self._changed.notify_all()
            return self._ledger.take(key, row)

    def _refuse(self, key: Key, row: int, why: str) -> None:
        with self._changed:
            self._ledger.refuse(key, row, json.dumps({"error": why}))
            self._changed.notify_all()

    # --- sink -------------------------------------------------------------------------------------------------------

    def take(self, results: Results) -> None:
        """Store the results of the next items, in the order of the source."""
        told = ({key: item[key] for key in RESULT if key in item} for item in results.items())
        texts = [json.dumps(each, ensure_ascii=False) for each in told]
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
        """Wait until all results are durable, then end the driver."""
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
        if self._door is not None:
            self._door.close()
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
                "rows_refused": self._ledger.refused,
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
        """Drop rows that were not taken, as the next driver delivers them again."""
        with self._changed:
            self._ready = False
            self._rows.clear()
            self._ledger.give_up()
            self._changed.notify_all()

    def _hear(self, message: Message) -> None:
        match message:
            case Begin(key, durable):
                self._driver.tell(self._begun(key, durable))
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

    def _begun(self, key: Key, durable: int) -> Begun:
        with self._changed:
            self._rows.clear()
            self._ledger.begin(key, durable)
            self._ready = True
            self._changed.notify_all()
            return Begun(key, self._ledger.number)

    def _send(self) -> None:
        """Offer results, as they come, while there is a driver that has begun their batch."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._over or (self._ready and self._ledger.has_more))
                ready = self._ledger.offer() if self._ready else None
                if ready is None:
                    return
            self._driver.tell(ready)

    # --- the driver's executors -------------------------------------------------------------------------------------

    def _serve(self, executor: Connection) -> None:
        """Answer one executor. The connection of one that no batch needs is closed without an answer."""
        message = executor.recv()
        if isinstance(message, Deliver):
            self._receive(executor, *message)
            return
        with self._changed:
            results = self._ledger.results(message)
        if results is not None:
            executor.send(results)

    def _receive(self, executor: Connection, number: int, partition: int) -> None:
        with self._changed:
            if not self._await(number, lambda: self._ledger.first_of(partition) is not None):
                return
            key, first = self._ledger.key, self._ledger.first_of(partition)
            assert key is not None
            assert first is not None
            known = max(0, self._ledger.taken - first)
        executor.send(known)
        row = first + known
        while not isinstance(texts := executor.recv(), int):
            with self._changed:
                if not self._await(number, lambda: len(self._rows) < WINDOW_ROWS):
                    return
                self._rows.extend((key, row + n, text) for n, text in enumerate(texts))
                self._changed.notify_all()
            row += len(texts)
        until = first + texts
        with self._changed:
            self._ledger.delivered(partition, until)
            self._changed.notify_all()
            if not self._await(number, lambda: self._ledger.taken >= until):
                return
        executor.send(texts)

    def _await(self, number: int, what: Callable[[], bool]) -> bool:
        """Return whether it happened before the batch was given up."""

        def ended() -> bool:
            return self._over or number != self._ledger.number

        self._changed.wait_for(lambda: ended() or what())
        return not ended()


def new_query() -> str:
    """Return a name for the results of a run whose source is not Spark."""
    return f"run-{uuid4().hex[:12]}"
