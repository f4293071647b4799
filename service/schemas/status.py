"""The body of ``GET /status/{app}``, nested by topic and flat in JSON; and the sample of it that the history keeps."""

from collections.abc import Mapping, Sequence
from time import time
from typing import Literal, Self

from apps.contract import App
from control.decisions import Mode, State
from profiler.drain import DrainStatus
from profiler.slo import SloStatus
from service.schemas import figures
from service.schemas.base import Answer, FlatOnTheWire, Time, Told, Topic, utc_now
from service.schemas.compositions import ActiveComposition, BatchingStatus
from service.schemas.decisions import Decision, Switch
from service.schemas.slo import Alert, GrantBody, SloInForce
from service.schemas.spec import DurabilityName, RunSpec


class TablesStatus(Answer):
    """The job, common to all apps, that keeps the tables of telemetry up to date."""

    state: Literal["waiting", "running", "failed"]
    """State of the job: waiting for its next run, running, or waiting after a failed run."""
    up_to: str | None = None
    """The tables contain all records written before this time."""
    records: int | None = None
    """Number of records that the last run added."""
    batch: int | None = None
    """Number of the job's last micro-batch of windows."""
    duration_s: float | None = None
    files: int | None = None
    failure: str | None = None
    failed_in_a_row: int = 0


class TelemetryStatus(Answer):
    """Records written, lost and waiting, and why the last ones were lost."""

    written: int
    lost: int
    buffered: int
    fault: str | None
    tables: TablesStatus | None = None
    """State of the tables; null if the service makes none."""


class SparkStatus(Answer):
    """The link to Spark's driver."""

    driver_pid: int | None
    restarts: int
    batch: int | None
    """Number of the micro-batch being read; null if the source is not Spark."""
    rows_taken: int
    rows_refused: int
    results_kept: int


BLOCKED_BY = ("workers", "source", "journal", "sink", "backlog", "stages")
"""Parts that may block a stream. Workers: too few have started. Source: unreadable. Journal, sink: not writable.
Backlog: more items are due than the buffer can hold. Stages: no stage finishes an item."""


class RunnerBody(Answer):
    """The runner's location."""

    pid: int
    node: str
    """Address of the runner's machine; ``local`` in the service's own process."""
    since: Time


class Origin(Answer):
    """The origin of the present runner, or of the last one."""

    run: str | None = None
    """Identifier of the run, also in its results, decisions and telemetry."""
    epoch: int | None = None
    """Number of this runner, counted from the start of the run."""
    began_at: Time | None = None
    started_again: str | None = None
    """Reason why the first runner was replaced; null if this is the first."""
    durability: DurabilityName = "none"

    @classmethod
    def of(cls, spec: RunSpec, **known: str) -> Self:
        """Return the origin of the runner of ``spec``; ``began_at``: start of the present runner, if there is one."""
        epoch = None if spec.origin.run is None else spec.origin.epoch
        return cls.taken_from(spec.origin, spec.durable, epoch=epoch, **known)


class Requested(Answer):
    """The requested state of the app, and whether its objective is met."""

    mode: Mode
    slo: SloInForce | None
    slo_status: SloStatus
    slo_note: str | None = None
    """Reason why every composition meets the objective in this run, if so."""
    batching: BatchingStatus | None = None
    """Bundle size: the requested one and the one in use."""
    announced: list[figures.ComingBody] | None = None
    """Announced loads that have not ended."""

    @classmethod
    def of(cls, spec: RunSpec) -> Self:
        """Return the state that ``spec`` requests, without a verdict on the objective."""
        slo = SloInForce.of(spec.slo, None) if spec.slo else None
        return cls(
            mode=spec.mode,
            slo=slo,
            slo_status=SloStatus.UNKNOWN if slo else SloStatus.NONE,
            batching=BatchingStatus.of(spec.batching.batching),
            announced=figures.ComingBody.all_of(spec.announced, time()),
        )


class Changes(Answer):
    """Decisions of the manager, and switches between compositions."""

    switches: int
    resizes: int | None = None
    """Number of resizes, which change only the numbers of replicas."""
    last_decision: Decision | None
    last_switch: Switch | None = None
    output_gap_ms: figures.Gaps | None = None
    no_change: str | None = None
    """Reason why the manager changed nothing at its last turn."""


class RunnerHealth(Answer):
    """Failures of the runner and of its workers, and what blocks the stream."""

    failure: Told | None = None
    """Reason why the app failed, or why its runner had to be started again."""
    runner_pid: int | None = None
    runner: RunnerBody | None = None
    restarts: int | None = None
    """Number of workers started in place of lost ones."""
    losses: list[figures.LostWorker] | None = None
    """The latest workers that died, oldest first."""
    held_up: Told | None = None
    """Sentences about what blocks the stream, such as too few workers for the groups."""
    held_up_by: list[str] | None = None
    """Parts, as in ``BLOCKED_BY``, that block the stream now."""

    def failed(self, reason: str) -> Self:
        """Return a copy with this failure."""
        return self.model_copy(update={"failure": reason})


class Resources(Answer):
    """Memory, cores and connections that the run uses, and its share of the machine."""

    in_flight_by_stage: dict[str, int] | None = None
    """Number of items by the next stage that they need."""
    budgets: figures.Budgets | None = None
    grant: GrantBody | None = None
    """Share of the machine's budget; null: there is no budget."""
    cost: figures.Cost | None = None
    placement: list[figures.Placed] | None = None
    worker_memory: list[figures.ClassMemory] | None = None
    """Memory by class of workers that serve a group; null until measured."""
    proposed_resources: Mapping[str, Mapping[str, float | str]] | None = None
    """Measured use of each stage, in the form of ``resources`` of a start body."""
    telemetry: TelemetryStatus | None = None
    spark: SparkStatus | None = None


class Supervision(Answer):
    """Figures of an app that the daemon adds."""

    alerts: list[Alert] | None = None
    runner_restarts: int = 0


class Status(FlatOnTheWire, Answer):
    """The status of one app. Fields that only its runner knows are left out while the runner is not up."""

    app: str
    state: State
    composition: ActiveComposition | None
    input_rate_per_s: float | None
    throughput_per_s: float | None
    latency_ms: figures.Latency
    """Latency from when an item was due, or arrived, to its delivery."""
    stages: list[figures.StageStatus]
    queued: int
    in_flight: int
    items: figures.Items
    drain: figures.Drain
    workers: list[figures.Worker]
    updated_at: Time
    requested: Topic[Requested]
    changes: Topic[Changes]
    origin: Topic[Origin] = Origin()
    demand: Topic[figures.Demand] = figures.Demand()
    health: Topic[RunnerHealth] = RunnerHealth()
    resources: Topic[Resources] = Resources()
    supervision: Topic[Supervision] = Supervision()


def resting(
    app: type[App], state: State, spec: RunSpec, last_decision: Decision | None, health: RunnerHealth | None = None
) -> Status:
    """Return the status of an app without a runner: fields that only a runner knows are null or left out."""
    return Status(
        app=app.name,
        state=state,
        composition=None,
        input_rate_per_s=None,
        throughput_per_s=None,
        latency_ms=figures.Latency.of(None),
        stages=figures.StageStatus.all_of(app.stages, None),
        queued=0,
        in_flight=0,
        items=figures.Items(accepted=0, delivered=0, failed=0, shed=0),
        drain=figures.Drain.taken_from(DrainStatus(None, None, None, None, None, 0)),
        workers=[],
        updated_at=utc_now(),
        requested=Requested.of(spec),
        changes=Changes(switches=0, last_decision=last_decision),
        origin=Origin.of(spec),
        health=health or RunnerHealth(),
    )


class Rates(Answer):
    """History of an app's rates, in columns of equal length."""

    app: str
    at: list[Time]
    offered_per_s: list[float | None]
    delivered_per_s: list[float | None]

    @classmethod
    def of(cls, app: str, samples: "Sequence[Sample]") -> Self:
        offered = [_first(each.offered_per_s, each.input_rate_per_s) for each in samples]
        delivered = [_first(each.delivered_per_s, each.throughput_per_s) for each in samples]
        return cls(app=app, at=[each.at for each in samples], offered_per_s=offered, delivered_per_s=delivered)


def _first(figure: float | None, other: float | None) -> float | None:
    return other if figure is None else figure


class Sample(Answer):
    """The figures of a status that charts show."""

    at: Time
    composition: str | None
    slo_status: SloStatus
    slo: SloInForce | None
    input_rate_per_s: float | None
    throughput_per_s: float | None
    latency_ms: figures.Latency
    service_time_ms: dict[str, float | None]
    bundle_size: int | None = None
    """Bundle size in use, in items."""
    offered_per_s: float | None = None
    delivered_per_s: float | None = None
    queued: int | None = None
    workers: int | None = None
    """Number of workers in use."""
    cpu_cores: float | None = None
    """Cores that the workers keep busy."""

    @classmethod
    def of(cls, status: Status, at: str) -> Self:
        return cls.taken_from(
            *(status.requested, status.demand, status),
            at=at,
            bundle_size=status.requested.batching.size if status.requested.batching else None,
            workers=status.composition.workers if status.composition else None,
            cpu_cores=status.resources.cost.cpu_cores if status.resources.cost else None,
            composition=status.composition.name if status.composition else None,
            latency_ms=status.latency_ms,
            service_time_ms={stage.name: stage.service_time_ms for stage in status.stages},
        )
