"""Find telemetry files and their tables, and report each error in one sentence."""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from compositions.errors import RecomposeError
from datapipe.telemetry.schema import SCHEMAS, SEPARATOR, SUFFIX, VERSION, version_of


class TelemetryError(RecomposeError):
    """Telemetry that cannot be read, or a table that cannot be written."""


def closed_files(directory: Path, kind: str, app: str) -> Iterator[tuple[float, int, str]]:
    """Yield the closing time (seconds since 1970), size and path of each file of an app, without files that are deleted
    meanwhile. Paths are strings, as a folder may have 100,000 files: a Path takes five times the memory, and interns
    each name for good."""
    prefix = f"{app}{SEPARATOR}"
    with suppress(FileNotFoundError, NotADirectoryError, PermissionError), os.scandir(directory / kind) as entries:
        for entry in entries:
            if entry.name.startswith(prefix) and entry.name.endswith(SUFFIX):
                with suppress(OSError):
                    found = entry.stat()
                    yield found.st_mtime, found.st_size, entry.path


def columns_of(path: str, columns: Sequence[str]) -> Any:
    """Return the given columns, as far as the file has them; None if it is incomplete or gone. The file (about 15 kB)
    is read at once, without threads, which is faster than column by column."""
    try:
        with open(path, "rb") as file:
            parquet = pq.ParquetFile(pa.BufferReader(file.read()), pre_buffer=False)
        known = set(parquet.schema_arrow.names)
        return parquet.read([name for name in columns if name in known], use_threads=False)
    except (pa.ArrowException, OSError):
        return None


def files_of(directory: Path, kind: str, prefix: str = "") -> list[Path]:
    """Return the valid files of one kind, sorted by name. Raises: TelemetryError for a bad folder or a bad file."""
    if not directory.is_dir():
        raise TelemetryError(f"there is no folder {str(directory)!r}; give the one that a runner writes telemetry to")
    found = sorted((directory / kind).glob(f"{prefix}*{SUFFIX}"))
    return [path for path in found if _is_good(path)]


def some_files_of(directory: Path, kind: str) -> list[Path]:
    """Return the files of one kind. Raises: as ``files_of``; TelemetryError also if there are none."""
    found = files_of(directory, kind)
    if not found:
        raise TelemetryError(f"{str(directory)!r} has no telemetry; give a folder with files {kind}/*{SUFFIX}")
    return found


def _is_good(path: Path) -> bool:
    """Return whether the file still exists. Raises: TelemetryError if it is broken, no telemetry, or too new."""
    try:
        version = version_of(pq.read_schema(path))
    except FileNotFoundError:  # deleted meanwhile by retention
        return False
    except (pa.ArrowException, OSError, ValueError) as error:
        raise TelemetryError(f"{str(path)!r} is not a readable Parquet file; move it away and run again") from error
    if version is None:
        raise TelemetryError(f"{str(path)!r} is not telemetry: its schema has no version; move it away and run again")
    if version > VERSION:
        has = f"{str(path)!r} has schema version {version}"
        raise TelemetryError(f"{has}; this version reads up to {VERSION}; install a newer one")
    return True


TABLE = "windows"
CHECKPOINT = "checkpoint"


LAST: dict[str, tuple[tuple[str, ...], str]] = {
    "decisions": (("app", "run", "id"), "written"),
    "switches": (("app", "run", "number"), "written"),
    "runs": (("app", "run", "epoch"), "at"),
}
"""By table: of rows that agree in these columns, only the one with the highest value in the other column is valid."""


def table(spark: Any, out: Path, name: str = TABLE) -> Any:
    """Return a table with only the last of rows that were written again. Raises: TelemetryError if there is none."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    from datapipe.spark.delta import frame_of
    from datapipe.telemetry.windows import BATCH, KEYS

    _need_table(out, name)
    rows = frame_of(spark, out / name)
    if name not in LAST and name != TABLE:
        return rows
    keys, newest = LAST.get(name, (KEYS, BATCH))
    last = Window.partitionBy(*keys).orderBy(F.col(newest).desc_nulls_last())
    return rows.withColumn("_", F.row_number().over(last)).where("_ = 1").drop("_", BATCH)


def views(spark: Any, out: Path, query: str) -> None:
    """Give the tables in ``out`` that ``query`` may name to Spark SQL, by their names; all if it names none, as ``SHOW
    TABLES`` does. Raises: TelemetryError without tables."""
    _need_table(out, TABLE)
    names = (TABLE, *SCHEMAS)
    for name in [name for name in names if name in query.lower()] or names:
        if (out / name / "_delta_log").is_dir():
            table(spark, out, name).createOrReplaceTempView(name)


def _need_table(out: Path, name: str) -> None:
    if not (out / name / "_delta_log").is_dir():
        raise TelemetryError(f"{str(out)!r} has no table of {name}; write one with recompose telemetry")
