"""Read telemetry and its tables back from where they are stored, and report every fault of theirs in one sentence."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from compositions.errors import RecomposeError
from datapipe.telemetry.schema import SCHEMAS, SUFFIX, VERSION, version_of
from datapipe.telemetry.windows import KEYS


class TelemetryError(RecomposeError):
    """Telemetry that cannot be read, or a table that cannot be written."""


def files_of(directory: Path, kind: str, prefix: str = "") -> list[Path]:
    """Files of one kind, checked, oldest name first. Raises: TelemetryError for a bad folder or a bad file."""
    if not directory.is_dir():
        raise TelemetryError(f"there is no folder {str(directory)!r}; give the one that a runner writes telemetry to")
    found = sorted((directory / kind).glob(f"{prefix}*{SUFFIX}"))
    return [path for path in found if _is_good(path)]


def some_files_of(directory: Path, kind: str) -> list[Path]:
    """Raises: TelemetryError also when there are none."""
    found = files_of(directory, kind)
    if not found:
        raise TelemetryError(f"{str(directory)!r} has no telemetry; give a folder with files {kind}/*{SUFFIX}")
    return found


def _is_good(path: Path) -> bool:
    """False when it has gone. Raises: TelemetryError for one that is broken, no telemetry, or newer than we are."""
    try:
        version = version_of(pq.read_schema(path))
    except FileNotFoundError:  # retention was faster
        return False
    except (pa.ArrowException, OSError, ValueError) as error:
        raise TelemetryError(f"{str(path)!r} is not a readable Parquet file; move it away and run again") from error
    if version is None:
        raise TelemetryError(f"{str(path)!r} is not telemetry: its schema has no version; move it away and run again")
    if version > VERSION:
        raise TelemetryError(
            f"{str(path)!r} has schema version {version}, this program reads up to {VERSION}: update it"
        )
    return True


TABLE = "windows"
CHECKPOINT = "checkpoint"
BATCH = "batch"


def spark_schema(kind: str) -> Any:
    return from_arrow_schema(SCHEMAS[kind], prefer_timestamp_ntz=False)


def raw(spark: SparkSession, directory: Path, kind: str = "items") -> DataFrame:
    """All records of one kind. Raises: TelemetryError."""
    some_files_of(directory, kind)
    return spark.read.schema(spark_schema(kind)).parquet(str(directory / kind))


def put_batch(table: DataFrame, out: Path, number: int) -> None:
    """Writes what a micro-batch changed, under its number: the same batch again replaces itself."""
    final = out / TABLE / f"{BATCH}={number}"
    hidden = out / TABLE / f".{BATCH}-{number}"
    shutil.rmtree(hidden, ignore_errors=True)
    table.coalesce(1).write.mode("overwrite").parquet(str(hidden))
    shutil.rmtree(final, ignore_errors=True)
    os.replace(hidden, final)


def put_whole(table: DataFrame, out: Path) -> None:
    """Replaces the table by this one; the old one stays until the new one is complete."""
    hidden, old, final = out / f".{TABLE}", out / f".{TABLE}-old", out / TABLE
    shutil.rmtree(hidden, ignore_errors=True)
    table.coalesce(1).write.mode("overwrite").parquet(str(hidden / f"{BATCH}=0"))
    shutil.rmtree(old, ignore_errors=True)
    if final.exists():
        os.replace(final, old)
    os.replace(hidden, final)
    shutil.rmtree(old, ignore_errors=True)


def table(spark: SparkSession, out: Path) -> DataFrame:
    """The table as it stands: of each window the row that was written last. Raises: TelemetryError without one."""
    if not any((out / TABLE).glob(f"{BATCH}=*")):
        raise TelemetryError(f"{str(out)!r} has no table of windows; write one with recompose telemetry")
    rows = spark.read.parquet(str(out / TABLE))
    last = Window.partitionBy(*KEYS).orderBy(F.col(BATCH).desc())
    return rows.withColumn("_", F.row_number().over(last)).where("_ = 1").drop("_", BATCH)
