"""Rows of telemetry: what one turn of the manager, one decision and one switch leave behind."""

from __future__ import annotations

import json
from typing import Any

from control.decisions import Decision
from control.journal import SwitchRecord
from control.manager import TickResult
from profiler.service_time import bottlenecks
from profiler.snapshot import Snapshot
from service.bodies import decisions as bodies
from service.bodies.base import ms, plain, time_text
from service.bodies.figures import Latency
from service.running.loop import ControlLoop

Record = tuple[Any, ...]


class Rows:
    """Of one ``run``. ``epoch_s``: the wall clock at 0 of the loop's clock. Fields as in ``telemetry_columns``."""

    def __init__(self, run: str, epoch_s: float) -> None:
        self._run, self._epoch_s = run, epoch_s

    def snapshot(self, loop: ControlLoop, snapshot: Snapshot, result: TickResult) -> Record:
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
            demand and demand.lag_s, told.p50, told.p99, told.share,
        )  # fmt: skip

    def decision(self, loop: ControlLoop, decision: Decision) -> Record:
        told = bodies.Decision.of(loop.journal.with_switches(decision), self._at, self._run)
        body = json.dumps(plain(told), allow_nan=False)
        head = (decision.id, self._micros(decision.at_s), str(decision.trigger))
        return (*head, decision.from_name, decision.to_name, decision.reason, body)

    def switch(self, number: int, record: SwitchRecord) -> Record:
        ended = record.ended
        assert ended is not None, "the journal notes a switch when it has ended"
        figures = (record.gap_s, record.drain_mean_s, record.drain_estimate_s, ended.drain_actual_s)
        head = (number, self._micros(ended.at_s), ended.from_name, ended.to_name, str(ended.style))
        return (*head, *map(ms, figures), ended.error)

    def _micros(self, at_s: float) -> int:
        return round((self._epoch_s + at_s) * 1e6)

    def _at(self, at_s: float) -> str:
        return time_text(self._epoch_s + at_s)
