"""The body of ``GET /status/{app}`` and its decisions, from what the loop of a running app knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compositions.capacity.predict import Prediction
from compositions.document.notation import format_notation
from compositions.model import Composition
from control.decisions import Candidate, Decision
from control.journal import NoChangeRun, SwitchRecord
from control.output_gaps import OutputGaps
from profiler.drain import DrainStatus
from profiler.service_time import bottlenecks
from profiler.snapshot import LatencyStats, Snapshot
from runtime.dispatch.events import DispatcherView, WorkerView
from service.bodies.views import composition_view

Clock = Callable[[float], str]
"""Seconds of the loop's clock to RFC 3339 UTC."""


def ms(seconds: float | None) -> float | None:
    """Milliseconds, three decimals; None stays None."""
    return None if seconds is None else round(seconds * 1e3, 3)


def rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def measured(snapshot: Snapshot | None) -> dict[str, Any]:
    """Rates and latency; null where nothing was measured."""
    latency = snapshot.latency if snapshot else None
    return {
        "input_rate_per_s": rounded(snapshot.input_rate_per_s) if snapshot else None,
        "throughput_per_s": rounded(snapshot.throughput_per_s) if snapshot else None,
        "latency_ms": latency_view(latency),
    }


def latency_view(latency: LatencyStats | None) -> dict[str, Any]:
    return {name: ms(latency.statistic(name)) if latency else None for name in ("mean", "p50", "p95", "p99")}


def stages_view(rows: list[dict[str, Any]], snapshot: Snapshot | None) -> list[dict[str, Any]]:
    """``rows``: name and kind of every stage with nulls; filled in where there is a profile."""
    tagged = bottlenecks(snapshot.stages) if snapshot else ()
    return [{**row, **_profile(row["name"], snapshot), "bottleneck": row["name"] in tagged} for row in rows]


def _profile(stage: str, snapshot: Snapshot | None) -> dict[str, Any]:
    profile = snapshot.stage(stage) if snapshot else None
    if profile is None:
        return {}
    return {
        "service_time_ms": ms(profile.service_time_s),
        "cpu_time_ms": ms(profile.cpu_time_s),
        "cv": rounded(profile.cv),
        "p50_ms": ms(profile.p50_s),
        "p95_ms": ms(profile.p95_s),
        "samples": profile.samples,
    }


def output_gaps_view(gaps: OutputGaps) -> dict[str, Any]:
    """Gaps between outputs outside of switches."""
    return {"p50": ms(gaps.steady_s(50)), "p99": ms(gaps.steady_s(99)), "max": ms(gaps.steady_s(100))}


def drain_view(drain: DrainStatus) -> dict[str, Any]:
    return {
        "estimate_ms": ms(drain.estimate_s),
        "srtt_ms": ms(drain.srtt_s),
        "rttvar_ms": ms(drain.rttvar_s),
        "last_actual_ms": ms(drain.last_actual_s),
        "last_error_ratio": rounded(drain.last_error_ratio),
        "count": drain.count,
    }


def counts_view(view: DispatcherView | None) -> dict[str, Any]:
    """Queue, items and workers."""
    if view is None:
        return {}
    items = {"accepted": view.accepted, "delivered": view.delivered, "failed": view.failed, "shed": view.shed}
    workers = [worker_view(worker) for worker in view.workers]
    return {
        "queued": view.queued,
        "in_flight": view.in_flight,
        "in_flight_by_stage": dict(view.positions),
        "items": items,
        "workers": workers,
        "restarts": view.restarts,
    }


def worker_view(worker: WorkerView) -> dict[str, Any]:
    return {
        "id": worker.worker,
        "pid": worker.pid,
        "node": worker.node,
        "group": worker.group,
        "outstanding": worker.outstanding,
        "restarts": worker.restarts,
    }


def decision_view(decision: Decision, at: Clock) -> dict[str, Any]:
    return {
        "id": decision.id,
        "at": at(decision.at_s),
        "trigger": str(decision.trigger),
        "from": decision.from_name,
        "to": decision.to_name,
        "reason": decision.reason,
        "candidates": [candidate_view(candidate) for candidate in decision.candidates],
        "trials": decision.trials,
        "duration_s": round(decision.duration_s, 3),
        "infeasible": decision.infeasible,
        "acted": decision.acted,
        "gap_ms": ms(decision.gap_s),
        "drain_estimate_ms": ms(decision.drain_estimate_s),
        "drain_actual_ms": ms(decision.drain_actual_s),
        "outcome": decision.outcome,
    }


def candidate_view(candidate: Candidate) -> dict[str, Any]:
    return {
        "name": candidate.name,
        "workers": candidate.workers,
        "status": str(candidate.status),
        "reason": candidate.reason,
        "predicted_throughput_per_s": rounded(candidate.predicted_throughput_per_s),
        "predicted_latency_ms": ms(candidate.predicted_latency_s),
        "measured_throughput_per_s": rounded(candidate.measured_throughput_per_s),
        "measured_latency_ms": ms(candidate.measured_latency_s),
    }


def no_change_view(run: NoChangeRun, at: Clock) -> dict[str, Any]:
    return {"reason": run.reason, "first_at": at(run.first_at_s), "last_at": at(run.last_at_s), "count": run.count}


def choice_view(composition: Composition, prediction: Prediction | None, active: bool) -> dict[str, Any]:
    """A composition that can be chosen, with what the profile says of it."""
    return {
        **composition_view(composition, format_notation(composition)),
        "active": active,
        "predicted_throughput_per_s": rounded(prediction.throughput_per_s) if prediction else None,
        "predicted_latency_ms": ms(prediction.latency_s) if prediction else None,
    }


def switch_view(record: SwitchRecord, at: Clock) -> dict[str, Any]:
    ended = record.ended
    if ended is None:
        return {}
    return {
        "at": at(ended.at_s),
        "from": ended.from_name,
        "to": ended.to_name,
        "style": str(ended.style),
        "gap_ms": ms(record.gap_s),
        "longest_gap_ms": ms(record.longest_gap_s),
        "drain_mean_ms": ms(record.drain_mean_s),
        "drain_estimate_ms": ms(record.drain_estimate_s),
        "drain_actual_ms": ms(ended.drain_actual_s),
        "overdue": ended.overdue,
        "migrated": ended.migrated,
        "error": ended.error,
    }
