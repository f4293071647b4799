"""Convert rows of Arrow batches to items of a live source: the values that ``json.loads`` reads from Spark's JSON.

The rules are those of Spark's ``to_json``: times in UTC with milliseconds, decimals as numbers, bytes in base64,
numbers that are not finite by their names. A float of 32 bits is the shortest decimal that stands for it.
"""

from base64 import b64encode
from itertools import islice
from math import isfinite
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t

from compositions.errors import RecomposeError


def json_rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Return a dictionary for each row. Raises: RecomposeError for a column of a type that Spark does not read."""
    names = batch.schema.names
    return [dict(zip(names, cells, strict=True)) for cells in zip(*map(_cells, batch.columns), strict=True)]


def _cells(column: pa.Array) -> list[Any]:
    kind = column.type
    if t.is_integer(kind) or t.is_boolean(kind) or t.is_string(kind) or t.is_large_string(kind) or t.is_null(kind):
        return list(column.to_pylist())
    if t.is_floating(kind):
        exact = column.cast(pa.string()).cast(pa.float64()) if t.is_float32(kind) else column
        return [value if value is None or isfinite(value) else _name_of(value) for value in exact.to_pylist()]
    if t.is_decimal(kind):
        number = float if kind.scale else int
        return [None if value is None else number(value) for value in column.to_pylist()]
    if t.is_date(kind):
        return list(pc.strftime(column, "%Y-%m-%d").to_pylist())
    if t.is_timestamp(kind):
        zone = "UTC" if kind.tz else None
        whole = pc.floor_temporal(column.cast(pa.timestamp(kind.unit, zone)), unit="millisecond")
        form = "%Y-%m-%dT%H:%M:%S" + ("Z" if zone else "")
        return list(pc.strftime(whole.cast(pa.timestamp("ms", zone)), form).to_pylist())
    if t.is_binary(kind) or t.is_large_binary(kind) or t.is_fixed_size_binary(kind):
        return [None if value is None else b64encode(value).decode() for value in column.to_pylist()]
    return _nested(column)


def _nested(column: pa.Array) -> list[Any]:
    kind = column.type
    if t.is_dictionary(kind):
        return _cells(column.dictionary_decode())
    if t.is_struct(kind):
        rows = json_rows(pa.RecordBatch.from_arrays(column.flatten(), [field.name for field in kind]))
        return [row if there else None for row, there in zip(rows, column.is_valid().to_pylist(), strict=True)]
    if t.is_list(kind) or t.is_large_list(kind) or t.is_fixed_size_list(kind):
        values = iter(_cells(column.flatten()))
        return [None if n is None else list(islice(values, n)) for n in pc.list_value_length(column).to_pylist()]
    if t.is_map(kind) and (t.is_string(kind.key_type) or t.is_integer(kind.key_type)):
        pairs = pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)]))
        found = _cells(column.cast(pairs))
        return [None if each is None else {str(pair["key"]): pair["value"] for pair in each} for each in found]
    raise RecomposeError(f"a column of type {kind} has no JSON form, so no app can read it")


def _name_of(value: float) -> str:
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
