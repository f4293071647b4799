"""Write telemetry in a separate thread. Records that it is too slow for are dropped and counted; no caller waits."""

import math
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from heapq import heappop, heappush
from pathlib import Path
from time import monotonic, time
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from datapipe.telemetry.schema import SCHEMAS, SEPARATOR, SUFFIX
from datapipe.telemetry.store import closed_files


@dataclass(frozen=True, slots=True)
class Keep:
    """The limits of the telemetry that one app may store."""

    days: float = 7.0
    """Maximum age in days. A week allows a comparison with the same day of the week before."""
    megabytes: float = 1000.0
    """Maximum size in MB: about 30 million items of four stages."""


def sweep(directory: Path, app: str, keep: Keep, now_s: float | None = None) -> int:
    """Delete files of ``app`` beyond the limits, and return their number; skip files that cannot be deleted."""
    oldest_s = (time() if now_s is None else now_s) - keep.days * 86_400
    stored_bytes, first_s = 0, math.inf
    for closed_s, size, _ in _files_of(directory, app):
        stored_bytes, first_s = stored_bytes + size, min(first_s, closed_s)
    over_bytes = stored_bytes - keep.megabytes * 1e6
    if over_bytes <= 0 and first_s >= oldest_s:
        return 0
    gone: list[tuple[float, int, str]] = []  # a heap with the newest on top: holds what goes, not all that there is
    gone_bytes = deleted = 0
    for closed_s, size, path in _files_of(directory, app):
        heappush(gone, (-closed_s, size, path))
        gone_bytes += size
        while gone and -gone[0][0] >= oldest_s and gone_bytes - gone[0][1] >= over_bytes:
            gone_bytes -= heappop(gone)[1]
    for *_, path in gone:
        with suppress(OSError):
            os.unlink(path)
            deleted += 1
    return deleted


def _files_of(directory: Path, app: str) -> Iterator[tuple[float, int, str]]:
    return (file for kind in SCHEMAS for file in closed_files(directory, kind, app))


Columns = Callable[[Sequence[Any]], dict[str, Any]]
"""Converts records, as they were put, to the columns of their kind."""
SWEEP_EVERY_S = 60.0


@dataclass(frozen=True, slots=True)
class WriterSettings:
    """Bounds of the writer."""

    buffer_records: int = 50_000
    """Maximum number of waiting records of each kind; more are dropped. Ten seconds at 5,000 items/s, about 50 MB."""
    buffer_rows: int = 500_000
    """Maximum number of waiting rows of each kind, as a record may contain many rows: about 50 MB."""
    roll_s: float = 2.0
    """Age at which a file of items is closed: the tables lag behind by this, and by Spark's turn."""
    slow_roll_s: float = 10.0
    """Age at which a file of snapshots, decisions or switches is closed; they have a few records per second."""
    slowest_roll_s: float = 60.0
    """Age at which a file of runs or costs is closed."""
    close_s: float = 5.0
    """Maximum wait for the disk at the end of a run."""
    keep: Keep = field(default_factory=Keep)


class _Buffer:
    """Waiting records of one kind, each with its number of rows. One thread puts, one takes."""

    def __init__(self, settings: WriterSettings) -> None:
        self._settings = settings
        self._waiting: deque[tuple[int, Any]] = deque()
        self._put = self._taken = 0
        """Numbers of rows put and taken so far; only one thread changes each."""

    @property
    def rows(self) -> int:
        return self._put - self._taken

    def put(self, record: Any, rows: int) -> bool:
        """Add a record; return False if there is no room."""
        settings = self._settings
        if len(self._waiting) >= settings.buffer_records or self.rows + rows > settings.buffer_rows:
            return False
        self._put += rows
        self._waiting.append((rows, record))
        return True

    def take(self) -> tuple[list[Any], int]:
        """Return all waiting records, and their total number of rows."""
        taken = [self._waiting.popleft() for _ in range(len(self._waiting))]
        rows = sum(count for count, _ in taken)
        self._taken += rows
        return [record for _, record in taken], rows


@dataclass(frozen=True, slots=True)
class Origin:
    """The run to which records belong; the same in each record."""

    app: str
    run: str
    epoch: int = 1
    app_version: str | None = None

    def columns(self, count: int) -> dict[str, Any]:
        return {each.name: pa.repeat(getattr(self, each.name), count) for each in fields(self)}


class TelemetryWriter:
    """Write the records of the runner that ``origin`` names. ``put`` costs an append. A failing disk loses records;
    ``lost`` and ``written`` count them."""

    def __init__(
        self, directory: Path, origin: Origin, columns: dict[str, Columns], settings: WriterSettings | None = None
    ) -> None:
        self._directory, self._origin, self._columns = directory, origin, columns
        self._settings = settings or WriterSettings()
        self.run = origin.run
        self._buffers = {kind: _Buffer(self._settings) for kind in columns}
        self._due_s = {kind: monotonic() + self._roll_s(kind) for kind in columns}
        self._swept_s = 0.0
        self._files = 0
        self.written = self.lost = 0
        self.fault: str | None = None
        """Reason why the last records were lost; None after the next successful write."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name=f"telemetry-{origin.app}", daemon=True)
        self._thread.start()

    def put(self, kind: str, record: Any, rows: int = 1) -> None:
        """Add a record with its number of rows. Only the owner's thread may call it."""
        if not self._buffers[kind].put(record, rows):
            self.lost += rows

    def close(self) -> None:
        """Write the remaining records, for at most ``close_s``."""
        self._stop.set()
        self._thread.join(self._settings.close_s)
        if self._thread.is_alive():
            self.lost += self.buffered

    @property
    def buffered(self) -> int:
        return sum(buffer.rows for buffer in self._buffers.values())

    # --- the thread -------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while not self._stop.wait(max(0.0, min(self._due_s.values()) - monotonic())):
            self._turn(monotonic())
        for kind in self._buffers:
            self._flush(kind)

    def _turn(self, now_s: float) -> None:
        for kind, due_s in self._due_s.items():
            if now_s >= due_s:
                self._flush(kind)
                self._due_s[kind] = monotonic() + self._roll_s(kind)
        if now_s - self._swept_s >= SWEEP_EVERY_S:
            self._swept_s = now_s
            sweep(self._directory, self._origin.app, self._settings.keep)

    def _roll_s(self, kind: str) -> float:
        settings = self._settings
        rare = settings.slowest_roll_s if kind in ("runs", "costs") else settings.slow_roll_s
        return settings.roll_s if kind == "items" else rare

    def _flush(self, kind: str) -> None:
        records, rows = self._buffers[kind].take()
        if not records:
            return
        try:
            self._write(kind, records, rows)
        except Exception as error:  # disk full, folder gone, a value out of range: telemetry is lost, never items
            self.lost += rows
            self.fault = f"{type(error).__name__}: {error}"
        else:
            self.written += rows
            self.fault = None

    def _write(self, kind: str, records: Sequence[Any], rows: int) -> None:
        schema = SCHEMAS[kind]
        columns = self._columns[kind](records)
        table = pa.table({**self._origin.columns(rows), **columns}, schema=schema)
        self._files += 1
        folder = self._directory / kind
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)  # the mode applies only to the last folder
        folder.mkdir(mode=0o700, exist_ok=True)
        number = f"{self._origin.epoch:03d}{self._files:06d}"  # a resumed run has files of earlier epochs
        write_atomically(table, folder / f"{self._origin.app}{SEPARATOR}{self.run}-{number}{SUFFIX}")


def write_atomically(table: Any, path: Path) -> None:
    """Write a table to a hidden file, which readers ignore, then rename it; on failure remove it. Only its user may
    read the file, as items may be confidential."""
    hidden = path.with_name(f".{path.name}.tmp")
    try:
        with open(hidden, "wb", opener=_private) as file:
            pq.write_table(table, file, compression="zstd")
        os.replace(hidden, path)
    except BaseException:
        hidden.unlink(missing_ok=True)
        raise


def _private(name: str, flags: int) -> int:
    return os.open(name, flags, 0o600)
