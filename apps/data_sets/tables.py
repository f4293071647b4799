"""Convert records to the tables of a version, as functions of Arrow tables."""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

SHARDS = 16
"""Parts of the features table, by a hash of the path: a new version writes those anew in which something changed."""

FILES = pa.schema(
    [
        ("path", pa.string()),
        ("size", pa.int64()),
        ("mtime_ns", pa.int64()),
        ("sha256", pa.string()),
        ("error", pa.string()),
        ("rows", pa.int32()),
    ]
)


def shard_of(path: str) -> int:
    return crc32(path.encode("utf-8", "surrogateescape")) % SHARDS


def features_schema(columns: pa.Schema) -> pa.Schema:
    return pa.schema([("path", pa.string()), ("row", pa.int32()), *columns])


def news(records: pa.Table, before: pa.Table) -> pa.Table:
    """All but those of files that could not be read and still cannot, for the same reason."""
    failed = before.filter(pc.is_null(before["sha256"]))
    known = set(zip(failed["path"].to_pylist(), failed["error"].to_pylist(), strict=True))
    if not known:
        return records
    pairs = zip(records["path"].to_pylist(), records["error"].to_pylist(), strict=True)
    return records.filter(pa.array([pair not in known for pair in pairs], pa.bool_()))


def unchanged(records: pa.Table) -> pa.Table:
    """Records of files whose content is what was known already."""
    return records.filter(pc.and_(pc.is_null(records["rows"]), pc.is_null(records["error"])))


def computed(records: pa.Table) -> pa.Table:
    return records.filter(pc.or_(pc.is_valid(records["rows"]), pc.is_valid(records["error"])))


def features(records: pa.Table, columns: pa.Schema) -> pa.Table:
    """One row a region, face …: ``row`` counts within the file."""
    lists = records["rows"].combine_chunks()
    owners = pc.list_parent_indices(lists).to_numpy()
    counts = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
    starts = np.concatenate(([0], np.cumsum(counts)[:-1])) if len(counts) else np.zeros(0, np.int64)
    within = np.arange(len(owners)) - starts[owners]
    flat = pc.list_flatten(lists)
    parts = [pc.struct_field(flat, name) for name in columns.names]
    path = records["path"].combine_chunks().take(pa.array(owners))
    return pa.Table.from_arrays([path, pa.array(within, pa.int32()), *parts], schema=features_schema(columns))


def file_rows(records: pa.Table) -> pa.Table:
    """Records without their rows."""
    counts = pc.cast(pc.fill_null(pc.list_value_length(records["rows"]), 0), pa.int32())
    return records.set_column(records.schema.get_field_index("rows"), "rows", counts).cast(FILES)


def files_table(before: pa.Table, same: pa.Table, new: pa.Table, gone: Sequence[str]) -> pa.Table:
    """Files of the next version by path: ``same`` with the size and time that they have now."""
    known = {row["path"]: {"rows": row["rows"], "error": row["error"]} for row in before.to_pylist()}
    again = [row | known[row["path"]] for row in file_rows(same).to_pylist()]
    left = without(before, [*gone, *same["path"].to_pylist(), *new["path"].to_pylist()])
    return pa.concat_tables([left, pa.Table.from_pylist(again, FILES), file_rows(new)]).sort_by("path")


def without(table: pa.Table, paths: Sequence[str]) -> pa.Table:
    return table.filter(pc.invert(pc.is_in(table["path"], pa.array(paths, pa.string()))))


def quarantine(files: pa.Table) -> pa.Table:
    bad = files.filter(pc.is_valid(files["error"]))
    return pa.table({"path": bad["path"], "reason": bad["error"]})


def by_shard(table: pa.Table) -> list[pa.Table]:
    """The rows of each shard."""
    paths = table["path"].combine_chunks().dictionary_encode()
    known = pa.array([shard_of(path) for path in paths.dictionary.to_pylist()], pa.int32())
    numbers = known.take(paths.indices)
    return [table.filter(pc.equal(numbers, shard)) for shard in range(SHARDS)]
