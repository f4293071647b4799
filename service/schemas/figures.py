"""The measured parts of a status: stages, latency, items, drain, workers, gaps."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Self

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from compositions.model import Stage
from control.journal import OutputGaps
from profiler.monitor import LATENCY_BOUNDS_S
from profiler.service_time import bottlenecks
from profiler.snapshot import LatencyStats, Snapshot
from profiler.stats import Histogram
from runtime.dispatch.views import DispatcherView
from runtime.placement.cluster import Node, NodeState
from service.schemas.base import Answer, Data, Time, ms, time_text
from service.schemas.spec import PlannedLoad


class StageStatus(Answer):
    name: str
    kind: str
    samples: int
    bottleneck: bool
    service_time_ms: float | None
    cpu_time_ms: float | None
    cv: float | None
    p50_ms: float | None = None
    """Median of the service time; like ``p95_ms`` null until it was measured."""
    p95_ms: float | None = None
    gpu_time_ms: float | None = None
    """GPU time per item; absent if it is not measured."""

    @classmethod
    def all_of(cls, stages: Sequence[Stage], snapshot: Snapshot | None) -> "list[StageStatus]":
        """Return the status of every stage, with figures if there is a profile."""
        tagged = bottlenecks(snapshot.stages) if snapshot else ()
        return [cls._of(stage, snapshot, stage.name in tagged) for stage in stages]

    @classmethod
    def _of(cls, stage: Stage, snapshot: Snapshot | None, bottleneck: bool) -> Self:
        profile = snapshot.stage(stage.name) if snapshot else None
        if profile is None:
            unknown = {"service_time_ms": None, "cpu_time_ms": None, "cv": None}
            return cls(name=stage.name, kind=stage.kind.value, samples=0, bottleneck=False, **unknown)
        gpu = {"gpu_time_ms": ms(profile.gpu_s)} if profile.gpu_s else {}
        return cls.taken_from(profile, kind=stage.kind.value, bottleneck=bottleneck, **gpu)


class Latency(Answer):
    mean: float | None
    p50: float | None
    p95: float | None
    p99: float | None
    share: float | None = None
    """Latency within which the SLO's share of the items is; null if the SLO has no share."""

    @classmethod
    def of(cls, stats: LatencyStats | None, share: float | None = None) -> Self:
        if stats is None:
            return cls(mean=None, p50=None, p95=None, p99=None)
        return cls(
            mean=ms(stats.mean_s),
            p50=ms(stats.p50_s),
            p95=ms(stats.p95_s),
            p99=ms(stats.p99_s),
            share=None if share is None else ms(stats.at(share)),
        )


class LatencyHistogram(Answer):
    """Latencies of all items that this runner delivered, measured from when an item was due or arrived."""

    le_s: list[float]
    counts: list[int]
    """Number of items within each bound of ``le_s``; the last value is the number of all items."""
    sum_s: float

    @classmethod
    def of(cls, counted: Histogram) -> Self:
        return cls(le_s=list(LATENCY_BOUNDS_S), counts=list(counted.counts), sum_s=round(counted.sum, 6))


class Demand(Answer):
    """The offered, the admitted and the delivered load, and items that were missed or late."""

    latency_from_read_ms: Latency | None = None
    offered_per_s: float | None = None
    """Rate of items that are due or arrive, also if the source cannot read them in time."""
    admitted_per_s: float | None = None
    delivered_per_s: float | None = None
    """Rate over the whole window; ``throughput_per_s`` starts anew after a switch or another objective."""
    missed: int | None = None
    """Number of items that were due and never read, because the source was held back beyond ``catch_up_s``."""
    refused: int | None = None
    """Number of rows and messages that the app refused."""
    lag_s: float | None = None
    """Time since the next item to be read was due."""
    latency_histogram: LatencyHistogram | None = None
    slo_met_share: float | None = None
    """Share of the seconds with a verdict in which the SLO was met."""

    @classmethod
    def of(cls, snapshot: Snapshot | None, counted: Histogram, slo_met_share: float | None, refused: int) -> Self:
        histogram = LatencyHistogram.of(counted)
        known: Data = {"latency_histogram": histogram, "slo_met_share": slo_met_share, "refused": refused}
        if snapshot is None or snapshot.demand is None:
            return cls(**known)
        return cls.taken_from(snapshot.demand, latency_from_read_ms=Latency.of(snapshot.read_latency), **known)


class Budget(Answer):
    """Bytes of payload in use, and their limit."""

    used: int
    allowed: int


class Budgets(Answer):
    """Memory of items that wait for a worker, of started items, and of results that can still be read."""

    admission: Budget
    started: Budget
    results: Budget


class Items(Answer):
    accepted: int
    delivered: int
    failed: int
    shed: int

    @classmethod
    def of(cls, view: DispatcherView, unwritten: int = 0) -> "Items":
        """Count as failed the ``unwritten`` items, whose results could not be written to the sink."""
        delivered, failed = view.delivered - unwritten, view.failed + unwritten
        return Items(accepted=view.accepted, delivered=delivered, failed=failed, shed=view.shed)


class Drain(Answer):
    estimate_ms: float | None
    srtt_ms: float | None
    rttvar_ms: float | None
    last_actual_ms: float | None
    last_error_ratio: float | None
    count: int


class Worker(Answer):
    id: str = Field(validation_alias=AliasChoices("id", "worker"))
    pid: int
    node: str
    group: int | None
    outstanding: int
    restarts: int
    cpu_cores: float | None = None
    """Cores that the worker kept busy lately; like ``memory_bytes`` null unless the worker is on the runner's host."""
    memory_bytes: int | None = None


class Placed(Answer):
    """The workers of a run on one node."""

    node: str
    workers: dict[str, int]
    """Number of workers by group, named by its stages; the empty name counts workers without a group."""
    hop_ms: float | None
    """Round trip of a task to the node, without its work; null until it was measured."""


class ClassMemory(Answer):
    """The memory of one worker of a class, without shared memory."""

    stages: list[str]
    """Stages that only workers of this class load."""
    peak_bytes: int
    """Highest memory of one worker on the runner's host since the runner began, sampled once a second."""
    declared_bytes: int
    """Memory that its stages declare; 0: none."""


class LostWorker(Answer):
    """A worker that died, or was killed because its task hung."""

    number: int
    """Number of the loss, counted by the present runner."""
    at: Time
    id: str
    pid: int
    node: str
    reason: str
    """How its process ended, if known: a signal or an exit code."""


class Cost(Answer):
    """The resources that the run uses."""

    cores: int | float
    """Number of cores that the workers may use, or the quota of their control groups if that is less."""
    workers: int
    """Number of workers in use: those that are bound to a group."""
    spares: int
    """Number of warm spare workers."""
    worker_s: float
    """Worker-seconds in use since the runner began."""
    cpu_s: float | None
    """CPU time of the workers since then; like ``cpu_cores`` null if no worker is on the runner's host."""
    cpu_cores: float | None
    """Cores that the workers keep busy now."""
    others_cores: float | None = None
    """Cores of the runner that other processes keep busy, the runner's own process included."""
    gpus: float = 0.0
    """GPUs that the workers reserve, with shares of a GPU."""
    gpu_s: float = 0.0
    """GPU-seconds reserved since the runner began."""


class Gaps(Answer):
    """Gaps between outputs, outside of switches, in milliseconds."""

    p50: float | None
    p99: float | None
    max: float | None

    @classmethod
    def of(cls, gaps: OutputGaps) -> Self:
        return cls(p50=ms(gaps.steady_s(50)), p99=ms(gaps.steady_s(99)), max=ms(gaps.steady_s(100)))


class ComingBody(Answer):
    """An announced load that has not ended."""

    from_: Annotated[Time, Field(alias="from")]
    until: Time
    rate_per_s: float

    @classmethod
    def of(cls, coming: PlannedLoad) -> Self:
        began, ends = time_text(coming.from_epoch_s), time_text(coming.until_epoch_s)
        return cls(from_=began, until=ends, rate_per_s=coming.rate_per_s)

    @classmethod
    def all_of(cls, coming: Iterable[PlannedLoad], now_epoch_s: float) -> list[Self]:
        """Return the planned loads that are not over."""
        return [cls.of(each) for each in coming if each.until_epoch_s > now_epoch_s]


class GpuBody(Answer):
    """A GPU of a node, as its driver reports it; null: not reported."""

    name: str
    busy: float | None
    """Share of about the last second in which any process used it."""
    memory_bytes: int | None
    memory_used_bytes: int | None


class NodeBody(Answer):
    """A node that Ray knows, or that was lost in the last hour."""

    node: str
    """Ray's id of the node."""
    address: str
    state: NodeState
    since: Time
    """Time at which the state was first seen by this service."""
    cpus: float
    """Cores that workers may use: Ray's number of CPUs, less where a quota or an affinity allows less."""
    cpus_used: float
    """CPUs that are reserved in Ray, by workers of these apps and by others."""
    quota: float | None = None
    """CPU time that its control group may use per second; absent: no limit."""
    gpus: int
    gpus_used: float
    memory: int
    """The same as ``memory_bytes``."""
    memory_bytes: int
    memory_used_bytes: int
    """Memory that is reserved in Ray."""
    custom: Mapping[str, float]
    labels: Mapping[str, str]
    workers: Mapping[str, int]
    """Number of workers of each running app on this node, even if another node has the same address."""
    hop_ms: float | None = None
    """Longest round trip of an app's task to its workers there; absent until it was measured."""
    machine_memory_bytes: int | None = None
    """Memory of the machine, or its container's limit if that is lower; absent until the node has reported it."""
    machine_memory_free_bytes: int | None = None
    """Free memory of the machine or container."""
    workers_memory_bytes: int | None = None
    """Resident memory of these workers, shared frames in each; absent unless their runner is on this node."""
    devices: list[GpuBody] | None = None
    """GPUs of the node; absent if they cannot be measured."""

    @classmethod
    def of(cls, node: Node, since: str, workers: Mapping[str, int], **measured: float | None) -> Self:
        """Return a node's body. ``measured``: ``workers_memory_bytes`` and ``hop_ms``, measured by the apps."""
        has, taken, seen = node.has, node.taken, node.seen
        known: Data = {name: each for name, each in measured.items() if each is not None}
        if seen is not None:
            known |= {"quota": seen.cpus.quota} if seen.cpus.quota is not None else {}
            known |= {"machine_memory_bytes": seen.memory_bytes, "machine_memory_free_bytes": seen.memory_free_bytes}
            known |= {"devices": [GpuBody.model_validate(each) for each in seen.gpus]} if seen.gpus else {}
        return cls.taken_from(
            *(node, has),
            node=node.id,
            since=since,
            cpus_used=round(taken.cpus, 2),
            gpus=int(has.gpus),
            gpus_used=round(taken.gpus, 4),
            memory=int(has.memory_bytes),
            memory_bytes=int(has.memory_bytes),
            memory_used_bytes=max(0, int(taken.memory_bytes)),
            workers=workers,
            **known,
        )


class DrainRequest(BaseModel):
    """A request to empty a node."""

    model_config = ConfigDict(extra="forbid")

    deadline_s: float = Field(
        30.0, ge=1, le=86_400, allow_inf_nan=False, description="Time until Ray ends the node, even if it is not empty."
    )
