"""Move rows and results between Spark's executors and the runner, past the driver."""

from collections.abc import Iterator
from functools import partial
from multiprocessing.connection import Client
from typing import Any

import pyarrow as pa

from datapipe.spark.messages import Deliver, Fetch
from datapipe.spark.query import ROWS, as_json, row_for_each_value

Batches = Iterator[pa.RecordBatch]


def delivered(rows: Any, door: str, number: int) -> Iterator[int]:
    """Deliver the rows of a micro-batch in the order of its partitions, each computed while the one before is taken;
    yield the number of rows in each."""
    counts = rows.select(as_json().alias("row")).mapInArrow(partial(_deliver, door, number), "rows BIGINT")
    return (each["rows"] for each in counts.toLocalIterator(prefetchPartitions=True))


def fetched(spark: Any, door: str, what: Fetch) -> Any:
    """Return results as a DataFrame, which an executor fetches."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return spark.range(0, 1, 1, 1).mapInArrow(partial(_fetch, door, what), from_arrow_schema(ROWS))


def _deliver(door: str, number: int, batches: Batches) -> Batches:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None, "this runs in a task"
    with Client(door, "AF_UNIX") as runner:
        runner.send(Deliver(number, context.partitionId()))
        known, count = runner.recv(), 0
        for batch in batches:
            texts = batch.column(0).to_pylist()
            if new := texts[max(0, known - count) :]:
                runner.send(new)
            count += len(texts)
        runner.send(count)
        runner.recv()
    yield pa.RecordBatch.from_pydict({"rows": pa.array([count], pa.int64())})


def _fetch(door: str, what: Fetch, batches: Batches) -> Batches:
    for _ in batches:  # one row, so that there is a task
        with Client(door, "AF_UNIX") as runner:
            runner.send(what)
            yield row_for_each_value(range(what.first, what.first + what.rows), runner.recv())
