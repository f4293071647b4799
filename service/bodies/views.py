"""JSON bodies that the control plane builds itself: apps without a runner, the list of apps, SLOs, history."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from apps.contract import App
from compositions.model import Composition
from control.decisions import State as AppState
from profiler.slo import Slo, SloStatus
from service.bodies.spec import RunSpec
from service.daemon.store import StoredSlo, utc_now


def composition_view(composition: Composition, notation: str) -> dict[str, Any]:
    groups = [
        {"stages": list(group.stages), "pattern": str(group.pattern), "replicas": group.replicas}
        for group in composition.groups
    ]
    return {"name": composition.name, "notation": notation, "workers": composition.workers, "groups": groups}


def choice_view(composition: Composition, notation: str) -> dict[str, Any]:
    """A composition of an app without a profile: nothing can be predicted."""
    unknown = {"predicted_throughput_per_s": None, "predicted_latency_ms": None}
    return {**composition_view(composition, notation), "active": False, **unknown}


def slo_view(slo: Slo, input_rate_per_s: float | None) -> dict[str, Any]:
    body = {"metric": slo.metric, "target": slo.target, "threshold": slo.threshold}
    statistic = {"statistic": slo.statistic if slo.metric == "latency" else None}
    return {**body, **statistic, "bound": slo.bound(input_rate_per_s)}


def stored_slo_view(stored: StoredSlo, input_rate_per_s: float | None) -> dict[str, Any]:
    head = {"id": stored.id, "app": stored.app}
    return {**head, **slo_view(stored.slo, input_rate_per_s), "accepted_at": stored.accepted_at}


def app_view(app: type[App], compositions: Sequence[Composition], state: str) -> dict[str, Any]:
    return {
        "name": app.name,
        "description": app.description,
        "stages": [{"name": stage.name, "kind": str(stage.kind)} for stage in app.stages],
        "compositions": [composition.name for composition in compositions],
        "options": app.options_model.model_json_schema(),
        "running": state not in (AppState.STOPPED, AppState.FAILED),
        "state": state,
    }


def resting_status(app: type[App], state: AppState, spec: RunSpec, last_decision: Any) -> dict[str, Any]:
    """``GET /status`` of an app whose runner is not up: what is known without it, everything else null."""
    stages = [
        {"name": stage.name, "kind": str(stage.kind), "samples": 0, "bottleneck": False}
        | dict.fromkeys(("service_time_ms", "cpu_time_ms", "cv"))
        for stage in app.stages
    ]
    drain = dict.fromkeys(("estimate_ms", "srtt_ms", "rttvar_ms", "last_actual_ms", "last_error_ratio"))
    return {
        "app": app.name,
        "state": str(state),
        "mode": str(spec.mode),
        "composition": None,
        "slo": slo_view(spec.slo, None) if spec.slo else None,
        "slo_status": str(SloStatus.UNKNOWN if spec.slo else SloStatus.NONE),
        "input_rate_per_s": None,
        "throughput_per_s": None,
        "latency_ms": dict.fromkeys(("mean", "p50", "p95", "p99")),
        "stages": stages,
        "queued": 0,
        "in_flight": 0,
        "items": dict.fromkeys(("accepted", "delivered", "failed", "shed"), 0),
        "drain": {**drain, "count": 0},
        "workers": [],
        "switches": 0,
        "last_decision": last_decision,
        "updated_at": utc_now(),
    }


def history_view(decisions: Sequence[Any], changes: Sequence[Any], limit: int) -> list[dict[str, Any]]:
    """Decisions and runs of "no change" in one list, newest first. A run has the fields of a decision, null."""
    entries = [{**each, "kind": "decision"} for each in decisions]
    entries += [_no_change_view(each) for each in changes]
    return sorted(entries, key=lambda entry: (datetime.fromisoformat(entry["at"]), entry["id"] or 0), reverse=True)[
        :limit
    ]


def _no_change_view(run: dict[str, Any]) -> dict[str, Any]:
    unknown = dict.fromkeys(("id", "trigger", "from", "to", "duration_s", "gap_ms"))
    drain = dict.fromkeys(("drain_estimate_ms", "drain_actual_ms"))
    known = {"at": run["last_at"], "candidates": [], "trials": 0, "kind": "no_change"}
    return {**unknown, **drain, **run, **known}
