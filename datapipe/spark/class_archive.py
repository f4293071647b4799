"""Make an archive of Spark's classes, which each JVM of this environment maps instead of reading them from jars.

python -m datapipe.spark.class_archive

Class data sharing of the JDK: it saves half of the CPU that a session takes up to its first answer. A JVM passes over
an archive that does not fit its Java or its jars. The classes are those that a stream, a table and a query load.
"""

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

from datapipe.spark.delta import TableKind, append, frame_of
from datapipe.spark.messages import Fetch, Key, StreamSource, TableSink
from datapipe.spark.query import PartTable, streaming_rows
from datapipe.spark.session import CLASSES, SETTINGS, open_session

LIMIT_S = 300.0
KIND = pa.schema([("app", pa.string()), ("n", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
QUERY = """SELECT app, avg(n), max(at) FROM (SELECT *, row_number() OVER (PARTITION BY app, n ORDER BY at DESC) AS last
FROM rows) WHERE last = 1 GROUP BY app ORDER BY app"""


def _work(spark: Any, folder: Path) -> None:
    (folder / "in").mkdir()
    (folder / "in" / "a.csv").write_text("3,a\n5,b\n")
    rows = streaming_rows(spark, StreamSource("csv", str(folder / "in"), {"schema": "n INT, app STRING"}))
    kind = TableKind(folder / "table", KIND, ("app",))

    def batch(frame: Any, number: int) -> None:
        columns = ("CAST(n AS BIGINT) AS row", "'' AS error", "app AS value", "0 AS part")
        kinds = "row BIGINT, error STRING, value STRING, part INT"
        results = frame.selectExpr(*columns).mapInArrow(lambda batches: batches, kinds)
        rows = sum(1 for _ in results.toLocalIterator(prefetchPartitions=True))
        PartTable(spark, TableSink(str(folder / "parts")), lambda _: results).write(Key("q", number), Fetch(0, 0, rows))
        append(frame.selectExpr("app", "CAST(n AS BIGINT) AS n", "current_timestamp() AS at"), kind, ("q", number))

    query = rows.writeStream.foreachBatch(batch).option("checkpointLocation", str(folder / "checkpoint"))
    if not query.trigger(availableNow=True).start().awaitTermination(LIMIT_S):
        raise TimeoutError(f"Spark did not read a file within {LIMIT_S:.0f} s")
    frame_of(spark, folder / "table").createOrReplaceTempView("rows")
    spark.sql(QUERY).collect()


def main() -> None:
    draft = CLASSES.with_suffix(f".{os.getpid()}")
    with TemporaryDirectory() as scratch:
        options = {"spark.driver.extraJavaOptions": f'-XX:ArchiveClassesAtExit="{draft}" -Xlog:disable'}
        spark = open_session("class archive", "local[2]", SETTINGS | options)
        _work(spark, Path(scratch))
        jvm = spark.sparkContext._gateway.proc
        spark.stop()
        jvm.stdin.close()  # the JVM ends then, and writes the archive before
        jvm.wait(LIMIT_S)
    draft.replace(CLASSES)


if __name__ == "__main__":
    main()
