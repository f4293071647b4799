"""Read the past from telemetry: samples, traces of single items, and figures of runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from time import time
from typing import TYPE_CHECKING, Any

from profiler.slo import SloStatus
from service.schemas import runs as bodies
from service.schemas.base import read_time, rounded, time_text
from service.schemas.figures import Latency
from service.schemas.refusals import NotFoundError, UnavailableError
from service.schemas.runs import Trace
from service.schemas.slo import SloInForce
from service.schemas.spec import TelemetrySpec
from service.schemas.status import Sample

if TYPE_CHECKING:
    from datapipe.telemetry.runs import ItemFigures, RunRecords


Recent = Callable[[str, float], list[Sample]]
"""Function that returns the samples of an app's last seconds that its runner remembers."""


def between(recent: Recent, telemetry: TelemetrySpec | None, app: str, from_s: float, to_s: float) -> list[Sample]:
    """Return the present runner's samples, and telemetry before them, oldest first. Raises: NotFoundError."""
    try:
        known = recent(app, max(1.0, time() - from_s))
    except UnavailableError:  # written data can be read without the runner
        known = []
    seen = [each for each in known if from_s <= read_time(each.at).timestamp() <= to_s]
    until_s = read_time(seen[0].at).timestamp() - 1.0 if seen else to_s
    if telemetry is None or from_s > until_s:
        return seen
    from datapipe.telemetry.past import snapshots_between  # imported here: without telemetry, the daemon needs no Arrow

    return [*map(sample_of, snapshots_between(Path(telemetry.folder), app, from_s, until_s)), *seen]


def slowest_traces(telemetry: TelemetrySpec | None, app: str, last_s: float, most: int) -> list[Trace]:
    """Return the traces of the slowest items of the last seconds; none if no telemetry is written."""
    if telemetry is None:
        return []
    from datapipe.telemetry import traces  # imported here: a daemon without telemetry does not need Arrow

    return [Trace.of(row) for row in traces.slowest(Path(telemetry.folder), app, time() - last_s, most)]


def trace_of(telemetry: TelemetrySpec | None, app: str, serial: int, run: str | None) -> list[Trace]:
    """Return the trace of an item, of ``run`` or the latest that has it. Raises: NotFoundError."""
    if telemetry is None:
        return []
    from datapipe.telemetry import traces

    found = traces.one(Path(telemetry.folder), app, serial, run)
    if found is None:
        late = "an item appears there ten seconds after its delivery"
        raise NotFoundError(f"item {serial} of {app} is not in the telemetry; {late}")
    return [Trace.of(found)]


def sample_of(row: Mapping[str, Any]) -> Sample:
    """Return the sample of a ``row`` of ``datapipe.telemetry.past``."""
    return Sample(
        at=time_text(row["at"].timestamp()),
        composition=row["composition"],
        slo_status=SloStatus(row["slo_status"]),
        slo=_slo(row),
        input_rate_per_s=rounded(row["input_rate_per_s"]),
        throughput_per_s=rounded(row["throughput_per_s"]),
        latency_ms=Latency(**{name: rounded(row.get(f"latency_{name}_ms")) for name in Latency.model_fields}),
        service_time_ms={stage["stage"]: rounded(stage["service_ms"]) for stage in row["stages"] or ()},
        offered_per_s=rounded(row.get("offered_per_s")),
        queued=row["queued"],
        workers=row["workers"],
    )


def _slo(row: Mapping[str, Any]) -> SloInForce | None:
    """Return the objective as far as a snapshot has it; the threshold follows from target and bound."""
    target, bound = row["slo_target"], row["slo_bound"]
    if row["slo_metric"] is None or target is None:
        return None
    threshold = abs(bound / target - 1) if bound is not None and target else 0.0
    return SloInForce(metric=row["slo_metric"], target=target, threshold=round(threshold, 4), bound=bound)


JUDGED = (SloStatus.MET, SloStatus.VIOLATED, SloStatus.INFEASIBLE)
LATEST = 2
"""Number of runs that are compared if none is named."""


def known_runs(telemetry: TelemetrySpec | None, app: str) -> list[bodies.KnownRun]:
    """Return the runs, latest first; none if no telemetry is written."""
    if telemetry is None:
        return []
    from datapipe.telemetry.runs import runs_of  # imported here: a daemon without telemetry does not need Arrow

    known = ((each, time_text(each.began_s), time_text(each.ended_s)) for each in runs_of(Path(telemetry.folder), app))
    return [bodies.KnownRun(run=each.run, began_at=began, ended_at=ended) for each, began, ended in known]


def compared(telemetry: TelemetrySpec | None, app: str, asked: Sequence[str]) -> list[bodies.RunFigures]:
    """Return the ``asked`` runs, or the two latest, earlier first. Raises: NotFoundError for an unknown run."""
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
        known = f"GET /runs/{app} (recompose runs {app}) lists those that are"
        raise NotFoundError(f"run {run!r} of {app} is not in the telemetry; {known}")
    return records


def _figures(run: str, records: RunRecords) -> bodies.RunFigures:
    course = [sample_of(row) for row in records.snapshots]
    length_s = (read_time(course[-1].at) - read_time(course[0].at)).total_seconds()
    workers = _mean(each.workers for each in course)
    return bodies.RunFigures.taken_from(
        *(records, records.items),
        run=run,
        began_at=course[0].at,
        ended_at=course[-1].at,
        length_s=round(length_s, 3),
        slo=next((each.slo for each in reversed(course) if each.slo), None),
        slo_met_share=_met(course),
        offered_per_s=_mean(each.offered_per_s for each in course),
        delivered_per_s=_mean(each.throughput_per_s for each in course),
        latency_ms=_latency(records.items),
        items=bodies.ItemCounts.model_validate(records.items),
        workers=workers,
        worker_s=None if workers is None else rounded(workers * length_s),
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


def _shares(course: Sequence[Sample]) -> list[bodies.CompositionShare]:
    used = Counter(each.composition for each in course if each.composition)
    total = sum(used.values())
    return [bodies.CompositionShare(name=name, share=round(count / total, 4)) for name, count in used.most_common()]
