"""Samples of longer ago than a runner keeps, from telemetry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from profiler.slo import SloStatus
from service.bodies.base import rounded, time_text
from service.bodies.slo import SloInForce
from service.bodies.spec import TelemetrySpec
from service.bodies.status import Sample, SampledLatency


def samples_between(telemetry: TelemetrySpec | None, app: str, from_s: float, to_s: float) -> list[Sample]:
    """Oldest first, seconds since 1970; none where no telemetry is written."""
    if telemetry is None or from_s > to_s:
        return []
    from datapipe.telemetry.past import snapshots_between  # imported here: a daemon without telemetry needs no Arrow

    return [_sample(row) for row in snapshots_between(Path(telemetry.folder), app, from_s, to_s)]


def _sample(row: dict[str, Any]) -> Sample:
    return Sample(
        at=time_text(row["at"].timestamp()),
        composition=row["composition"],
        slo_status=SloStatus(row["slo_status"]),
        slo=_slo(row),
        input_rate_per_s=rounded(row["input_rate_per_s"]),
        throughput_per_s=rounded(row["throughput_per_s"]),
        latency_ms=SampledLatency(mean=rounded(row["latency_mean_ms"]), p95=rounded(row["latency_p95_ms"])),
        service_time_ms={stage["stage"]: rounded(stage["service_ms"]) for stage in row["stages"] or ()},
        offered_per_s=rounded(row.get("offered_per_s")),
        queued=row["queued"],
        workers=row["workers"],
    )


def _slo(row: dict[str, Any]) -> SloInForce | None:
    """As far as a snapshot tells it; the threshold is what lies between target and bound."""
    target, bound = row["slo_target"], row["slo_bound"]
    if row["slo_metric"] is None or target is None:
        return None
    threshold = abs(bound / target - 1) if bound is not None and target else 0.0
    return SloInForce(metric=row["slo_metric"], target=target, threshold=round(threshold, 4), bound=bound)
