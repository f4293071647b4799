"""The thread between a run and a sink of its results: it gathers, writes, retries, and reports the progress of the
sink."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count, repeat

import structlog

from apps.contract import Outputs
from compositions.errors import RecomposeError
from datapipe.sinks.port import Row, Sink
from service.runner.wiring.result_buffer import ResultBatch, text_of

MOST_ITEMS = 20_000
"""Items that wait to be written before no more are taken."""
MOST_BYTES = 64 * 2**20
"""The same limit in bytes; the first one reached applies."""
AGAIN_S = 0.5
END_S = 60.0
_row = partial(tuple.__new__, Row)
"""A third of what a call of the class takes."""
log = structlog.get_logger()


class SinkWriter:
    """A ``Table`` that writes to a sink. Results that are taken before the sink has answered wait; those that it has
    then go."""

    def __init__(self, sink: Sink, next_serial: int, wake: Callable[[], None], known: int = 0) -> None:
        """``next_serial``: of the first item that this runner will deliver; items below ``known`` are in the sink."""
        self._sink, self._next_serial, self._known, self._wake = sink, next_serial, known, wake
        self._changed = threading.Condition()
        self._waiting: deque[ResultBatch] = deque()
        self._items = self._bytes = 0
        """Of those."""
        self._ending = self._given_up = False
        self._thread = threading.Thread(target=self._run, name="sink", daemon=True)
        self.until = 0
        """Items below are in the sink."""
        self.fault: str | None = None
        """Why it cannot be written now."""
        self.failed: str | None = None

    def start(self) -> None:
        self._thread.start()

    @property
    def has_room(self) -> bool:
        return self._items < MOST_ITEMS and self._bytes < MOST_BYTES

    def take(self, results: ResultBatch) -> None:
        """Queue results, except those that the sink has already: they come again after a restart."""
        with self._changed:
            if _end(results) > self.until:
                before, enough = self._items, self._enough
                self._items += len(results.values)
                self._bytes += results.size_bytes
                self._waiting.append(results)
                if not before or enough < self._enough:  # what its thread waits for
                    self._changed.notify_all()
            else:
                results.texts = None

    def finish(self) -> None:
        """Waits until all is written, unless nothing can be any more."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        if self._thread.ident is not None:
            self._thread.join(END_S)
        with self._changed:
            self._given_up = True
            self._changed.notify_all()
        if self._waiting:
            log.error("results could not be written to the sink", count=self._items, why=self.failed or self.fault)

    @property
    def _enough(self) -> bool:
        """True if there are enough results for one write, or as many as may wait."""
        return self._items >= self._sink.gather.items or not self.has_room

    # --- its thread -------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        begun = False
        while not (begun or self._over or (self._ending and not self._waiting)):
            begun = self._tried(self._begin)
        while begun and not self._over and (runs := self._next()):
            rows, written = [row for run in runs for row in _rows(run, self.until)], False
            while not (written or self._over):  # the same again: the sink may have it, and its answer was lost
                written = self._tried(partial(self._write, runs, rows))
        self._sink.close()

    @property
    def _over(self) -> bool:
        return self._given_up or self.failed is not None

    def _tried(self, what: Callable[[], None]) -> bool:
        """Return whether it is done; where it may be later, some time has passed."""
        try:
            what()
            return True
        except OSError as error:
            self.fault = str(error)
            with self._changed:
                self._changed.wait_for(lambda: self._given_up, AGAIN_S)
        except Exception as error:
            self.failed = str(error) if isinstance(error, RecomposeError) else f"the sink failed: {error!r}"
        finally:
            self._wake()
        return False

    def _begin(self) -> None:
        until = self._sink.begin(self._next_serial, self._known)
        with self._changed:
            while self._waiting and _end(self._waiting[0]) <= until:
                self._written()
            self.until, self.fault = until, None

    def _write(self, runs: list[ResultBatch], rows: list[Row]) -> None:
        until = _end(runs[-1])
        self._sink.write(until, rows)
        with self._changed:
            for _ in runs:
                self._written()
            self.until, self.fault = until, None

    def _written(self) -> None:
        """Remove the oldest run, which is in the sink now."""
        run = self._waiting.popleft()
        self._items -= len(run.values)
        self._bytes -= run.size_bytes
        run.texts = None

    def _next(self) -> list[ResultBatch]:
        """Whole ones: what left together is written together."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._ending)
            most, wait_s = self._sink.gather
            self._changed.wait_for(lambda: self._enough or self._ending, wait_s)
            runs, items = [], 0
            for run in self._waiting:
                if items >= most:
                    break
                runs.append(run)
                items += len(run.values)
            return runs


def _end(run: ResultBatch) -> int:
    return run.first + len(run.values)


def _rows(run: ResultBatch, begin: int) -> Iterator[Row]:
    """Return the rows of the items from serial number ``begin`` on."""
    rows = _rows_of_some(run) if run.several or run.error is not None else _rows_of_values(run)
    return rows if run.first >= begin else (row for row in rows if row.serial >= begin)


def _rows_of_values(run: ResultBatch) -> Iterator[Row]:
    """One an item, and all of them good."""
    texts = run.texts or map(text_of, run.values)
    return map(_row, zip(count(run.first), repeat(None), texts, repeat(None), strict=False))


def _rows_of_some(run: ResultBatch) -> Iterator[Row]:
    for serial, value in enumerate(run.values, run.first):
        if run.error is not None:
            yield Row(serial, None, None, run.error)
        elif type(value) is Outputs:
            yield from (Row(serial, part, text_of(each), None) for part, each in enumerate(value))
        else:
            yield Row(serial, None, text_of(value), None)
