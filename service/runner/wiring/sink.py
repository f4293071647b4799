"""The end of the stream: results in order to a bounded window, a file, and the dead-letter file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from apps.contract import App, Output, Outputs
from apps.output_file import OutputFailed, OutputFile
from runtime.dispatch.keys import Payload
from runtime.dispatch.outcomes import Delivered, Shed
from service.runner.validation.resolution import Table
from service.runner.wiring.result_buffer import JSON, Formed, JsonForm, ResultBatch, ResultBuffer
from service.runner.wiring.sink_writer import SinkWriter
from service.schemas.base import utc_now

BUFFER_BYTES = 64 * 1024
"""JSON lines that wait for the next flush, which comes every second."""


class ResultSink:
    """Takes what leaves the dispatcher. ``decode`` turns a part of a payload into values of the last stage, ``app``
    makes plain JSON of them, and writes them to a file of its own form where it has one.

    Counts what must never happen, from the serial numbers alone: a skipped, repeated or late one.
    """

    KEPT = 2000
    KEPT_BYTES = 256 * 2**20

    def __init__(
        self,
        app: App,
        decode: Callable[[Payload, int, int], list[Any]],
        out_path: str | None = None,
        dead_letters_path: str | None = None,
        table: Table | SinkWriter | None = None,
    ) -> None:
        self._decode = decode
        self._form = JsonForm(app, in_texts=isinstance(table, SinkWriter))
        self.buffer = ResultBuffer(self.KEPT, self.KEPT_BYTES)
        """The latest, in order."""
        self._output = app.open_output(Path(out_path)) if out_path is not None else None
        self._out = OutputFile(out_path, buffer_bytes=BUFFER_BYTES) if out_path and self._output is None else None
        self._dead_letters = OutputFile(dead_letters_path, append=True) if dead_letters_path else None
        self._table = table
        if table is not None:
            table.start()
        self.next_serial = 0
        """All below are out of the dispatcher; what of it can be seen is in ``kept``."""
        self.way: Callable[[ResultBatch], None] = self.release
        """Where results go from here."""
        self.lost = self.misordered = self.unwritten = 0
        self.first_error: str | None = None
        self.last_s: float | None = None
        """When the last item came, in seconds of the loop's clock."""

    def take(self, out: Delivered | Shed) -> None:
        """The next items in order, or their places."""
        self._check(out.serials)
        self.last_s = out.at_s
        for run in self._runs(out):
            self.way(run)

    def release(self, run: ResultBatch) -> None:
        """Results that may be seen."""
        self.buffer.add(run)
        if self._out is not None:
            self._out.add(b"".join(map(_line, run.rows())))
        if self._table is not None:
            self._table.take(run)

    def begin(self, next_serial: int, kept: Sequence[ResultBatch]) -> None:
        """Another runner came so far; ``kept`` are the latest results that it left."""
        self.next_serial = next_serial
        self.buffer.begin(kept[0].first if kept else next_serial)
        for run in kept:
            self.release(run)

    @property
    def has_room(self) -> bool:
        return self._table is None or self._table.has_room

    @property
    def failed(self) -> str | None:
        """Why no result can be stored any more."""
        return None if self._table is None else self._table.failed

    def flush(self) -> None:
        if self._out is not None:
            self._out.flush()

    def close(self) -> None:
        """Raises: OutputFailed when a file does not take the rest; the others are closed all the same."""
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
        """What is good as it is, what is not one by one."""
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
    """Into the app's own file, whatever is good."""
    for place, value in enumerate(values):
        if place in formed.faults:
            continue
        try:
            for each in value if type(value) is Outputs else (value,):
                output.write(serial + place, each)
        except OutputFailed:  # of the file, not of the item: nothing can be written any more
            raise
        except OSError as error:
            raise OutputFailed(f"no further result can be written: {error}") from error
        except Exception as error:  # this one alone
            formed.refuse(place, error)


def _whole(error: str) -> str:
    """An exception of an app may have half a character, which no file, table or answer takes: it is escaped."""
    return error.encode(errors="backslashreplace").decode()


def _line(row: Mapping[str, Any]) -> bytes:
    return (JSON(row) + "\n").encode()
