"""Daemons whose runners play a scene: the status of Ferret in any state, without computing anything. An item that is
pushed into an app is merged into its status until the next one."""

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from time import time
from typing import Any

from apps import registry
from control.decisions import Trigger
from control.objectives import objective_of
from profiler.slo import Slo
from runtime.placement.cluster import Amounts, Cluster, CpuReport, Gpu, Node, NodeReport
from service.daemon.daemon import Daemon
from service.daemon.store.store import DaemonStore
from service.daemon.supervision.runner_slot import LocalHost
from service.daemon.supervision.ticker import Ticker
from service.runner.rpc.requests import ReadWhatIf
from service.schemas.base import plain, time_text
from service.schemas.compositions import ActiveComposition, WhatIf
from service.schemas.decisions import Decision
from service.schemas.slo import SloInForce
from service.schemas.spec import RunSpec, TelemetrySpec
from service.schemas.status import Sample, Status
from tests.support.fakes import FakeRunner, PromptTicker

COSTS_MS = {"segment": 11.2, "extract": 24.5, "vectorize": 31.0, "rank": 96.4, "f1": 8.0, "f2": 8.0, "f3": 8.0}
FAST_STEP_S = 1.0


class Scene(FakeRunner):
    """Two minutes of composition 1 with a growing latency, then whatever was chosen."""

    def __init__(self, spec: RunSpec, *, fast: bool) -> None:
        super().__init__(spec)
        self.fast = fast
        self.told: dict[str, Any] = {}
        self.asked = 1200
        self.began_s = self.now_s = time()
        self.moved_s = self.began_s - 120.0

    def push(self, value: Any) -> int:
        if isinstance(value, dict):
            self.moved_s -= value.pop("moved_ago_s", 0.0)
            self.told = value
            return 0
        return super().push(value)

    def set_slo(self, slo: Slo | None) -> None:
        super().set_slo(slo)
        if slo is not None and slo.metric == "latency" and self.active.name == "1":
            self._adapt(slo)

    def _adapt(self, slo: Slo) -> None:
        target = next((each for name in ("13", "7") for each in self._choices() if each.name == name), self.active)
        before, self.active, self.moved_s = self.active.name, target, self.now_s
        self._decide(Trigger.VIOLATION, target.name)
        bound = objective_of(slo).bound(None)
        why = f"{target.name} is expected to meet the SLO (predicted mean latency 190 ms ± 12 %)"
        told = {
            "from": before, "reason": f"mean latency 2100 ms is above {bound:.0f} ms; {why}", "trials": 1,
            "candidates": [self._candidate(each, target.name) for each in self._choices()],
            "gap_ms": 41.0, "drain_estimate_ms": 310.0, "drain_actual_ms": 255.0, "duration_s": 5.8,
            "outcome": "predicted 190 ms, measured 181 ms", "infeasible": False, "acted": True,
        }  # fmt: skip
        self.decided[-1] = Decision.model_validate({**plain(self.decided[-1]), **told})

    def _candidate(self, each: Any, chosen: str) -> dict[str, Any]:
        rate, latency_ms = _predicted(each)
        measured_rate, measured_ms = (9.9, 181.0) if each.name == chosen else (None, None)
        return {
            "name": each.name, "workers": each.workers, "reason": f"predicted {rate:.3g} items/s",
            "predicted_throughput_per_s": rate, "predicted_latency_ms": latency_ms,
            "measured_throughput_per_s": measured_rate, "measured_latency_ms": measured_ms,
            "status": "chosen" if each.name == chosen else "rejected",
        }  # fmt: skip

    def status(self) -> Status:
        self.now_s = self.now_s + FAST_STEP_S if self.fast else time()
        self.asked += 1
        return Status.model_validate({**plain(super().status()), **self._figures(self.now_s), **self._told})

    @property
    def _told(self) -> dict[str, Any]:
        names = {*Status.model_fields}.union(*Status._topics().values())
        return {name: value for name, value in self.told.items() if name in names}

    def _figures(self, at_s: float) -> dict[str, Any]:
        active = self._active_at(at_s)
        slow = active.name == "1"
        rate = 10.0 + 2.0 * math.sin(at_s / 20)
        output = min(rate, 9.4) if slow else rate
        mean = 420.0 + 90 * math.sin(at_s / 20 - 1) + 20 * math.sin(at_s) if slow else 181.0 + 12 * math.sin(at_s / 3)
        mean *= 2.4 if slow else 1.0
        slo = self.spec.slo
        stages = [
            {
                "name": stage.name, "kind": str(stage.kind), "samples": 812, "cv": 0.4,
                "cpu_time_ms": COSTS_MS.get(stage.name, 8.0) * 0.98, "bottleneck": stage.name == "rank",
                "service_time_ms": COSTS_MS.get(stage.name, 8.0) * (1 + 0.04 * math.sin(at_s / 7)),
            }
            for stage in self.app.stages
        ]  # fmt: skip
        at = {"node": "127.0.0.1", "restarts": 0}
        workers = [
            {**at, "id": f"w{group}{k}", "pid": 100 + k, "group": group, "outstanding": int(k < 2)}
            for group, each in enumerate(active.groups)
            for k in range(each.replicas)
        ]
        drain = {"estimate_ms": 310.0, "srtt_ms": 240.0, "rttvar_ms": 17.5, "last_actual_ms": 255.0}
        cost = {"cores": 2, "workers": active.workers, "spares": 1, "worker_s": 2412.0, "cpu_s": 611.5}
        return {
            "composition": plain(ActiveComposition.of(active)), "stages": stages, "workers": workers,
            "slo": plain(SloInForce.of(slo, rate)) if slo else None,
            "slo_status": "none" if slo is None else "violated" if slow else "met",
            "slo_met_share": None if slo is None else 0.873, "missed": 0, "failure": None, "lag_s": 0.2,
            "input_rate_per_s": rate, "offered_per_s": rate, "throughput_per_s": output,
            "admitted_per_s": min(rate, output * 1.01),
            "latency_ms": {"mean": mean, "p50": mean * 0.94, "p95": mean * 1.4, "p99": mean * 1.7},
            "queued": 14 if slow else 0, "in_flight": 9,
            "in_flight_by_stage": {stage.name: 1 + 2 * (stage.name == "rank") for stage in self.app.stages},
            "items": {"accepted": self.asked, "delivered": self.asked - 9, "failed": 0, "shed": 0},
            "drain": {**drain, "last_error_ratio": 0.06, "count": 4},
            "updated_at": time_text(at_s), "began_at": time_text(self.began_s - 600),
            "cost": {**cost, "cpu_cores": 1.4 + 0.3 * math.sin(at_s / 9)},
            "no_change": "13 has the fewest workers that meet the SLO" if slo else "no SLO is set",
            "last_switch": self._last_switch(),
        }  # fmt: skip

    def _active_at(self, at_s: float) -> Any:
        return self.active if at_s >= self.moved_s else self._choices()[0]

    def _last_switch(self) -> dict[str, Any] | None:
        if len(self.decided) < 2:
            return None
        last = self.decided[-1]
        drain = {"drain_mean_ms": 240.0, "drain_estimate_ms": 310.0, "drain_actual_ms": 255.0}
        rest = {"longest_gap_ms": 41.0, "overdue": False, "migrated": 0, "error": None}
        known = {"at": last.at, "from": last.from_, "to": last.to, "style": "seamless", "gap_ms": 41.0}
        return {**known, **drain, **rest}

    def history(self, last_s: float) -> list[Sample]:
        whole = int(min(last_s, 280))
        times = [self.now_s - back for back in range(whole, 0, -1)]
        known = plain(super().status())
        missing = self.told.get("missing_s", (0, 0))  # of which nothing is known, seconds ago
        times = [at for at in times if not missing[0] <= self.now_s - at <= missing[1]]
        return [Sample.of(Status.model_validate({**known, **self._figures(at)}), time_text(at)) for at in times]

    def what_if(self, question: ReadWhatIf) -> WhatIf:
        rows = []
        for each in self._choices():
            rate, latency_ms = _predicted(each)
            likely = {
                "predicted_throughput_per_s": rate, "throughput_per_s_range": (0.96 * rate, 1.04 * rate),
                "predicted_latency_ms": latency_ms, "predicted_p95_ms": latency_ms and latency_ms * 1.4,
                "meets": latency_ms is not None, "overloaded": latency_ms is None, "limited_by": ["rank"],
            }  # fmt: skip
            rows.append({**plain(ActiveComposition.of(each)), "active": each.name == self.active.name, **likely})
        rows.sort(key=lambda row: (not row["meets"], row["workers"]))
        best = rows[0]["name"]
        known = {
            "app": self.spec.app, "cores": question.cores or 2, "replicas": question.replicas, "choice": best,
            "reason": f"{best} is expected to meet the SLO (predicted mean latency 190 ms ± 12 %)",
            "input_rate_per_s": question.rate_per_s or 10.0, "crowding": 2.4, "compositions": rows, "left_out": 0,
            "stages": [
                {"name": name, "service_time_ms": 2.4 * ms, "free_time_ms": ms, "cpu_time_ms": 0.9 * ms}
                for name, ms in COSTS_MS.items()
                if name in {stage.name for stage in self.app.stages}
            ],
        }  # fmt: skip
        return WhatIf.model_validate(known)


def _ticker(name: str) -> Ticker:
    """Alerts are looked at as ever; runners are up at once."""
    return Ticker(name) if name == "alerts" else PromptTicker(name)


def _predicted(each: Any) -> tuple[float, float | None]:
    """Items/s, and milliseconds unless the queue grows: rank decides."""
    last = each.groups[-1]
    cost_ms = COSTS_MS["rank"] + 25 * (len(last.stages) - 1)
    return last.replicas * 1000 / cost_ms, 190.0 if last.replicas > 1 else None


class TwoNodes(LocalHost):
    """A node beside this one, with a GPU, on which Ferret's workers are."""

    def cluster(self) -> Cluster:
        gpus = (Gpu("H", 0.25, 80 * 2**30, 2**30),)
        seen = NodeReport(CpuReport(4, 4, 3.5), 9 * 2**30, 3 * 2**30, gpus)
        far = Node("far", Amounts(3.5, 1, 8 * 2**30), Amounts(1, 0.5, 2**30), address="10.0.0.5", seen=seen)
        return Cluster((*super().cluster().nodes, far), "local")


def scene_daemon(names: Sequence[str], store: DaemonStore, telemetry: Path, *, fast: bool, nodes: bool) -> Daemon:
    """Return a daemon of these apps. ``nodes``: it has two machines; ``fast``: its time goes a second a status."""
    apps, written = {name: registry.find(name) for name in names}, TelemetrySpec(folder=str(telemetry))
    host = (TwoNodes if nodes else LocalHost)(partial(Scene, fast=fast))
    return Daemon(apps, host, store, RunSpec(app="", telemetry=written), make_ticker=_ticker)
