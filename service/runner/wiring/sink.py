"""The end of the stream: results go in order to a bounded window, a file, the dead-letter file, and a sink."""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import count, repeat
from pathlib import Path
from typing import Any

from apps.contract import App, Output, Outputs
from apps.output_file import OutputFailed, OutputFile
from compositions.errors import RecomposeError
from compositions.logger import Logger
from datapipe.sinks.port import Row, Sink
from runtime.dispatch.keys import Payload
from runtime.dispatch.outcomes import Delivered, Shed
from service.runner.validation.resolution import Table
from service.runner.wiring.result_buffer import JSON, Formed, JsonForm, ResultBatch, ResultBuffer, text_of
from service.schemas.base import utc_now

MOST_ITEMS = 20_000
"""Number of items waiting to be written at which no more are accepted."""
MOST_BYTES = 64 * 2**20
"""The same limit in bytes; the first one reached applies."""
AGAIN_S = 0.5
END_S = 60.0
_row = partial(tuple.__new__, Row)
"""Creates a row in a third of the time that a call of the class takes."""
log = Logger()


class SinkWriter:
    """A ``Table`` that writes to a sink. Results wait until the sink has confirmed earlier ones."""

    def __init__(self, sink: Sink, next_serial: int, wake: Callable[[], None], known: int = 0) -> None:
        """``next_serial``: serial number of the first item to deliver. The sink has items below ``known``."""
        self._sink, self._next_serial, self._known, self._wake = sink, next_serial, known, wake
        self._changed = threading.Condition()
        self._waiting: deque[ResultBatch] = deque()
        self._items = self._bytes = 0
        self._ending = self._given_up = False
        self._thread = threading.Thread(target=self._run, name="sink", daemon=True)
        self.until = 0
        """The sink has the items below this serial number."""
        self.fault: str | None = None
        """Reason why the sink cannot be written now."""
        self.failed: str | None = None

    def start(self) -> None:
        self._thread.start()

    @property
    def has_room(self) -> bool:
        return self._items < MOST_ITEMS and self._bytes < MOST_BYTES

    def take(self, results: ResultBatch) -> None:
        """Queue results, except those that the sink has already; they are delivered again after a restart."""
        with self._changed:
            if _end(results) > self.until:
                before, enough = self._items, self._enough
                self._items += len(results.values)
                self._bytes += results.size_bytes
                self._waiting.append(results)
                if not before or enough < self._enough:  # the writer's thread waits for this
                    self._changed.notify_all()
            else:
                results.texts = None

    def finish(self) -> None:
        """Wait until all results are written, unless that has become impossible."""
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
        """Return True if there are enough results for one write, or as many as may wait."""
        return self._items >= self._sink.gather.items or not self.has_room

    # --- its thread -------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        begun = False
        while not (begun or self._over or (self._ending and not self._waiting)):
            begun = self._tried(self._begin)
        while begun and not self._over and (runs := self._next()):
            rows, written = [row for run in runs for row in _rows(run, self.until)], False
            while not (written or self._over):  # the same results again: the sink may have them if its answer was lost
                written = self._tried(partial(self._write, runs, rows))
        self._sink.close()

    @property
    def _over(self) -> bool:
        return self._given_up or self.failed is not None

    def _tried(self, what: Callable[[], None]) -> bool:
        """Return whether the write is done; if it may succeed later, pause first."""
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
        """Remove the oldest series of results, as the sink has it now."""
        run = self._waiting.popleft()
        self._items -= len(run.values)
        self._bytes -= run.size_bytes
        run.texts = None

    def _next(self) -> list[ResultBatch]:
        """Return whole series: results that left together are written together."""
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
    """Yield one row per item; all values are good."""
    texts = run.texts or map(text_of, run.values)
    return map(_row, zip(count(run.first), repeat(None), texts, repeat(None), strict=False))


def _rows_of_some(run: ResultBatch) -> Iterator[Row]:
    for row in run.rows():
        text = text_of(row["value"]) if "value" in row else None
        yield Row(row["serial"], row.get("part"), text, row.get("error"))


BUFFER_BYTES = 64 * 1024
"""Bytes of JSON lines that wait for the next flush, which comes every second."""


class ResultSink:
    """Takes outputs of the dispatcher. ``decode`` gives the values of a part of a payload; ``app`` converts them to
    JSON, or to a file of its own. Counts faults that must not occur: skipped, repeated and late serial numbers."""

    KEPT = 2000
    KEPT_BYTES = 256 * 2**20

    def __init__(
        self,
        app: App,
        decode: Callable[[Payload, int, int], list[Any]],
        out_path: str | None = None,
        dead_letters_path: str | None = None,
        table: Table | SinkWriter | None = None,
        objects: bool = False,
    ) -> None:
        """``objects``: results stay in this program, which accepts any object."""
        self._decode = decode
        self._form = JsonForm(app, in_texts=isinstance(table, SinkWriter), objects=objects)
        self.buffer = ResultBuffer(self.KEPT, self.KEPT_BYTES)
        self._output = app.open_output(Path(out_path)) if out_path is not None else None
        self._out = OutputFile(out_path, buffer_bytes=BUFFER_BYTES) if out_path and self._output is None else None
        self._dead_letters = OutputFile(dead_letters_path, append=True) if dead_letters_path else None
        self._table = table
        if table is not None:
            table.start()
        self.next_serial = 0
        """Items below this serial number have left the dispatcher; the readable ones are in ``kept``."""
        self.way: Callable[[ResultBatch], None] = self.release
        self.lost = self.misordered = self.unwritten = 0
        self.first_error: str | None = None
        self.last_s: float | None = None
        """Time when the last item came, in seconds of the loop's clock."""

    def take(self, out: Delivered | Shed) -> None:
        """Take the next items in order, or the places of failed ones."""
        self._check(out.serials)
        self.last_s = out.at_s
        for run in self._runs(out):
            self.way(run)

    def release(self, run: ResultBatch) -> None:
        """Release results, which readers may see from now on."""
        self.buffer.add(run)
        if self._out is not None:
            self._out.add(b"".join(map(_line, run.rows())))
        if self._table is not None:
            self._table.take(run)

    def begin(self, next_serial: int, kept: Sequence[ResultBatch]) -> None:
        """Continue after another runner; ``kept`` are the latest results that it left."""
        self.next_serial = next_serial
        self.buffer.begin(kept[0].first if kept else next_serial)
        for run in kept:
            self.release(run)

    @property
    def has_room(self) -> bool:
        return self._table is None or self._table.has_room

    @property
    def failed(self) -> str | None:
        """Return why results cannot be stored any more, if so."""
        return None if self._table is None else self._table.failed

    def flush(self) -> None:
        if self._out is not None:
            self._out.flush()

    def close(self) -> None:
        """Close all files. Raises: OutputFailed if a file does not accept the rest; the others are closed first."""
        with ExitStack() as closing:
            for file in (self._out, self._dead_letters, self._output):
                if file is not None:
                    closing.callback(file.close)
            if self._table is not None:
                closing.callback(self._table.finish)

    def _check(self, serials: range) -> None:
        self.lost += max(0, serials.start - self.next_serial)
        self.misordered += max(0, min(self.next_serial, serials.stop) - serials.start)
        self.next_serial = max(self.next_serial, serials.stop)

    def _runs(self, out: Delivered | Shed) -> Iterator[ResultBatch]:
        if isinstance(out, Shed):
            yield ResultBatch(out.serial, (None,) * out.count, "shed to make room for newer items")
        elif out.error is not None:
            error = _whole(out.error)
            self._bury(out.serial, error)
            yield ResultBatch(out.serial, (None,), error)
        else:
            values = self._decode(out.payload, out.start, out.start + out.count)
            formed = self._form.of(values)
            if self._output is not None:
                _put_in(self._output, out.serial, values, formed)
            yield from self._parts(out.serial, formed)

    def _parts(self, serial: int, formed: Formed) -> Iterator[ResultBatch]:
        """Yield good results together, and bad ones one by one."""
        begin, each_bytes = 0, formed.size_bytes / len(formed.values)
        for place, told in sorted(formed.faults.items()):
            error = _whole(told)
            if begin < place:
                size_bytes = int(each_bytes * (place - begin))
                yield ResultBatch(serial + begin, formed.values[begin:place], None, size_bytes, formed.several)
            self.unwritten += 1
            self._bury(serial + place, error)
            yield ResultBatch(serial + place, (None,), error)
            begin = place + 1
        if begin < len(formed.values):
            values = formed.values[begin:] if begin else formed.values
            texts = formed.texts[begin:] if begin and formed.texts else formed.texts
            yield ResultBatch(serial + begin, values, None, int(each_bytes * len(values)), formed.several, texts)

    def _bury(self, serial: int, error: str) -> None:
        self.first_error = self.first_error or f"item {serial}: {error}"
        if self._dead_letters is not None:
            self._dead_letters.add(_line({"serial": serial, "at": utc_now(), "error": error}))


def _put_in(output: Output, serial: int, values: Sequence[Any], formed: Formed) -> None:
    """Write the good values into the app's own file."""
    for place, value in enumerate(values):
        if place in formed.faults:
            continue
        try:
            for each in value if type(value) is Outputs else (value,):
                output.write(serial + place, each)
        except OutputFailed:  # a fault of the file, not of the item: it cannot be written any more
            raise
        except OSError as error:
            raise OutputFailed(f"no further result can be written: {error}") from error
        except Exception as error:  # a fault of this item alone
            formed.refuse(place, error)


def _whole(error: str) -> str:
    """Return the text of an exception; lone surrogates are escaped, as no file, table or answer accepts them."""
    return error.encode(errors="backslashreplace").decode()


def _line(row: Mapping[str, Any]) -> bytes:
    return (JSON(row) + "\n").encode()
