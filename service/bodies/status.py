"""The body of ``GET /status/{app}``, and the sample of it that the history keeps."""

from __future__ import annotations

from collections.abc import Sequence
from time import time
from typing import Any

from apps.contract import App
from control.decisions import Mode, State
from profiler.slo import SloStatus
from service.bodies.alerts import Alert
from service.bodies.base import Answer, Time, utc_now
from service.bodies.batching import BatchingStatus
from service.bodies.compositions import ActiveComposition
from service.bodies.decisions import Decision, Switch
from service.bodies.figures import Budgets, ComingBody, Cost, Demand, Drain, Gaps, Items, Latency, StageStatus, Worker
from service.bodies.machine import GrantBody
from service.bodies.slo import SloInForce
from service.bodies.spec import DurabilityName, RunSpec


class TelemetryStatus(Answer):
    """Records written, lost and waiting, and why the last ones were lost."""

    written: int
    lost: int
    buffered: int
    fault: str | None


class SparkStatus(Answer):
    """The link to Spark's driver."""

    driver_pid: int | None
    restarts: int
    batch: int | None
    """The micro-batch that is read; null where the source is not Spark's."""
    rows_taken: int
    rows_refused: int
    results_kept: int


class _Status(Answer):
    app: str
    state: State
    mode: Mode
    composition: ActiveComposition | None
    slo: SloInForce | None
    slo_status: SloStatus
    input_rate_per_s: float | None
    throughput_per_s: float | None
    latency_ms: Latency
    """From when an item was due, or came, to its delivery."""
    stages: list[StageStatus]
    queued: int
    in_flight: int
    items: Items
    drain: Drain
    workers: list[Worker]
    switches: int
    last_decision: Decision | None
    updated_at: Time


class _Beside(Answer):
    failure: str | None = None
    """Why it failed, or why its runner had to be started anew."""
    runner_pid: int | None = None
    in_flight_by_stage: dict[str, int] | None = None
    """By the next stage that an item needs."""
    restarts: int | None = None
    """Workers started in place of lost ones."""
    held_up: str | None = None
    """What holds the stream up: too few workers for the groups, a source that waits for room."""
    alerts: list[Alert] | None = None
    """In force."""
    budgets: Budgets | None = None
    grant: GrantBody | None = None
    """What the arbiter of the machine's budget leaves to it; null: nobody counts."""
    announced: list[ComingBody] | None = None
    """Loads that are to come, or have come, as somebody said."""
    batching: BatchingStatus | None = None
    """How many items travel together."""
    cost: Cost | None = None
    slo_met_share: float | None = None
    """Of the seconds with a verdict, those in which the SLO was met."""
    telemetry: TelemetryStatus | None = None
    spark: SparkStatus | None = None
    runner_restarts: int = 0


class Changes(Answer):
    """What became of compositions, beside the decisions."""

    resizes: int | None = None
    """Of the switches, those in place: nothing but numbers of replicas changed."""
    last_switch: Switch | None = None
    output_gap_ms: Gaps | None = None
    no_change: str | None = None
    """Why the manager last changed nothing."""


class Origin(Answer):
    """Of the present runner, or the last one."""

    run: str | None = None
    """Names its serial numbers; results, decisions and telemetry carry it."""
    epoch: int | None = None
    """Counts the runners since the app was started."""
    began_at: Time | None = None
    started_again: str | None = None
    """Why it is not the first one; null when it is."""
    durability: DurabilityName = "none"
    """What outlives a runner."""


class Status(Origin, Demand, Changes, _Beside, _Status):
    """Of one app. What its runner alone knows is left out while it is not up."""


def _wanted(spec: RunSpec) -> dict[str, Any]:
    """The fields that say what is asked for, not what is."""
    slo = SloInForce.of(spec.slo, None) if spec.slo else None
    return {
        "mode": spec.mode,
        "slo": slo,
        "slo_status": SloStatus.UNKNOWN if slo else SloStatus.NONE,
        "batching": BatchingStatus.of(spec.batching.batching),
        "announced": ComingBody.all_of(spec.announced, time()),
    }


def of_wanted(status: Status, spec: RunSpec) -> Status:
    """``status`` of a runner that has not been told all of ``spec``, with what that asks for."""
    return status.model_copy(update=_wanted(spec))


def resting(app: type[App], state: State, spec: RunSpec, last_decision: Decision | None) -> Status:
    """Of an app whose runner is not up: what is known without it, everything else null."""
    return Status(
        app=app.name,
        state=state,
        composition=None,
        **_wanted(spec),
        input_rate_per_s=None,
        throughput_per_s=None,
        latency_ms=Latency.of(None),
        stages=[StageStatus.unmeasured(stage) for stage in app.stages],
        queued=0,
        in_flight=0,
        items=Items(accepted=0, delivered=0, failed=0, shed=0),
        drain=Drain.unmeasured(),
        workers=[],
        switches=0,
        last_decision=last_decision,
        updated_at=utc_now(),
        run=spec.run,
        epoch=None if spec.run is None else spec.epoch,
        started_again=spec.started_again,
        durability=spec.durability,
    )


class SampledLatency(Answer):
    mean: float | None
    p95: float | None
    p50: float | None = None
    p99: float | None = None
    share: float | None = None
    """Within which the share of the items is that the SLO asks for."""

    @classmethod
    def of(cls, latency: Latency) -> SampledLatency:
        return cls(mean=latency.mean, p50=latency.p50, p95=latency.p95, p99=latency.p99, share=latency.share)


class Rates(Answer):
    """The course of an app's rates, in columns of one length."""

    app: str
    at: list[Time]
    offered_per_s: list[float | None]
    delivered_per_s: list[float | None]

    @classmethod
    def of(cls, app: str, samples: Sequence[Sample]) -> Rates:
        offered = [_first(each.offered_per_s, each.input_rate_per_s) for each in samples]
        delivered = [_first(each.delivered_per_s, each.throughput_per_s) for each in samples]
        return cls(app=app, at=[each.at for each in samples], offered_per_s=offered, delivered_per_s=delivered)


def _first(figure: float | None, other: float | None) -> float | None:
    return other if figure is None else figure


class Sample(Answer):
    """The figures of a status that charts are drawn from."""

    at: Time
    composition: str | None
    slo_status: SloStatus
    slo: SloInForce | None
    input_rate_per_s: float | None
    throughput_per_s: float | None
    latency_ms: SampledLatency
    service_time_ms: dict[str, float | None]
    """By stage."""
    bundle_size: int | None = None
    """Items that may travel together."""
    offered_per_s: float | None = None
    delivered_per_s: float | None = None
    queued: int | None = None
    workers: int | None = None
    """In use."""
    cpu_cores: float | None = None
    """That the workers keep busy."""

    @classmethod
    def of(cls, status: Status, at: str) -> Sample:
        return cls(
            bundle_size=status.batching.size if status.batching else None,
            offered_per_s=status.offered_per_s,
            delivered_per_s=status.delivered_per_s,
            queued=status.queued,
            workers=status.composition.workers if status.composition else None,
            cpu_cores=status.cost.cpu_cores if status.cost else None,
            at=at,
            composition=status.composition.name if status.composition else None,
            slo_status=status.slo_status,
            slo=status.slo,
            input_rate_per_s=status.input_rate_per_s,
            throughput_per_s=status.throughput_per_s,
            latency_ms=SampledLatency.of(status.latency_ms),
            service_time_ms={stage.name: stage.service_time_ms for stage in status.stages},
        )
