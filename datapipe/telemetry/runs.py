"""List the runs of an app, and summarise a run, from telemetry. Needs no Spark."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from datapipe.telemetry.past import COLUMNS
from datapipe.telemetry.schema import NUMBERED, SEPARATOR
from datapipe.telemetry.store import closed_files, columns_of

FILES = 120
"""Maximum number of files of a kind that are read per run; of more, every n-th."""
RUNS = 50
"""Maximum number of runs listed, the latest ones."""
ITEM_COLUMNS = ("arrived", "delivered", "outcome", "stages")
PERIOD_S = 10.0
"""Maximum time range of a file of snapshots."""


@dataclass(frozen=True, slots=True)
class KnownRun:
    """A run with its begin and end in seconds since 1970, by the closing times of its files (exact to ten seconds)."""

    run: str
    began_s: float
    ended_s: float


@dataclass(frozen=True, slots=True)
class ItemFigures:
    """The latency of the items that were read, in milliseconds; ``None`` if none was delivered."""

    delivered: int = 0
    failed: int = 0
    shed: int = 0
    all_of_them: bool = True
    """True if no file was left out."""
    mean_ms: float | None = None
    p50_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None
    cpu_ms_per_item: float | None = None
    """CPU time of the stages per item, in milliseconds."""


@dataclass(frozen=True, slots=True)
class RunRecords:
    """The records of a run: snapshots (rows of ``past.COLUMNS``), one per second, oldest first; item figures; and the
    numbers of decisions and switches."""

    snapshots: Sequence[dict[str, Any]]
    items: ItemFigures
    decisions: int
    switches: int


def runs_of(folder: Path, app: str, most: int = RUNS) -> list[KnownRun]:
    """Return the runs of an app, the latest first."""
    closed: dict[str, list[float]] = {}
    for closed_s, _, path in closed_files(folder, "snapshots", app):
        closed.setdefault(_run_of(path, app), []).append(closed_s)
    known = [KnownRun(run, min(times) - PERIOD_S, max(times)) for run, times in closed.items()]
    return sorted(known, key=lambda each: each.ended_s, reverse=True)[:most]


def records_of(folder: Path, app: str, run: str, most: int = FILES) -> RunRecords | None:
    """Return the records of a run; None if it has no snapshots."""
    found = {kind: _files(folder, kind, app, run) for kind in ("snapshots", "items", "decisions", "switches")}
    if not found["snapshots"]:
        return None
    snapshots = _read(found["snapshots"], most, COLUMNS)
    by_second = {int(row["at"].timestamp()): row for row in (snapshots.to_pylist() if snapshots is not None else ())}
    figures = _figures(_tables(found["items"], most, ITEM_COLUMNS), len(found["items"]) <= most)
    numbered = ((_read(found[kind], len(found[kind]), (key,)), key) for kind, key in NUMBERED.items())
    counts = (0 if table is None else len(pc.unique(table.column(key))) for table, key in numbered)
    return RunRecords([by_second[second] for second in sorted(by_second)], figures, *counts)


def _figures(files: Iterable[Any], all_of_them: bool) -> ItemFigures:
    """Return the figures of the items in ``files``, tables of which only one number per item is kept in memory."""
    fates: Counter[str] = Counter()
    cpu_ns, took_us = 0, pa.chunked_array([], pa.int64())
    for items in files:
        fates.update({each["values"]: each["counts"] for each in pc.value_counts(items.column("outcome")).to_pylist()})
        delivered = items.filter(pc.equal(items.column("outcome"), "delivered"))
        out_us, came_us = (delivered.column(name).cast(pa.int64()) for name in ("delivered", "arrived"))
        took_us = pa.chunked_array([*took_us.chunks, *pc.subtract(out_us, came_us).chunks], pa.int64())
        stages: Any = delivered.column("stages").combine_chunks().flatten()
        cpu_ns += pc.sum(stages.field("cpu_ns")).as_py() or 0
    counted = ItemFigures(fates["delivered"], fates["failed"], fates["shed"], all_of_them)
    if not counted.delivered:
        return counted
    p50, p95, p99 = (value / 1e3 for value in pc.quantile(took_us, [0.5, 0.95, 0.99]).to_pylist())
    known = {"mean_ms": pc.mean(took_us).as_py() / 1e3, "p50_ms": p50, "p95_ms": p95, "p99_ms": p99}
    return replace(counted, **known, cpu_ms_per_item=cpu_ns / 1e6 / counted.delivered)


def _run_of(path: str, app: str) -> str:
    return os.path.basename(path).removeprefix(app + SEPARATOR).rsplit("-", 1)[0]


def _files(folder: Path, kind: str, app: str, run: str) -> list[str]:
    """Return the files of a run in the order of writing; a file's name has the run's name before the last hyphen."""
    return sorted(path for *_, path in closed_files(folder, kind, app) if _run_of(path, app) == run)


def _read(paths: Sequence[str], most: int, columns: Sequence[str]) -> Any:
    """Return one table of the files; None if none can be read."""
    tables = [*_tables(paths, most, columns)]
    return pa.concat_tables(tables, promote_options="default") if tables else None


def _tables(paths: Sequence[str], most: int, columns: Sequence[str]) -> Iterator[Any]:
    """Yield the tables of every n-th file that can be read, at most ``most``."""
    step = -(-len(paths) // max(1, most)) or 1
    return (table for table in (columns_of(path, columns) for path in paths[::step]) if table is not None)
