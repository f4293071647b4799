"""The Spark driver of a running app, a process of its own: ``python -m datapipe.spark.driver FD``.

Rows of a micro-batch go to the runner, as many as it has room for; their results come back and are written in parts.
``foreachBatch`` returns, and Spark commits the batch, when the results of all its rows are durable. A driver that dies
before that is given the same batch again, and asks the table and the runner how far they are.
"""

from __future__ import annotations

import fcntl
import os
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from time import monotonic
from typing import Any

from compositions.errors import RecomposeError
from datapipe.spark.messages import (
    Begin,
    Durable,
    Ended,
    Failed,
    Key,
    Message,
    ResultRows,
    Room,
    Rows,
    Setup,
    Wanted,
)  # fmt: skip
from datapipe.spark.query import (
    NoTable,
    PartTable,
    Table,
    in_order_of_text,
    keeps_order,
    one_line,
    streaming_rows,
    texts_of,
)


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


PART_ROWS, PART_S = 2000, 2.0
"""A part is written when so many results wait, or its first has waited for so long, or the batch is complete."""


class Parts:
    """One thread only."""

    def __init__(self, table: Table, progress: Progress) -> None:
        self._table, self._progress = table, progress
        self._key: Key | None = None
        self._results: deque[str] = deque()
        self._waiting_since_s: float | None = None

    def add(self, key: Key, first: int, texts: list[str]) -> None:
        """Takes what comes next of these results. A message that was meant for a driver before this one may overlap
        with what is here, or lie ahead: then it comes again, as the runner began anew from what was durable."""
        if key != self._progress.key:
            return
        if key != self._key:
            self._key = key
            self._results.clear()
        expected = self._progress.durable + len(self._results)
        self._results.extend(texts[expected - first :] if first <= expected else [])
        self._waiting_since_s = self._waiting_since_s or monotonic()

    def write_due(self) -> list[Durable]:
        """Write all results that wait if a part is due; return what became durable. A part is a job of Spark, which
        costs as much as ten thousand results: they are written together if they come faster than parts are."""
        waited = self._waiting_since_s is not None and monotonic() - self._waiting_since_s > PART_S
        count = len(self._results)
        return self.write(count) if count >= PART_ROWS or waited or not self._progress.lacks(count) else []

    def write(self, count: int) -> list[Durable]:
        """Writes a part of ``count`` results."""
        key = self._key
        if not count or key is None or key != self._progress.key:
            return []
        first = self._progress.durable
        self._table.write(key, first, [self._results.popleft() for _ in range(count)])
        self._waiting_since_s = monotonic() if self._results else None
        self._progress.written(key, first + count)
        return [Durable(key, first + count)]


CHUNK_ROWS = 32
LOOK = {"processingTime": "200 milliseconds"}
"""How often Spark looks for input: by itself it would a hundred times a second, and use a core for that."""


class Driver:
    """Two threads share it: Spark's, which sends rows, and the one that hears the runner and writes parts."""

    def __init__(self, connection: Connection, setup: Setup, table: Table) -> None:
        self._connection, self._setup, self._table = connection, setup, table
        self._sending = threading.Lock()
        self._progress = Progress()
        self._parts = Parts(table, self._progress)
        self._query: Any = None
        self._ordered = True
        self._started = threading.Event()

    # --- Spark's thread ---------------------------------------------------------------------------------------------

    def run(self, spark: Any) -> None:
        """Runs the query to its end; without a source, serves for ever."""
        threading.Thread(target=self._listen, daemon=True).start()
        if self._setup.source is None:
            self._begin(Key(self._setup.query, 0))
            threading.Event().wait()  # until the listening thread ends the process
            return
        rows = streaming_rows(spark, self._setup.source)
        self._ordered = keeps_order(rows)
        writer = rows.writeStream.foreachBatch(self._batch).option("checkpointLocation", self._setup.checkpoint)
        self._query = writer.trigger(**({"availableNow": True} if self._setup.once else LOOK)).start()
        self._started.set()
        self._query.awaitTermination()
        self.tell(Ended())

    def _batch(self, rows: Any, number: int) -> None:
        self._started.wait()  # the query's name is known when it has started
        self._begin(Key(str(self._query.id), number))
        texts = texts_of(rows if self._ordered else in_order_of_text(rows))
        count = 0
        while chunk := list(islice(texts, CHUNK_ROWS)):
            self._feed(count, chunk)
            count += len(chunk)
        self._progress.await_end(count)

    def _begin(self, key: Key) -> None:
        durable = self._table.durable(key)
        self._progress.begin(key, durable)
        self.tell(Begin(key, durable))
        self._progress.await_runner()

    def _feed(self, first: int, chunk: list[str]) -> None:
        """Sends what of the chunk is new to the runner, when it has room."""
        known = self._progress.known(first, len(chunk))
        if known < len(chunk):
            key = self._progress.await_room(first + len(chunk))
            self.tell(Rows(key, first + known, chunk[known:]))

    # --- the listening thread ---------------------------------------------------------------------------------------

    def _listen(self) -> None:
        """Ends the process when the runner is gone: another driver will go on from what is durable."""
        try:
            while True:
                wait_s = PART_S / 4
                while self._connection.poll(wait_s):
                    self._hear(self._connection.recv())
                    wait_s = 0.0
                for durable in self._parts.write_due():
                    self.tell(durable)
        except (EOFError, OSError):
            os._exit(1)
        except Exception as error:  # the table cannot be written: this process is of no use
            print(one_line(error), file=sys.stderr, flush=True)
            os._exit(1)

    def _hear(self, message: Message) -> None:
        match message:
            case Wanted(key, first, until):
                self._progress.wanted(key, first, until)
            case Room(key, until):
                self._progress.room(key, until)
            case ResultRows(key, first, texts):
                self._parts.add(key, first, texts)

    def tell(self, message: Message) -> None:
        with self._sending:
            self._connection.send(message)


def main() -> None:
    connection = Connection(int(sys.argv[1]))
    setup = connection.recv()
    try:
        with _alone(setup.checkpoint):
            _work(connection, setup)
    except RecomposeError as error:
        connection.send(Failed(str(error)))


def _work(connection: Connection, setup: Setup) -> None:
    from pyspark.errors import PySparkException

    from datapipe.spark.session import open_session

    spark = open_session(f"recompose {setup.app}")
    table = PartTable(spark, setup.sink) if setup.sink is not None else NoTable()
    try:
        Driver(connection, setup, table).run(spark)
    except PySparkException as error:
        sys.exit(f"the streaming query failed: {one_line(error)}")


@contextmanager
def _alone(checkpoint: str | None) -> Iterator[None]:
    """Waits for the end of a driver of the same query whose runner has just died; files on this machine only."""
    if checkpoint is None or "://" in checkpoint:
        yield
        return
    folder = Path(checkpoint)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("w")
    except OSError as error:
        raise RecomposeError(f"cannot write checkpoint {checkpoint!r}: {error.strerror}") from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    main()
