"""Data of a report: telemetry of one app between two instants, as columns of numpy."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from compositions.errors import RecomposeError
from datapipe.telemetry.schema import INSTANT_OF, SCHEMAS, SEPARATOR
from datapipe.telemetry.store import files_of

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Period:
    """From ``since`` on and before ``until``; None: open."""

    since: datetime | None = None
    until: datetime | None = None


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

    def seconds(self, table: Any, column: str) -> Floats:
        began_us = round(self.began.timestamp() * 1e6)
        micros = table.column(column).cast(pa.int64()).to_numpy()
        return np.asarray((micros - began_us) / 1e6)


def load(directory: Path, app: str, period: Period) -> RunData:
    """Raises: TelemetryError for a folder that cannot be read; RecomposeError for an app or period without records."""
    snapshots = _read(directory, "snapshots", app, period)
    if not snapshots.num_rows:
        raise RecomposeError(f"no telemetry of {app!r} in that period in {str(directory)!r}; {_known(directory)}")
    began = snapshots.column("at")[0].as_py()
    rows = {kind: _latest(_read(directory, kind, app, period).to_pylist(), key) for kind, key in NUMBERED.items()}
    for kind in rows:
        for row in rows[kind]:
            row["at_s"] = (row["at"] - began).total_seconds()
    decisions = [json.loads(row["body"]) | {"at_s": row["at_s"]} for row in rows["decisions"]]
    return RunData(app, began, _read(directory, "items", app, period), snapshots, decisions, rows["switches"])


NUMBERED = {"decisions": "id", "switches": "number"}


def _read(directory: Path, kind: str, app: str, period: Period) -> Any:
    """One kind of records in order of time; an empty table where there are none."""
    paths = files_of(directory, kind, f"{app}{SEPARATOR}")
    tables = [pq.read_table(path, schema=SCHEMAS[kind], partitioning=None) for path in paths]
    table = pa.concat_tables([SCHEMAS[kind].empty_table(), *tables])
    instant = table.column(INSTANT_OF[kind])
    for bound, within in ((period.since, pc.greater_equal), (period.until, pc.less)):
        if bound is not None:
            table = table.filter(within(instant, pa.scalar(_utc(bound), instant.type)))
            instant = table.column(INSTANT_OF[kind])
    return table.sort_by(INSTANT_OF[kind])


def _utc(bound: datetime) -> datetime:
    try:
        return bound.astimezone(UTC)
    except (ValueError, OverflowError):
        raise RecomposeError(
            f"{bound.isoformat()} is not in the years 1 to 9999 of UTC; give another instant"
        ) from None


def _latest(rows: list[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    """Return the last of the records with one number: it has the outcome, which comes later."""
    last = {(row["run"], row[key]): row for row in rows}
    return sorted(last.values(), key=lambda row: row["at"])


def _known(directory: Path) -> str:
    names = {path.name.split(SEPARATOR)[0] for path in (directory / "snapshots").glob(f"*{SEPARATOR}*")}
    return f"there is some of {', '.join(sorted(names))}" if names else "there is none at all"
