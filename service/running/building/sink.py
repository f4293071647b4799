"""The end of the stream: results in order to a bounded window, a file, and the dead-letter file."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

from apps.contract import App
from apps.output_file import OutputFailed, OutputFile
from compositions.errors import RecomposeError
from runtime.dispatch.events import Payload
from runtime.dispatch.outcomes import Delivered, Shed
from runtime.transport.values import Broken
from service.bodies.base import utc_now
from service.bodies.results import Result

BUFFER_BYTES = 64 * 1024
"""JSON lines that wait for the next flush, which comes every second."""


class Table(Protocol):
    """Where results go besides, and who may ask for a pause: it keeps what it could not store yet."""

    @property
    def has_room(self) -> bool: ...

    @property
    def failed(self) -> str | None: ...

    def start(self) -> None: ...

    def take(self, result: dict[str, Any]) -> None: ...

    def finish(self) -> None: ...


class ResultSink:
    """Takes what leaves the dispatcher. ``decode`` turns a part of a payload into values of the last stage, ``app``
    makes plain JSON of them, and writes them to a file of its own form where it has one.

    Counts what must never happen, from the serial numbers alone: a skipped, repeated or late one.
    """

    KEPT = 2000

    def __init__(
        self,
        app: App,
        decode: Callable[[Payload, int, int], list[Any]],
        out_path: str | None = None,
        dead_letters_path: str | None = None,
        table: Table | None = None,
    ) -> None:
        self._app, self._decode = app, decode
        self.kept: deque[Result] = deque(maxlen=self.KEPT)
        """The latest, in order."""
        self._output = app.open_output(Path(out_path)) if out_path is not None else None
        self._out = OutputFile(out_path, buffer_bytes=BUFFER_BYTES) if out_path and self._output is None else None
        self._dead_letters = OutputFile(dead_letters_path, append=True) if dead_letters_path else None
        self._table = table
        if table is not None:
            table.start()
        self.next_serial = 0
        """All below are out."""
        self.lost = self.misordered = self.unwritten = 0
        self.first_error: str | None = None
        self.last_s: float | None = None
        """When the last item came, in seconds of the loop's clock."""

    def take(self, out: Delivered | Shed) -> None:
        """The next items in order, or their places."""
        self._check(out.serials)
        self.last_s = out.at_s
        for result in self._results(out):
            self.kept.append(result)
            self._write(result)

    def _write(self, result: Result) -> None:
        if self._out is None and self._table is None:
            return
        row = {name: value for name, value in result if name in result.model_fields_set}
        if self._out is not None:
            self._out.add(_line(row))
        if self._table is not None:
            self._table.take(row)

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

    def _results(self, out: Delivered | Shed) -> Iterator[Result]:
        if isinstance(out, Shed):
            for serial in out.serials:
                yield Result(serial=serial, error="shed to make room for newer items")
        elif out.error is not None:
            self._bury(out.serial, out.error)
            yield Result(serial=out.serial, error=out.error)
        else:
            values = self._decode(out.payload, out.start, out.start + out.count)
            for serial, value in zip(out.serials, values, strict=True):
                yield self._result(serial, value)

    def _result(self, serial: int, value: Any) -> Result:
        try:
            return Result(serial=serial, value=self._written(serial, value))
        except OutputFailed:  # of the file, not of the item: nothing can be written any more
            raise
        except Exception as error:  # the app's own encoder: whatever it raises concerns this item alone
            what = str(error) if isinstance(error, RecomposeError) else f"{type(error).__name__}: {error}"
            why = f"the result cannot be written: {what}"
            self.unwritten += 1
            self._bury(serial, why)
            return Result(serial=serial, error=why)

    def _written(self, serial: int, value: Any) -> Any:
        """The value as JSON data, when it is in the app's own file as well."""
        if isinstance(value, Broken):
            raise RecomposeError(value.why)
        encoded = self._app.encode_result(value)
        try:
            json.dumps(encoded, allow_nan=False)
        except (TypeError, ValueError) as error:
            cure = f"let encode_result of app {self._app.name!r} return plain JSON data"
            raise RecomposeError(f"{type(error).__name__}: {error}; {cure}") from error
        if self._output is not None:
            try:
                self._output.write(serial, value)
            except OSError as error:
                raise OutputFailed(f"no further result can be written: {error}") from error
        return encoded

    def _bury(self, serial: int, error: str) -> None:
        self.first_error = self.first_error or f"item {serial}: {error}"
        if self._dead_letters is not None:
            self._dead_letters.add(_line({"serial": serial, "at": utc_now(), "error": error}))


def _line(row: Mapping[str, Any]) -> bytes:
    return (json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n").encode()
