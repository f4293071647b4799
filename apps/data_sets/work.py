"""Convert files to records: the part of making a data set that is spread over cores and machines."""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from threading import get_ident
from time import monotonic
from typing import Any
from zlib import crc32

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from apps.data_sets.files import Place
from apps.data_sets.recipe import Recipe, record_schema
from compositions.errors import RecomposeError

SHARDS = 16
"""Number of shards of the features table, by a hash of the path; a new version rewrites only changed shards."""
CHUNK_FILES = 512
"""Maximum number of files between two writes of records to disk."""
FIRST_FILES = 8
"""Number of files before the first write, as the time per file is unknown."""
CHUNK_S = 4.0
"""Approximate interval between two writes."""
TURN_FILES = 4
"""Number of files that a thread takes at a time."""

Engine = Callable[[pa.Table, Path], Iterable[int]]
"""Computes the records of tasks and puts them into a folder; yields how many are there, as they become ready."""


def shard_of(path: str) -> int:
    return crc32(path.encode("utf-8", "surrogateescape")) % SHARDS


def records(recipe: Recipe, place: Place, tasks: pa.RecordBatch) -> pa.RecordBatch:
    """Return a record for each task. An Arrow batch function, which the engine may run on any machine."""
    found = [_record(recipe, place, task) for task in tasks.to_pylist()]
    return pa.RecordBatch.from_pylist(found, schema=record_schema(recipe.columns))


def stage(folder: Path, found: pa.Table) -> int:
    """Write records atomically to one file of ``folder``, replacing earlier ones; return their number."""
    paths = found["path"].to_pylist()
    name = sha256("\n".join(paths).encode("utf-8", "surrogateescape")).hexdigest()[:32]
    counts = pc.list_value_length(found["rows"])
    whole = found.append_column("shard", pa.array(map(shard_of, paths), pa.int32())).append_column("count", counts)
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f".{name}-{os.getpid()}-{get_ident()}"
    pq.write_table(whole, draft)
    draft.replace(folder / f"{name}.parquet")
    return int(found.num_rows)


def in_process(recipe: Recipe, place: Place) -> Engine:
    """Compute the records without Spark, in threads of this process; compiled kernels release the GIL."""

    def engine(tasks: pa.Table, folder: Path) -> Iterator[int]:
        with ThreadPoolExecutor() as pool:
            for chunk in chunks(tasks, CHUNK_FILES):
                turns = chunk.to_batches(max_chunksize=TURN_FILES)
                made = pool.map(lambda batch: records(recipe, place, batch), turns)
                yield stage(folder, pa.Table.from_batches(made))

    return engine


def chunks(tasks: pa.Table, most: int, clock: Callable[[], float] = monotonic) -> Iterator[pa.Table]:
    """Yield the tasks between two writes to disk: few files at first, then twice or half as many, depending on the time
    that the last ones took."""
    start, size = 0, FIRST_FILES
    while start < tasks.num_rows:
        began_s = clock()
        yield tasks.slice(start, size).combine_chunks()
        start += size
        took_s = clock() - began_s
        if took_s < CHUNK_S / 2:
            size = min(2 * size, most)
        elif took_s > CHUNK_S * 2:
            size = max(size // 2, 1)


def _record(recipe: Recipe, place: Place, task: dict[str, Any]) -> dict[str, Any]:
    found = {key: task[key] for key in ("path", "size", "mtime_ns")}
    try:
        data = place.read(task["path"])
    except OSError as error:  # no checksum, so that the next job tries the file again
        return found | {"error": f"{task['path']} cannot be read: {error.strerror or error}"}
    found["sha256"] = sha256(data).hexdigest()
    if found["sha256"] == task["known"]:
        return found
    try:
        return found | {"rows": recipe.rows(task["path"], data)}
    except RecomposeError as error:
        return found | {"error": str(error)}
