"""Data of a report: telemetry of one app between two instants, from the files of runners or from the tables."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from compositions.errors import RecomposeError
from datapipe.telemetry.schema import INSTANT_OF, NUMBERED, SCHEMAS, SEPARATOR
from datapipe.telemetry.store import files_of

Floats = npt.NDArray[np.float64]
MOST: Mapping[str, int] = {"snapshots": 50_000, "items": 500_000}
"""Maximum number of rows read, by kind; of more, every n-th is. A plot shows 900 points."""
OUTCOMES = ("delivered", "failed", "shed")


@dataclass(frozen=True, slots=True)
class Period:
    """The time from ``since`` to before ``until`` (None: unlimited). ``run``: only this run; None: all."""

    since: datetime | None = None
    until: datetime | None = None
    run: str | None = None


@dataclass(frozen=True, slots=True)
class RunData:
    """Telemetry of one app. Times are seconds since ``began``."""

    app: str
    began: datetime
    items: Any
    snapshots: Any
    decisions: Sequence[dict[str, Any]]
    """Bodies as in /decisions, with ``at_s``; oldest first."""
    switches: Sequence[dict[str, Any]]
    counts: Mapping[str, int]
    """Number of items by outcome, including those that ``items`` leaves out."""
    every: Mapping[str, int]
    """By kind, the n of "every n-th record was read", for ``snapshots`` and ``items``."""

    def seconds(self, table: Any, column: str) -> Floats:
        began_us = round(self.began.timestamp() * 1e6)
        micros = table.column(column).cast(pa.int64()).to_numpy()
        return np.asarray((micros - began_us) / 1e6)


def load(directory: Path, app: str, period: Period) -> RunData:
    """Read the telemetry in a folder that runners write to, or in a folder of tables. Raises: TelemetryError for a
    folder that cannot be read; RecomposeError for an app or period without records."""
    read = {kind: _Records(directory, kind, app, period) for kind in ("snapshots", "items", *NUMBERED)}
    snapshots = read["snapshots"].rows()
    if not snapshots.num_rows:
        known = ", ".join(apps_in(directory))
        there = f"there is some of {known}" if known else "there is none at all"
        raise RecomposeError(f"no telemetry of {app!r} in that period in {str(directory)!r}; {there}")
    began = snapshots.column("at")[0].as_py()
    rows = {kind: _latest(read[kind].rows().to_pylist(), key) for kind, key in NUMBERED.items()}
    for kind in rows:
        for row in rows[kind]:
            row["at_s"] = (row["at"] - began).total_seconds()
    decisions = [json.loads(row["body"]) | {"at_s": row["at_s"]} for row in rows["decisions"]]
    counts = {outcome: read["items"].count(pc.field("outcome") == outcome) for outcome in OUTCOMES}
    every = {kind: read[kind].every for kind in MOST}
    return RunData(app, began, read["items"].rows(), snapshots, decisions, rows["switches"], counts, every)


def apps_in(directory: Path) -> Sequence[str]:
    """Return the apps of which a folder has telemetry."""
    folder = directory / "snapshots"
    names = {path.name.split(SEPARATOR)[0] for path in folder.glob(f"*{SEPARATOR}*")}
    return sorted(names | {path.name.removeprefix("app=") for path in folder.glob("date=*/app=*")})


class _Records:
    """The records of one kind of an app in a period."""

    def __init__(self, directory: Path, kind: str, app: str, period: Period) -> None:
        self._schema, self._instant = SCHEMAS[kind], INSTANT_OF[kind]
        self._data = _dataset(directory, kind, app)
        self._only = pc.field("app") == app
        if period.run is not None:
            self._only &= pc.field("run") == period.run
        kind_of = self._data.schema.field(self._instant).type
        if period.since is not None:
            self._only &= pc.field(self._instant) >= pa.scalar(_utc(period.since), kind_of)
        if period.until is not None:
            self._only &= pc.field(self._instant) < pa.scalar(_utc(period.until), kind_of)
        self.every = -(-self.count() // MOST[kind]) or 1 if kind in MOST else 1

    def count(self, which: Any = None) -> int:
        return int(self._data.count_rows(filter=self._only if which is None else self._only & which))

    def rows(self) -> Any:
        """Return every ``every``-th record, in order of time; null in columns that came with a later version."""
        there = [name for name in self._schema.names if name in self._data.schema.names]
        taken, seen = [], 0
        for batch in self._data.to_batches(columns=there, filter=self._only):
            taken.append(batch.take(pa.array(range(-seen % self.every, batch.num_rows, self.every), pa.int64())))
            seen += batch.num_rows
        found = pa.Table.from_batches(taken, taken[0].schema if taken else self._schema)
        columns = [
            found.column(field.name).cast(field.type) if field.name in there else pa.nulls(len(found), field.type)
            for field in self._schema
        ]
        return pa.table(columns, schema=self._schema).sort_by(self._instant)


def _dataset(directory: Path, kind: str, app: str) -> Any:
    if (directory / kind / "_delta_log").is_dir():
        from deltalake import DeltaTable  # of the extra for tables

        return DeltaTable(str(directory / kind)).to_pyarrow_dataset()
    paths = [str(path) for path in files_of(directory, kind, f"{app}{SEPARATOR}")]
    return ds.dataset(paths, SCHEMAS[kind]) if paths else ds.dataset(SCHEMAS[kind].empty_table())


def _utc(bound: datetime) -> datetime:
    try:
        return bound.astimezone(UTC)
    except (ValueError, OverflowError):
        what = f"{bound.isoformat()} is not in the years 1 to 9999 of UTC"
        raise RecomposeError(f"{what}; give a time in these years") from None


def _latest(rows: list[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    """Return the last of the records with one number: it has the outcome, which comes later."""
    last = {(row["run"], row[key]): row for row in sorted(rows, key=lambda row: row["written"] or row["at"])}
    return sorted(last.values(), key=lambda row: row["at"])
