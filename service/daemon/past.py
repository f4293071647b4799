"""Samples of longer ago than a runner keeps, from telemetry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import time
from typing import Any

from profiler.slo import SloStatus
from service.bodies.base import read_time, rounded, time_text
from service.bodies.refusals import NotFoundError, UnavailableError
from service.bodies.slo import SloInForce
from service.bodies.spec import TelemetrySpec
from service.bodies.status import Sample, SampledLatency
from service.bodies.traces import Trace


@dataclass(frozen=True, slots=True)
class AskedTraces:
    serial: int | None
    run: str | None
    """Of the serial number; None: the latest that has it."""
    slowest: int
    last_s: float


class Past:
    """Of every app, across runs and daemons."""

    def __init__(self, recent: Callable[[str, float], list[Sample]], telemetry: TelemetrySpec | None) -> None:
        """``recent``: samples of the last seconds that a runner remembers; ``telemetry``: that of all runs."""
        self._recent, self._telemetry = recent, telemetry

    def between(self, name: str, from_s: float, to_s: float) -> list[Sample]:
        """Oldest first, seconds since 1970: what the present runner remembers, and before that telemetry, thinned out
        where the range is long. Raises: NotFoundError for an app that is not registered."""
        try:
            recent = self._recent(name, max(1.0, time() - from_s))
        except UnavailableError:  # what is written can be told without the runner
            recent = []
        seen = [each for each in recent if from_s <= read_time(each.at).timestamp() <= to_s]
        until_s = read_time(seen[0].at).timestamp() - 1.0 if seen else to_s
        return samples_between(self._telemetry, name, from_s, until_s) + seen


def traces(telemetry: TelemetrySpec | None, app: str, asked: AskedTraces) -> list[Trace]:
    """One item, or the slowest first; none where no telemetry is written. Raises: NotFoundError for an item that is
    not written down."""
    if telemetry is None:
        return []
    from datapipe.telemetry import traces as written  # imported here: a daemon without telemetry needs no Arrow

    folder = Path(telemetry.folder)
    if asked.serial is None:
        return [Trace.of(row) for row in written.slowest(folder, app, time() - asked.last_s, asked.slowest)]
    found = written.one(folder, app, asked.serial, asked.run)
    if found is None:
        raise NotFoundError(
            f"item {asked.serial} of {app} is not in the telemetry; it comes there ten seconds after it left"
        )
    return [Trace.of(found)]


def samples_between(telemetry: TelemetrySpec | None, app: str, from_s: float, to_s: float) -> list[Sample]:
    """Oldest first, seconds since 1970; none where no telemetry is written."""
    if telemetry is None or from_s > to_s:
        return []
    from datapipe.telemetry.past import snapshots_between  # imported here: a daemon without telemetry needs no Arrow

    return [sample_of(row) for row in snapshots_between(Path(telemetry.folder), app, from_s, to_s)]


def sample_of(row: Mapping[str, Any]) -> Sample:
    """``row``: of ``datapipe.telemetry.past``."""
    return Sample(
        at=time_text(row["at"].timestamp()),
        composition=row["composition"],
        slo_status=SloStatus(row["slo_status"]),
        slo=_slo(row),
        input_rate_per_s=rounded(row["input_rate_per_s"]),
        throughput_per_s=rounded(row["throughput_per_s"]),
        latency_ms=SampledLatency(
            **{name: rounded(row.get(f"latency_{name}_ms")) for name in SampledLatency.model_fields}
        ),
        service_time_ms={stage["stage"]: rounded(stage["service_ms"]) for stage in row["stages"] or ()},
        offered_per_s=rounded(row.get("offered_per_s")),
        queued=row["queued"],
        workers=row["workers"],
    )


def _slo(row: Mapping[str, Any]) -> SloInForce | None:
    """As far as a snapshot tells it; the threshold is what lies between target and bound."""
    target, bound = row["slo_target"], row["slo_bound"]
    if row["slo_metric"] is None or target is None:
        return None
    threshold = abs(bound / target - 1) if bound is not None and target else 0.0
    return SloInForce(metric=row["slo_metric"], target=target, threshold=round(threshold, 4), bound=bound)
