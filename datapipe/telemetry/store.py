"""Where telemetry and its tables lie, and reading them back; every fault of theirs as one sentence."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from datapipe.telemetry.files import TelemetryError, some_files_of
from datapipe.telemetry.schema import SCHEMAS
from datapipe.telemetry.windows import KEYS

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
