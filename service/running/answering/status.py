"""The status of a running app, from what its loop knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compositions.model import Stage
from service.bodies.base import Clock, rounded
from service.bodies.compositions import ActiveComposition
from service.bodies.decisions import Decision, Switch
from service.bodies.figures import Demand, Drain, Gaps, Items, Latency, StageStatus, Worker
from service.bodies.slo import SloInForce
from service.bodies.status import Changes, Origin, SparkStatus, Status, TelemetryStatus
from service.running.answering.held_up import held_up
from service.running.loop import ControlLoop


@dataclass(frozen=True, slots=True)
class Beside:
    """What is known beside the loop."""

    slo_met_share: float | None
    telemetry: TelemetryStatus | None
    spark: SparkStatus | None
    blocked: str | None = None
    """Why nothing can be read or stored now."""


def running_status(known: Status, stages: Sequence[Stage], loop: ControlLoop, beside: Beside, at: Clock) -> Status:
    """``known``: what the runner says of itself, with or without a loop."""
    view, snapshot, slo = loop.engine.view(), loop.snapshot, loop.manager.slo
    input_rate = snapshot.input_rate_per_s if snapshot else None
    return Status(
        app=known.app,
        state=known.state,
        mode=loop.manager.mode,
        composition=ActiveComposition.of(view.composition),
        slo=SloInForce.of(slo, input_rate) if slo else None,
        slo_status=loop.result.slo_status if loop.result else known.slo_status,
        input_rate_per_s=rounded(input_rate),
        throughput_per_s=rounded(snapshot.throughput_per_s) if snapshot else None,
        latency_ms=Latency.of(snapshot.latency if snapshot else None, slo.share_asked if slo else None),
        stages=StageStatus.all_of(stages, snapshot),
        queued=view.queued,
        in_flight=view.in_flight,
        items=Items.of(view),
        drain=Drain.of(loop.handovers.drain.status()),
        workers=[Worker.of(worker) for worker in view.workers],
        switches=loop.journal.switch_count,
        last_decision=last_decision(loop, at, known.run),
        updated_at=known.updated_at,
        failure=known.failure,
        runner_pid=known.runner_pid,
        **dict(Demand.of(snapshot)),
        in_flight_by_stage=dict(view.positions),
        restarts=view.restarts,
        **dict(_changes(loop, at)),
        held_up=held_up(view, snapshot.demand if snapshot else None, beside.blocked),
        announced=known.announced,
        slo_met_share=beside.slo_met_share,
        telemetry=beside.telemetry,
        spark=beside.spark,
        **{name: getattr(known, name) for name in Origin.model_fields},
    )


def _changes(loop: ControlLoop, at: Clock) -> Changes:
    journal = loop.journal
    return Changes(
        resizes=journal.resize_count,
        last_switch=Switch.of(journal.switches[-1], at) if journal.switches else None,
        output_gap_ms=Gaps.of(loop.handovers.gaps),
        no_change=journal.no_changes[-1].reason if journal.no_changes else None,
    )


def last_decision(loop: ControlLoop, at: Clock, run: str | None) -> Decision | None:
    journal = loop.journal
    return Decision.of(journal.with_switches(journal.decisions[-1]), at, run) if journal.decisions else None
