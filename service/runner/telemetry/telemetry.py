"""Write telemetry of a running app. The writer's thread makes the columns, so that the loop's thread does little."""

import json
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from time import time
from typing import Any

import numpy as np
import pyarrow as pa

from control.decisions import Decision
from control.journal import SwitchRecord
from control.manager import TickResult
from datapipe.telemetry.schema import INSTANT, SCHEMAS, SNAPSHOT_STAGE, STAGE
from datapipe.telemetry.writer import Keep, Origin, TelemetryWriter, WriterSettings
from profiler.service_time import bottlenecks
from profiler.snapshot import Snapshot, StageTiming
from runtime.dispatch.outcomes import Delivered, Outcome, Shed, TaskTimed
from service.runner.loop import ControlLoop
from service.runner.telemetry.accounts import Accounts, WallClock, version_of_composition
from service.schemas import decisions as bodies
from service.schemas.base import ms, plain
from service.schemas.figures import Latency
from service.schemas.spec import TelemetrySpec
from service.schemas.status import TelemetryStatus

Shares = tuple[Any, ...]
"""Times of one item: for each stage its name, wall and CPU time in seconds, all in one tuple."""


class Timings:
    """Times of items by the first serial number of a series of items that were timed together, with its length. Usually
    a bundle is timed and leaves as a whole. If a bundle was split, its series is split too."""

    def __init__(self) -> None:
        self._runs: dict[int, tuple[int, list[Any]]] = {}
        self._firsts: list[int] = []
        """First serial numbers of the series, ascending."""

    def add(self, serial: int, count: int, timings: Sequence[StageTiming]) -> None:
        """Add the times of a task over ``count`` items from ``serial`` on."""
        shares: list[Any] = []
        for timing in timings:
            shares += (timing.stage, timing.wall_s / count, timing.cpu_s / count)
        known = self._runs.get(serial)
        if known is not None and known[0] == count:
            known[1].extend(shares)
        elif self._unknown(serial, count):
            self._put(serial, count, shares)
        else:
            for first, items in list(self._parts(serial, count)):
                if first in self._runs:
                    self._runs[first][1].extend(shares)
                else:
                    self._put(first, items, list(shares))

    def pop(self, serial: int, count: int) -> list[tuple[int, Shares]]:
        """Remove ``count`` items from ``serial`` on; return, in order, counts of items with equal times, and these."""
        known = self._runs.get(serial)
        if known is not None and known[0] == count:
            return [(count, self._take(serial))]
        if self._unknown(serial, count):
            return [(count, ())]
        return [(items, self._take(first)) for first, items in list(self._parts(serial, count))]

    def _put(self, first: int, items: int, shares: list[Any]) -> None:
        self._runs[first] = (items, shares)
        insort(self._firsts, first)

    def _take(self, first: int) -> Shares:
        if first not in self._runs:
            return ()
        del self._firsts[bisect_left(self._firsts, first)]
        return tuple(self._runs.pop(first)[1])

    def _unknown(self, serial: int, count: int) -> bool:
        """Return whether none of these items was timed."""
        place = bisect_right(self._firsts, serial)
        before = self._firsts[place - 1] if place else None
        if before is not None and before + self._runs[before][0] > serial:
            return False
        return place == len(self._firsts) or self._firsts[place] >= serial + count

    def _parts(self, serial: int, count: int) -> Iterator[tuple[int, int]]:
        """Yield first serial number and length of the series of these items, timed or not; longer series are cut."""
        end = serial + count
        self._cut(serial)
        self._cut(end)
        for first in self._firsts[bisect_left(self._firsts, serial) : bisect_left(self._firsts, end)]:
            if first > serial:
                yield serial, first - serial
            items = self._runs[first][0]
            yield first, items
            serial = first + items
        if serial < end:
            yield serial, end - serial

    def _cut(self, serial: int) -> None:
        place = bisect_left(self._firsts, serial)
        if not place:
            return
        first = self._firsts[place - 1]
        items, shares = self._runs[first]
        if first + items > serial:
            self._runs[first] = (serial - first, shares)
            self._put(serial, first + items - serial, list(shares))


LATE = 3
"""Number of known decisions and switches that are read again, as their outcome and gap follow later."""


class Telemetry:
    """The telemetry of the runner identified by ``origin``."""

    def __init__(self, spec: TelemetrySpec, origin: Origin, clock: WallClock) -> None:
        self._timings = Timings()
        self._target_us: int | None = None
        self._threshold: float | None = None
        self._known: dict[tuple[str, int], Record] = {}
        settings = WriterSettings(keep=Keep(spec.keep_days, spec.keep_mb))
        self._writer = TelemetryWriter(Path(spec.folder), origin, columns(clock.epoch_s), settings)
        self._rows = Rows(origin.run, clock)
        self.accounts = Accounts(self._writer.put, clock)
        self._forms: dict[str, str] = {}
        """Versions of compositions by name, as of their last activation."""

    # --- in the loop's thread ---------------------------------------------------------------------------------------

    def observe(self, outcome: Outcome) -> None:
        """Record one outcome of the dispatcher. This is the hot path."""
        if isinstance(outcome, TaskTimed):
            self._timings.add(outcome.serial, outcome.items, outcome.timings)
        elif isinstance(outcome, Delivered):
            fate = "delivered" if outcome.error is None else "failed"
            self._left(outcome, outcome.since_s, outcome.composition, fate)
        elif isinstance(outcome, Shed):
            self._left(outcome, outcome.arrived_s, "", "shed")

    def _left(self, out: Delivered | Shed, since_s: Sequence[float], composition: str, fate: str) -> None:
        # Plain values: the garbage collector need not visit them again while they wait.
        known = (self._target_us, self._threshold, self._forms.get(composition))
        begin = 0
        for count, timings in self._timings.pop(out.serial, out.count):
            end = begin + count
            times = (out.serial + begin, since_s[begin:end], out.arrived_s[begin:end], out.at_s)
            ended = out.count if end == out.count else 0
            self._writer.put("items", (*times, composition, fate, ended, *known, timings), count)
            begin = end

    def tick(self, loop: ControlLoop, snapshot: Snapshot, result: TickResult) -> None:
        """Record one turn of the manager."""
        objective = loop.manager.objective
        target_ms = None if objective is None else objective.item_target_ms
        self._target_us = None if target_ms is None else round(target_ms * 1e3)
        self._threshold = None if objective is None or target_ms is None else objective.slo.threshold
        active = loop.engine.view().composition
        self._forms[active.name] = version_of_composition(active)
        form = self._forms.get(snapshot.composition)
        self._writer.put("snapshots", self._rows.snapshot(loop, snapshot, result, form))
        self._news("decisions", [self._rows.decision(loop, each) for each in list(loop.journal.decisions)[-LATE:]])
        first = loop.journal.switch_total - len(loop.journal.switches) + 1
        numbered = list(enumerate(loop.journal.switches, first))[-LATE:]
        self._news("switches", [self._rows.switch(number, each) for number, each in numbered])

    def _news(self, kind: str, records: "Sequence[Record]") -> None:
        """Write entries that are new or have changed. The first field is the number of the entry."""
        for record in records:
            if self._known.get((kind, record[0])) != record:
                self._known[kind, record[0]] = record
                self._known.pop((kind, record[0] - LATE), None)
                self._writer.put(kind, (*record, round(time() * 1e6)))

    def status(self) -> TelemetryStatus:
        return TelemetryStatus.model_validate(self._writer)

    def close(self) -> None:
        self.accounts.close()
        self._writer.close()


Record = tuple[Any, ...]


class Rows:
    """Makes the rows of one ``run``; their values are in the order of ``fields_of``."""

    def __init__(self, run: str, clock: WallClock) -> None:
        self._run, self._at, self._micros = run, clock.text, clock.micros

    def snapshot(self, loop: ControlLoop, snapshot: Snapshot, result: TickResult, form: str | None = None) -> Record:
        """Return the row of a turn; ``form``: the version of its composition."""
        objective, demand = loop.manager.objective, snapshot.demand
        tagged = bottlenecks(snapshot.stages)
        stages = [(s.name, s.service_time_s * 1e3, s.cpu_time_s * 1e3, s.name in tagged) for s in snapshot.stages]
        rate = snapshot.input_rate_per_s
        told = Latency.of(snapshot.latency, objective.slo.share_asked if objective else None)
        return (
            self._micros(snapshot.now_s), snapshot.composition, str(result.state), snapshot.switching,
            snapshot.input_rate_per_s, demand.delivered_per_s if demand else snapshot.throughput_per_s,
            told.mean, told.p95,
            snapshot.queued, snapshot.in_flight, snapshot.workers_alive,
            objective and objective.slo.metric, objective and objective.target(rate),
            objective and objective.bound(rate), str(result.slo_status),
            ms(loop.handovers.drain.status().estimate_s), stages,
            demand and demand.offered_per_s, demand and demand.admitted_per_s, demand and demand.missed,
            demand and demand.lag_s, told.p50, told.p99, told.share, form,
        )  # fmt: skip

    def decision(self, loop: ControlLoop, decision: Decision) -> Record:
        told = bodies.Decision.of(loop.journal.with_switches(decision), self._at, self._run)
        body = json.dumps(plain(told), allow_nan=False)
        head = (decision.id, self._micros(decision.at_s), str(decision.trigger))
        return (*head, decision.from_name, decision.to_name, decision.reason, body)

    def switch(self, number: int, record: SwitchRecord) -> Record:
        ended = record.ended
        assert ended is not None, "the journal notes a switch when it has ended"
        told = bodies.Switch.of(record, self._at)
        figures = (told.gap_ms, told.drain_mean_ms, told.drain_estimate_ms, told.drain_actual_ms)
        return (number, self._micros(ended.at_s), told.from_, told.to, told.style, *figures, told.error)


Table = dict[str, Any]
"""A table: values by column name."""
Columns = Callable[[Sequence[Record]], Table]


def columns(epoch_s: float) -> dict[str, Columns]:
    """Return functions that convert records to columns, by kind. ``epoch_s``: wall clock at 0 of the items' clock."""
    return {
        "items": partial(_item_columns, epoch_s),
        "snapshots": _snapshot_columns,
        **{kind: _rows(kind) for kind in ("decisions", "switches", "runs", "costs")},
    }


def _item_columns(epoch_s: float, records: Sequence[Record]) -> Table:
    """Make columns of items that left. A record describes consecutive items: first serial number, times when each was
    due, read and delivered, composition and outcome, size of the bundle that the last item ends (0: it ends none), and
    further common fields."""
    first, due, read, delivered, *common, timings = zip(*records, strict=True)
    counts = np.array([len(times) for times in read])
    compositions, fates, sizes, targets, thresholds, forms = (_repeated(values, counts) for values in common)
    ends = np.arange(1, counts.sum() + 1) == np.repeat(np.cumsum(counts), counts)
    return {
        "serial": pa.array(np.repeat(np.array(first) - _starts(counts), counts) + np.arange(counts.sum())),
        "arrived": _instants(epoch_s, list(chain.from_iterable(due))),
        "read": _instants(epoch_s, list(chain.from_iterable(read))),
        "delivered": _instants(epoch_s, np.repeat(np.array(delivered), counts)),
        "composition": compositions.cast(pa.string()),
        "outcome": fates.cast(pa.string()),
        "batch": pa.array(np.where(ends, sizes, 0), pa.int32()),
        "target_us": targets.cast(pa.int64()),
        "threshold": thresholds.cast(pa.float64()),
        "composition_version": forms.cast(pa.string()),
        "stages": _stage_lists(timings, counts),
    }


def _instants(epoch_s: float, seconds: Any) -> Any:
    micros = np.rint((np.asarray(seconds) + epoch_s) * 1e6).astype(np.int64)
    return pa.array(micros, pa.int64()).cast(INSTANT)


def _starts(counts: Any) -> Any:
    """Return the position where each series begins among all its items."""
    return np.cumsum(counts) - counts


def _repeated(values: Sequence[Any], counts: Any) -> Any:
    return pa.array(values).take(pa.array(np.repeat(np.arange(len(values)), counts)))


def _stage_lists(timings: Sequence[Sequence[Any]], counts: Any) -> Any:
    """Make one list of stages per item out of flat columns; an object per item would cost more than everything else."""
    flat = list(chain.from_iterable(timings))
    stages = [pa.array(flat[0::3], pa.string()), _nanos(flat[1::3]), _nanos(flat[2::3])]
    of_runs = np.array([len(shares) // 3 for shares in timings])
    of_items = np.repeat(of_runs, counts)
    offsets = np.concatenate(([0], np.cumsum(of_items))).astype(np.int32)
    # For each entry: the index of its stage in its series, and the start of that series in the flat columns.
    entries = np.arange(offsets[-1]) + np.repeat(np.repeat(_starts(of_runs), counts) - offsets[:-1], of_items)
    values = pa.StructArray.from_arrays([column.take(pa.array(entries)) for column in stages], fields=list(STAGE))
    return pa.ListArray.from_arrays(pa.array(offsets), values)


def _nanos(seconds: Sequence[float]) -> Any:
    return pa.array(np.rint(np.asarray(seconds, np.float64) * 1e9).astype(np.int64))


def fields_of(kind: str) -> list[str]:
    """Return the names of a record's values: the columns of its kind, without those that the writer adds."""
    return [name for name in SCHEMAS[kind].names if name not in ("app", "run", "epoch", "app_version")]


def _rows(kind: str) -> Columns:
    def columns(records: Sequence[Record]) -> Table:
        return dict(zip(fields_of(kind), map(list, zip(*records, strict=True)), strict=True))

    return columns


def _snapshot_columns(records: Sequence[Record]) -> Table:
    columns = _rows("snapshots")(records)
    columns["stages"] = [[dict(zip(SNAPSHOT_STAGE.names, s, strict=True)) for s in row] for row in columns["stages"]]
    return columns
