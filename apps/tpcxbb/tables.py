"""The tables as files in a folder, Parquet or CSV: written from a plan, and read as a stream."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from apps.tpcxbb import generate
from apps.tpcxbb.generate import CLICKS, DAY_S, DIMENSIONS, SALES, STREAMS, Stream
from compositions.errors import RecomposeError

Form = Literal["parquet", "csv"]
MAKERS: Mapping[str, Callable[[generate.Plan, int], pa.RecordBatch]] = {
    SALES.table: generate.sales,
    CLICKS.table: generate.clicks,
}
Columns = dict[str, NDArray[np.int64]]


def write(folder: Path, plan: generate.Plan, form: Form) -> None:
    """Write all tables of a plan. Raises: RecomposeError if the folder cannot be written."""
    try:
        write_dimensions(folder, plan, form)
        for table, stream in STREAMS.items():
            _write(folder / f"{table}.{form}", form, stream.columns, made(plan, stream))
    except OSError as error:
        raise RecomposeError(f"tables cannot be written to {str(folder)!r}: {error.strerror or error}") from error


def write_dimensions(folder: Path, plan: generate.Plan, form: Form) -> None:
    """Write the tables that are not streams. Raises: as ``write``."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for table, rows in {"item": generate.item_table(plan), "web_page": generate.web_page_table()}.items():
            _write(folder / f"{table}.{form}", form, DIMENSIONS[table], rows.to_batches())
    except OSError as error:
        raise RecomposeError(f"tables cannot be written to {str(folder)!r}: {error.strerror or error}") from error


def made(plan: generate.Plan, stream: Stream) -> Iterator[pa.RecordBatch]:
    return (MAKERS[stream.table](plan, chunk) for chunk in range(plan.chunks))


def _write(path: Path, form: Form, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    with pq.ParquetWriter(path, schema) if form == "parquet" else pa_csv.CSVWriter(path, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def read(folder: Path, stream: Stream) -> Iterator[pa.RecordBatch]:
    """Yield a stream's table, batch by batch. Raises: RecomposeError if it is missing or has other columns."""
    return _read(folder, stream.table, stream.columns)


def dimension(folder: Path, table: str) -> pa.Table:
    """Return a dimension table, for look-ups. Raises: as ``read``."""
    return pa.Table.from_batches(_read(folder, table, DIMENSIONS[table]), DIMENSIONS[table])


def _read(folder: Path, table: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    path = _place_of(folder, table)
    try:
        for part in _parts(path):
            for batch in _batches(part, schema):
                yield batch.select(schema.names).cast(schema)
    except (pa.ArrowException, KeyError, OSError) as error:
        what = str(error).strip().splitlines()[0][:200]
        raise RecomposeError(f"{str(path)!r} is no table {table} with {', '.join(schema.names)}: {what}") from error


def _batches(path: Path, schema: pa.Schema) -> Iterable[pa.RecordBatch]:
    if path.suffix == ".parquet":
        return pq.ParquetFile(path).iter_batches(columns=schema.names)
    return pa_csv.open_csv(path, convert_options=pa_csv.ConvertOptions(column_types=schema))


def _place_of(folder: Path, table: str) -> Path:
    for suffix in (".parquet", ".csv"):
        path = folder / (table + suffix)
        if path.exists():
            return path
    raise RecomposeError(f"folder {str(folder)!r} has no {table}.parquet and no {table}.csv")


def _parts(path: Path) -> list[Path]:
    """Return the files of a table: one file, or those of a folder in order of their names, as Spark writes them."""
    return sorted(path.glob(f"*{path.suffix}")) if path.is_dir() else [path]


def columns_of(batch: pa.RecordBatch, stream: Stream, names: Iterable[str]) -> Columns:
    """Return the columns as integers: money in cents, missing numbers as 0, date and time as ``time`` in seconds."""
    wanted = {name: _ints(batch.column(name)) for name in names}
    return {"time": _ints(batch.column(stream.date)) * DAY_S + _ints(batch.column(stream.time)), **wanted}


def _ints(column: Any) -> NDArray[np.int64]:
    whole = pc.fill_null(column, 0).to_numpy(zero_copy_only=False)
    return np.rint(np.nan_to_num(whole) * 100).astype(np.int64) if whole.dtype.kind == "f" else whole
