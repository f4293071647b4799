"""Runs of an app from telemetry, to be laid beside each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from profiler.slo import SloStatus
from service.bodies import runs as bodies
from service.bodies.base import read_time, rounded, time_text
from service.bodies.figures import Latency
from service.bodies.refusals import NotFoundError
from service.bodies.spec import TelemetrySpec
from service.bodies.status import Sample
from service.daemon.past import sample_of

if TYPE_CHECKING:
    from datapipe.telemetry.runs import ItemFigures, RunRecords

JUDGED = (SloStatus.MET, SloStatus.VIOLATED, SloStatus.INFEASIBLE)
LATEST = 2
"""That are compared where none is named."""


def known_runs(telemetry: TelemetrySpec | None, app: str) -> list[bodies.KnownRun]:
    """The latest first; none where no telemetry is written."""
    if telemetry is None:
        return []
    from datapipe.telemetry.runs import runs_of  # imported here: a daemon without telemetry needs no Arrow

    found = runs_of(Path(telemetry.folder), app)
    return [
        bodies.KnownRun(run=each.run, began_at=time_text(each.began_s), ended_at=time_text(each.ended_s))
        for each in found
    ]


def compared(telemetry: TelemetrySpec | None, app: str, asked: Sequence[str]) -> list[bodies.RunFigures]:
    """``asked``, in that order; where none is named the two latest, the earlier one first. Raises: NotFoundError for a
    run that is not written down."""
    if telemetry is None and not asked:
        return []
    names = asked or [each.run for each in known_runs(telemetry, app)[:LATEST]][::-1]
    return [_figures(run, _records(telemetry, app, run)) for run in names]


def _records(telemetry: TelemetrySpec | None, app: str, run: str) -> RunRecords:
    records = None
    if telemetry is not None:
        from datapipe.telemetry.runs import records_of

        records = records_of(Path(telemetry.folder), app, run)
    if records is None or not records.snapshots:
        raise NotFoundError(f"run {run!r} of {app} is not in the telemetry; GET /runs/{app} lists those that are")
    return records


def _figures(run: str, records: RunRecords) -> bodies.RunFigures:
    course = [sample_of(row) for row in records.snapshots]
    length_s = (read_time(course[-1].at) - read_time(course[0].at)).total_seconds()
    workers = _mean(each.workers for each in course)
    return bodies.RunFigures(
        run=run,
        began_at=course[0].at,
        ended_at=course[-1].at,
        length_s=round(length_s, 3),
        slo=next((each.slo for each in reversed(course) if each.slo), None),
        slo_met_share=_met(course),
        offered_per_s=_mean(each.offered_per_s for each in course),
        delivered_per_s=_mean(each.throughput_per_s for each in course),
        latency_ms=_latency(records.items),
        items=_counts(records.items),
        workers=workers,
        worker_s=None if workers is None else rounded(workers * length_s),
        cpu_ms_per_item=rounded(records.items.cpu_ms_per_item),
        decisions=records.decisions,
        switches=records.switches,
        compositions=_shares(course),
        course=course,
    )


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return rounded(fmean(known)) if known else None


def _met(course: Sequence[Sample]) -> float | None:
    verdicts = [each.slo_status for each in course if each.slo_status in JUDGED]
    return rounded(verdicts.count(SloStatus.MET) / len(verdicts)) if verdicts else None


def _latency(items: ItemFigures) -> Latency:
    values = {"mean": items.mean_ms, "p50": items.p50_ms, "p95": items.p95_ms, "p99": items.p99_ms}
    return Latency(**{name: rounded(value) for name, value in values.items()})


def _counts(items: ItemFigures) -> bodies.ItemCounts:
    return bodies.ItemCounts(
        delivered=items.delivered, failed=items.failed, shed=items.shed, all_of_them=items.all_of_them
    )


def _shares(course: Sequence[Sample]) -> list[bodies.CompositionShare]:
    used = Counter(each.composition for each in course if each.composition)
    total = sum(used.values())
    return [bodies.CompositionShare(name=name, share=round(count / total, 4)) for name, count in used.most_common()]
