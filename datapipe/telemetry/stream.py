"""The streaming job: the table of windows kept up to date while runners write."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from datapipe.telemetry.schema import SUFFIX
from datapipe.telemetry.store import CHECKPOINT, TABLE, put_batch, spark_schema
from datapipe.telemetry.windows import KEYS, LENGTHS_S, contributions, finished, in_windows, observations, partial

LATE_S = 35
"""Records this much late still count: 30 s, and a file's two seconds with some room."""
TRIGGER_S = 2.0
FILES_A_TURN = 1000


def live_items(spark: SparkSession, directory: Path, files_a_turn: int = FILES_A_TURN) -> DataFrame:
    """Files of items as they come, oldest first."""
    reader = spark.readStream.schema(spark_schema("items")).option("pathGlobFilter", f"*{SUFFIX}")
    return reader.option("maxFilesPerTrigger", files_a_turn).parquet(str(directory / "items"))


def live_table(items: DataFrame) -> DataFrame:
    """The windows that changed. State of a window is dropped ``LATE_S`` after the end of the longest one over it.

    The watermark is on the end of the window, which is up to a minute ahead of the records in it.
    """
    rows = in_windows(contributions(observations(items)))
    rows = rows.withColumn("end", F.timestamp_seconds(F.col("start") + F.col("length_s")))
    delay_s = LATE_S + max(LENGTHS_S)
    return finished(partial(rows.withWatermark("end", f"{delay_s} seconds"), (*KEYS, "end")))


def start(items: DataFrame, out: Path, *, trigger_s: float = TRIGGER_S, once: bool = False) -> Any:
    """Starts the query; ``once``: it ends when all there is has been read.

    Exactly once: offsets and state are in the checkpoint, and a batch that was written and not noted is written again
    under the same number.
    """
    (out / TABLE).mkdir(parents=True, exist_ok=True)
    for left in (out / TABLE).glob(".*"):
        shutil.rmtree(left, ignore_errors=True)
    writer = live_table(items).writeStream.outputMode("update").option("checkpointLocation", str(out / CHECKPOINT))
    writer = writer.foreachBatch(lambda batch, number: put_batch(batch, out, number)).queryName("telemetry")
    trigger: dict[str, Any] = {"availableNow": True} if once else {"processingTime": f"{trigger_s} seconds"}
    return writer.trigger(**trigger).start()
