"""The engine that makes a data set on Spark's executors.

An executor reads the files itself and puts their records into the staging folder of the data set; the driver learns how
many. A cluster needs a file system in common for both.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from math import ceil
from pathlib import Path
from typing import Any

import pyarrow as pa

from apps import registry
from apps.data_sets.files import Place
from apps.data_sets.recipe import TASKS, Recipe
from apps.data_sets.work import CHUNK_FILES, Engine, chunks, records, stage
from compositions.errors import RecomposeError
from datapipe.spark.session import NoSpark, interrupted

PARTITION_FILES = 50
"""Maximum number of files in a partition: with 10, the start of a task takes a sixth of its time."""
ROUNDS = 10
"""Number of partitions per core between two writes of records to disk."""
TURNS = 4
"""Number of partitions per core if there are few files, so that all cores end at about the same time."""

MakeRecipe = Callable[[], Recipe]


def recipe_of(app: str, options: Mapping[str, Any], apps_dirs: Sequence[Path] = ()) -> Recipe:
    """Return the app's recipe, made in each process from the options, as apps are not sent to executors. Raises:
    RecomposeError for an unknown app, bad options, or an app without a data set."""
    return _recipe(app, json.dumps(options, sort_keys=True), tuple(apps_dirs))


@cache
def _recipe(app: str, options: str, apps_dirs: tuple[Path, ...]) -> Recipe:
    """Return the recipe, made once per process: a process gets many partitions, and finding an app takes time."""
    made = registry.create(app, json.loads(options), apps_dirs).data_set()
    if made is None:
        raise RecomposeError(f"app {app!r} has no data set that recompose ingest could make from files")
    return made


def on_spark(spark: Any, make_recipe: MakeRecipe, place: Place) -> Engine:
    """Return the engine; ``make_recipe`` and ``place`` are sent to the executors. The engine raises NoSpark if a job
    fails, and KeyboardInterrupt."""

    def engine(tasks: pa.Table, folder: Path) -> Iterator[int]:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        work = partial(_stage, make_recipe, place, folder.absolute())
        cores = _cores(spark)
        for chunk in chunks(tasks, max(CHUNK_FILES, PARTITION_FILES * ROUNDS * cores)):
            files = chunk.num_rows
            parts = max(ceil(files / PARTITION_FILES), min(files, TURNS * cores))
            spread = spark.createDataFrame(chunk).repartition(parts)
            try:
                yield sum(row["records"] for row in spread.mapInArrow(work, "records BIGINT").collect())
            except (PySparkException, Py4JError) as error:
                if interrupted(error):
                    raise KeyboardInterrupt from None
                raise NoSpark(f"the Spark job failed: {_first_line(error)}") from error

    return engine


def _stage(
    make_recipe: MakeRecipe, place: Place, folder: Path, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    recipe = make_recipe()
    for batch in batches:
        count = stage(folder, pa.Table.from_batches([records(recipe, place, batch.cast(TASKS))]))
        yield pa.RecordBatch.from_pydict({"records": pa.array([count], pa.int64())})


def _cores(spark: Any) -> int:
    """Return the cores of the executors; 2 if a remote session does not tell."""
    with suppress(Exception):  # Spark Connect has no context, and says so with errors of several types
        return int(spark.sparkContext.defaultParallelism)
    return 2


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    told = [line for line in lines if "Error: " in line and "org.apache" not in line]
    return (told or lines or [type(error).__name__])[-1 if told else 0].strip()[:300]
