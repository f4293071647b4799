"""Parquet files in a folder, over pyarrow: one row per result, under run, serial number and part.

A file is written in a separate folder of its epoch and then renamed into place: readers see it whole or not at all. A
runner that takes over a run removes the separate folders of earlier epochs, which then cannot add files any more. A
file's name has its run, its first serial number and its epoch; its metadata have the next file's first serial number.
"""

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from apps.output_file import sync
from compositions.errors import RecomposeError
from datapipe.sinks.port import Gather, Row, followed

ASIDE = "_aside"
"""The parent of these folders. Readers of data sets ignore names with a leading underscore."""
UNTIL = b"recompose.until"
SCHEMA = pa.schema(
    [("run", pa.string()), ("serial", pa.int64()), ("part", pa.int32()), ("value", pa.string()), ("error", pa.string())]
)


class ParquetFiles:
    """A sink of Parquet files. ``folder``: on this machine, or mounted. Raises: RecomposeError for a URL."""

    gather = Gather(10_000, 5.0)
    """Limits of a file: many small files would be slow to read."""

    def __init__(self, folder: str, run: str, epoch: int) -> None:
        if "://" in folder or "\0" in folder:
            raise RecomposeError("sink parquet needs a folder that renames files atomically; give a local folder")
        self._folder, self._run, self._epoch = Path(folder), run, epoch
        self._aside = self._folder / ASIDE / f"{run}-{epoch:06d}"
        self._names = re.compile(rf"{re.escape(run)}-(\d{{15}})-\d{{6}}\.parquet")
        self._epochs = re.compile(rf"{re.escape(run)}-(\d{{6}})")
        self._until = 0

    def begin(self, next_serial: int, known: int) -> int:
        with self._told():
            self._aside.mkdir(parents=True, exist_ok=True)
            self._shut_out()
            files = self._files()
            for first, path in files:
                if first >= next_serial:
                    self._remove(path)
            before = [path for first, path in files if first < next_serial]
            self._until = self._kept(before[-1], next_serial) if before else 0
        return min(self._until, next_serial)

    def write(self, until: int, rows: Sequence[Row]) -> None:
        with self._told():
            if rows and until > self._until:
                columns = zip(*((self._run, *row) for row in rows), strict=True)
                typed = zip(columns, SCHEMA.types, strict=True)
                table = pa.table([pa.array(each, kind) for each, kind in typed], SCHEMA)
                self._put(table, until, self._folder / f"{self._run}-{rows[0].serial:015d}-{self._epoch:06d}.parquet")
            self._until = max(self._until, until)

    def close(self) -> None:
        """Do nothing: the epoch's folder stays as long as the run, to exclude earlier epochs."""

    def _shut_out(self) -> None:
        """Remove the folders of earlier epochs, which then cannot rename files out of them. Raises: RecomposeError."""
        for each in sorted((self._folder / ASIDE).iterdir()):
            found = self._epochs.fullmatch(each.name)
            if found and int(found[1]) > self._epoch:
                raise followed(self._run)
            if found and int(found[1]) < self._epoch:
                gone = each.with_name(f"gone-{each.name}")
                each.rename(gone)
                shutil.rmtree(gone, ignore_errors=True)

    def _files(self) -> list[tuple[int, Path]]:
        """Return the run's files in order, each with its first serial number."""
        found = (self._names.fullmatch(each.name) for each in os.scandir(self._folder))
        return sorted((int(each[1]), self._folder / each[0]) for each in found if each)

    def _kept(self, path: Path, next_serial: int) -> int:
        """Remove results that will come again from the run's last file, and return where it ends."""
        until = int(parquet.read_metadata(path).metadata[UNTIL])
        if until > next_serial:
            table = parquet.read_table(path)
            count = int(np.searchsorted(table["serial"].to_numpy(), next_serial))
            self._put(table.slice(0, count), next_serial, path)
        return min(until, next_serial)

    def _remove(self, path: Path) -> None:
        """Remove a file by way of the epoch's folder, so that an epoch that was itself replaced removes nothing."""
        path.rename(self._aside / path.name).unlink()

    def _put(self, table: pa.Table, until: int, path: Path) -> None:
        """Write a file durably."""
        aside = self._aside / path.name
        parquet.write_table(table.replace_schema_metadata({UNTIL: str(until)}), aside)
        sync(aside)
        aside.rename(path)
        sync(self._folder)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Translate errors into clear messages. If the epoch's folder is gone, a later epoch has taken over."""
        try:
            yield
        except FileNotFoundError as error:
            if self._folder.is_dir() and not self._aside.is_dir():
                raise followed(self._run) from None
            raise OSError(f"sink {self._folder} cannot be written: {error.strerror}") from error
        except (NotADirectoryError, FileExistsError) as error:
            raise RecomposeError(f"sink path {str(self._folder)!r} is not a folder; give a folder") from error
        except pa.ArrowInvalid as error:
            raise RecomposeError(f"a file of run {self._run} in {self._folder} cannot be read: {error}") from error
        except OSError as error:
            raise OSError(f"sink {self._folder} cannot be written: {error.strerror or error}") from error
