"""``python tests/datapipe/class_archive.py FILE``: an archive of the classes that Spark needs in the tests, parsed and
verified, so that a JVM of a test maps them instead of reading them from jars (class data sharing of the JDK).

It does once what they do: a stream of files through a transform into a table of parts, and windows over telemetry.
``tests/conftest.py`` hands the archive to every JVM, which passes over one that does not fit its Java or its jars.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from telemetry_records import random_items, write

from datapipe.spark.messages import Key, StreamSource, TableSink
from datapipe.spark.query import PartTable, streaming_rows, texts_of
from datapipe.spark.session import open_session
from datapipe.telemetry.store import table
from datapipe.telemetry.tables import live, raw, start
from datapipe.telemetry.windows import batch_table

LIMIT_S = 300.0


def stream_into_a_table(spark: Any, folder: Path) -> None:
    (folder / "in").mkdir()
    (folder / "in" / "a.csv").write_text("3,a\n5,b\n")
    (folder / "shape.sql").write_text("SELECT n, file FROM input WHERE n <> 7")
    options = {"schema": "n INT, file STRING", "maxFilesPerTrigger": "4"}
    rows = streaming_rows(spark, StreamSource("csv", str(folder / "in"), options, (folder / "shape.sql").read_text()))
    results = PartTable(spark, TableSink(str(folder / "table")))

    def batch(frame: Any, number: int) -> None:
        results.write(Key("q", number), 0, [f'{{"value": {text}}}' for text in texts_of(frame)])

    query = rows.writeStream.foreachBatch(batch).option("checkpointLocation", str(folder / "checkpoint"))
    assert query.trigger(availableNow=True).start().awaitTermination(LIMIT_S)


def windows_over_telemetry(spark: Any, folder: Path) -> None:
    write(folder, "x", random_items(seed=1, count=200, span_s=30))
    assert start(live(spark, folder), folder / "out", once=True).awaitTermination(LIMIT_S)
    table(spark, folder / "out").collect()
    batch_table(raw(spark, folder)).collect()


def make(file: Path) -> None:
    """Raises: AssertionError where Spark does not come to an end."""
    made = file.with_suffix(f".{os.getpid()}")
    os.environ["JDK_JAVA_OPTIONS"] = f"-XX:TieredStopAtLevel=1 -XX:ArchiveClassesAtExit={made} -Xlog:disable"
    with TemporaryDirectory() as scratch:
        spark = open_session("class archive", "local[2]")
        for name, work in (("live", stream_into_a_table), ("telemetry", windows_over_telemetry)):
            (Path(scratch) / name).mkdir()
            work(spark, Path(scratch) / name)
        jvm = spark.sparkContext._gateway.proc
        spark.stop()
        jvm.stdin.close()  # that is how it is told to end; it writes the archive before it does
        jvm.wait(LIMIT_S)
    made.replace(file)


if __name__ == "__main__":
    make(Path(sys.argv[1]).absolute())
