"""Find traces of single items in telemetry: one by its serial number, or the slowest ones. Needs no Spark."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from datapipe.telemetry.past import LATE_S
from datapipe.telemetry.store import closed_files

FILES = 360
"""Maximum number of files that are read, the newest first: an hour, at ten seconds each."""
COLUMNS = ("run", "serial", "arrived", "read", "delivered", "composition", "outcome", "batch", "stages")


def slowest(folder: Path, app: str, since_s: float, most: int) -> list[dict[str, Any]]:
    """Return rows of ``COLUMNS`` with the longest latency first, of items that left at ``since_s`` (seconds since 1970)
    or later. Shed items are left out, as they were not processed."""
    read = map(_read, _newest(folder, app, since_s))
    tables = [_longest(table, since_s, most) for table in read if table is not None]
    return _longest(pa.concat_tables(tables, promote_options="default"), since_s, most).to_pylist() if tables else []


def one(folder: Path, app: str, serial: int, run: str | None) -> dict[str, Any] | None:
    """Return the item with this serial number, of ``run`` (None: of the latest run that has one); None if not found."""
    for path in _newest(folder, app, 0.0):
        table = _read(path, pc.field("serial") == serial)
        for row in table.to_pylist() if table is not None else ():
            if run in (None, row["run"]):
                return dict(row)
    return None


def _newest(folder: Path, app: str, since_s: float) -> list[str]:
    known = ((closed_s, path) for closed_s, _, path in closed_files(folder, "items", app))
    return [path for closed_s, path in sorted(known, reverse=True)[:FILES] if closed_s >= since_s - LATE_S]


def _read(path: str, only: Any = None) -> Any:
    """Return a file's table; None if it cannot be read, for example because it is incomplete or of an old version."""
    try:
        return pq.read_table(path, columns=list(COLUMNS), filters=only, partitioning=None)
    except (pa.ArrowException, OSError, KeyError):
        return None


def _longest(table: Any, since_s: float, most: int) -> Any:
    since = pa.scalar(round(since_s * 1e6), pa.int64()).cast(table.column("delivered").type)
    left = pc.and_(pc.greater_equal(table.column("delivered"), since), pc.not_equal(table.column("outcome"), "shed"))
    table = table.filter(left)
    took = pc.subtract(table.column("delivered").cast(pa.int64()), table.column("arrived").cast(pa.int64()))
    return table.take(pc.sort_indices(took, sort_keys=[("", "descending")])[:most])
