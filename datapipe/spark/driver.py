"""The Spark driver of a running app, a separate process: ``python -m datapipe.spark.driver FD``.

Executors deliver the rows of a micro-batch to the runner, as many as it has room for, fetch their results and write
them in parts. The driver only gets numbers of rows.
``foreachBatch`` returns, and Spark commits the batch, when the results of all its rows are durable. If a driver dies
before that, the next one gets the same batch, and asks the table and the runner for their progress.
"""

import fcntl
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from time import monotonic
from typing import Any

from compositions.errors import RecomposeError
from datapipe.spark.executors import delivered, fetched
from datapipe.spark.messages import Begin, Begun, Durable, Ended, Failed, Fetch, Key, Message, Ready, Setup
from datapipe.spark.query import NoTable, PartTable, Table, in_order_of_text, keeps_order, one_line, streaming_rows


class Progress:
    """Progress marks within one batch, whose rows are numbered from 0. Thread-safe; ignores other batches."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._key: Key | None = None
        self._number: int | None = None
        self._durable = self._ready = 0
        self._total: int | None = None

    # --- for Spark's thread -----------------------------------------------------------------------------------------

    def begin(self, key: Key, durable: int) -> None:
        with self._changed:
            self._key, self._number, self._total = key, None, None
            self._durable = self._ready = durable

    def await_runner(self) -> int:
        """Wait until the runner knows of the batch, and return the number that executors send to it."""
        with self._changed:
            self._changed.wait_for(lambda: self._number is not None)
            assert self._number is not None
            return self._number

    def await_end(self, total: int) -> None:
        """Set the batch's number of rows, and wait until the results of all are durable."""
        with self._changed:
            self._total = total
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._durable >= total)

    # --- for the thread that hears ----------------------------------------------------------------------------------

    def begun(self, key: Key, number: int) -> None:
        with self._changed:
            if key == self._key:
                self._number = number
                self._changed.notify_all()

    def ready(self, key: Key, until: int) -> None:
        with self._changed:
            if key == self._key:
                self._ready = max(self._ready, until)

    def waiting(self) -> tuple[Key, Fetch, bool] | None:
        """Return the results that are to be written, and whether they are the last of the batch."""
        with self._changed:
            if self._key is None or self._number is None or self._ready == self._durable:
                return None
            what = Fetch(self._number, self._durable, self._ready - self._durable)
            return self._key, what, self._ready == self._total

    def written(self, key: Key, until: int) -> None:
        with self._changed:
            if key == self._key:
                self._durable = until
                self._changed.notify_all()


PART_ROWS, PART_S = 2000, 2.0
"""Number of waiting results, and wait of the first one, at which a part is written; also when the batch is complete."""


class Parts:
    """Writes results in parts. Used by one thread."""

    def __init__(self, table: Table, progress: Progress) -> None:
        self._table, self._progress = table, progress
        self._waiting_since_s: float | None = None

    def write_due(self) -> list[Durable]:
        """Write all results that wait if a part is due; return what became durable. A part is a job of Spark, which
        costs as much as ten thousand results: they are written together if they come faster than parts are."""
        waiting = self._progress.waiting()
        if waiting is None:
            self._waiting_since_s = None
            return []
        key, what, complete = waiting
        self._waiting_since_s = self._waiting_since_s or monotonic()
        if what.rows < PART_ROWS and monotonic() - self._waiting_since_s <= PART_S and not complete:
            return []
        self._table.write(key, what)
        self._waiting_since_s = None
        self._progress.written(key, what.first + what.rows)
        return [Durable(key, what.first + what.rows)]


CHUNK_ROWS, BATCH_ROWS = 64, "spark.sql.execution.arrow.maxRecordsPerBatch"
"""Number of rows that an executor sends at a time, and the Spark setting for it."""
LOOK = {"processingTime": "200 milliseconds"}
"""Interval at which Spark looks for input: by default a hundred times a second, which uses a core."""


class Driver:
    """The driver, used by two threads: Spark's, which delivers rows, and one for the runner's messages and parts."""

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
        """Run the query to its end; without a source, serve forever."""
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
        shown = self._begin(Key(str(self._query.id), number))
        ordered = rows if self._ordered else in_order_of_text(rows)
        self._progress.await_end(sum(delivered(ordered, self._setup.door, shown)))

    def _begin(self, key: Key) -> int:
        durable = self._table.durable(key)
        self._progress.begin(key, durable)
        self.tell(Begin(key, durable))
        return self._progress.await_runner()

    # --- the listening thread ---------------------------------------------------------------------------------------

    def _listen(self) -> None:
        """Handle the runner's messages; end the process when the runner is gone, as another driver will continue."""
        try:
            while True:
                wait_s = 0.05  # Spark's thread may learn meanwhile that the batch is complete
                while self._connection.poll(wait_s):
                    self._hear(self._connection.recv())
                    wait_s = 0.0
                for durable in self._parts.write_due():
                    self.tell(durable)
        except (EOFError, OSError):
            os._exit(1)
        except Exception as error:  # the table cannot be written, so the process cannot continue
            print(one_line(error), file=sys.stderr, flush=True)
            os._exit(1)

    def _hear(self, message: Message) -> None:
        match message:
            case Begun(key, number):
                self._progress.begun(key, number)
            case Ready(key, until):
                self._progress.ready(key, until)

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

    from datapipe.spark.session import SETTINGS, open_session

    # Two partitions may wait for the runner, which may wait for a part: there is a thread for each beside the cores.
    master = f"local[{len(os.sched_getaffinity(0)) + 3}]"
    spark = open_session(f"recompose {setup.app}", master, SETTINGS | {BATCH_ROWS: str(CHUNK_ROWS)})
    table = PartTable(spark, setup.sink, partial(fetched, spark, setup.door)) if setup.sink is not None else NoTable()
    try:
        Driver(connection, setup, table).run(spark)
    except PySparkException as error:
        sys.exit(f"the streaming query failed: {one_line(error)}")


@contextmanager
def _alone(checkpoint: str | None) -> Iterator[None]:
    """Lock the query's checkpoint: wait for the end of a driver whose runner has died. Only for local files."""
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
