"""The measured parts of a status: stages, latency, items, drain, workers, gaps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Self

from pydantic import Field

from compositions.model import Stage
from control.output_gaps import OutputGaps
from profiler.drain import DrainStatus
from profiler.service_time import bottlenecks
from profiler.snapshot import LatencyStats, Snapshot
from runtime.dispatch.views import DispatcherView, WorkerView
from service.bodies.base import Answer, Time, ms, rounded, time_text
from service.bodies.spec import Coming


class StageStatus(Answer):
    name: str
    kind: str
    samples: int
    bottleneck: bool
    service_time_ms: float | None
    cpu_time_ms: float | None
    cv: float | None
    p50_ms: float | None = None
    """Of the service time; with ``p95_ms`` once it was measured."""
    p95_ms: float | None = None

    @classmethod
    def unmeasured(cls, stage: Stage) -> StageStatus:
        unknown = {"service_time_ms": None, "cpu_time_ms": None, "cv": None}
        return cls(name=stage.name, kind=stage.kind.value, samples=0, bottleneck=False, **unknown)

    @classmethod
    def all_of(cls, stages: Sequence[Stage], snapshot: Snapshot | None) -> list[StageStatus]:
        """Every stage, filled in where there is a profile."""
        tagged = bottlenecks(snapshot.stages) if snapshot else ()
        return [cls._of(stage, snapshot, stage.name in tagged) for stage in stages]

    @classmethod
    def _of(cls, stage: Stage, snapshot: Snapshot | None, bottleneck: bool) -> StageStatus:
        profile = snapshot.stage(stage.name) if snapshot else None
        if profile is None:
            return cls.unmeasured(stage)
        return cls(
            name=stage.name,
            kind=stage.kind.value,
            samples=profile.samples,
            bottleneck=bottleneck,
            service_time_ms=ms(profile.service_time_s),
            cpu_time_ms=ms(profile.cpu_time_s),
            cv=rounded(profile.cv),
            p50_ms=ms(profile.p50_s),
            p95_ms=ms(profile.p95_s),
        )


class Latency(Answer):
    mean: float | None
    p50: float | None
    p95: float | None
    p99: float | None
    share: float | None = None
    """Within which the share of the items is that the SLO asks for; null where it asks for none."""

    @classmethod
    def of(cls, stats: LatencyStats | None, share: float | None = None) -> Latency:
        if stats is None:
            return cls(mean=None, p50=None, p95=None, p99=None)
        return cls(
            mean=ms(stats.mean_s),
            p50=ms(stats.p50_s),
            p95=ms(stats.p95_s),
            p99=ms(stats.p99_s),
            share=None if share is None else ms(stats.at(share)),
        )


class Demand(Answer):
    """What was asked for, what of it was admitted, and the latency as the papers measure it."""

    latency_from_read_ms: Latency | None = None
    """From when an item was read."""
    offered_per_s: float | None = None
    """Items due, or come by themselves: what is asked for, whether the source gets to it or not."""
    admitted_per_s: float | None = None
    delivered_per_s: float | None = None
    """Over the whole window, where ``throughput_per_s`` begins anew with a switch or another objective."""
    missed: int | None = None
    """Items that were due and never read: the source was held back for longer than it makes up for."""
    lag_s: float | None = None
    """How long the next item to be read has been due."""

    @classmethod
    def of(cls, snapshot: Snapshot | None) -> Demand:
        demand = snapshot.demand if snapshot else None
        if snapshot is None or demand is None:
            return cls()
        return cls(
            delivered_per_s=rounded(demand.delivered_per_s),
            latency_from_read_ms=Latency.of(snapshot.read_latency),
            offered_per_s=rounded(demand.offered_per_s),
            admitted_per_s=rounded(demand.admitted_per_s),
            missed=demand.missed,
            lag_s=rounded(demand.lag_s),
        )


class Budget(Answer):
    """Bytes of payload, and how many there may be."""

    used: int
    allowed: int


class Budgets(Answer):
    """Where items may take memory: waiting for a worker, started and not out, and results that can still be read."""

    admission: Budget
    started: Budget
    results: Budget


class Items(Answer):
    accepted: int
    delivered: int
    failed: int
    shed: int

    @classmethod
    def of(cls, view: DispatcherView) -> Items:
        return Items(accepted=view.accepted, delivered=view.delivered, failed=view.failed, shed=view.shed)


class Drain(Answer):
    estimate_ms: float | None
    srtt_ms: float | None
    rttvar_ms: float | None
    last_actual_ms: float | None
    last_error_ratio: float | None
    count: int

    @classmethod
    def unmeasured(cls) -> Drain:
        return cls.of(DrainStatus(None, None, None, None, None, 0))

    @classmethod
    def of(cls, drain: DrainStatus) -> Drain:
        return cls(
            estimate_ms=ms(drain.estimate_s),
            srtt_ms=ms(drain.srtt_s),
            rttvar_ms=ms(drain.rttvar_s),
            last_actual_ms=ms(drain.last_actual_s),
            last_error_ratio=rounded(drain.last_error_ratio),
            count=drain.count,
        )


class Worker(Answer):
    id: str
    pid: int
    node: str
    group: int | None
    outstanding: int
    restarts: int
    cpu_cores: float | None = None
    """Of late; known where it is on the runner's host, as ``memory_bytes`` is."""
    memory_bytes: int | None = None

    @classmethod
    def of(cls, worker: WorkerView) -> Worker:
        return cls(
            id=worker.worker,
            pid=worker.pid,
            node=worker.node,
            group=worker.group,
            outstanding=worker.outstanding,
            restarts=worker.restarts,
        )


class Cost(Answer):
    """What the run takes."""

    cores: int
    """That the workers may use."""
    workers: int
    """In use: bound to a group."""
    spares: int
    """Warm, without work."""
    worker_s: float
    """Worker-seconds in use since the runner began."""
    cpu_s: float | None
    """CPU time of the workers since then; null where none is on the runner's host, as ``cpu_cores`` is."""
    cpu_cores: float | None
    """Cores that they keep busy at the moment."""
    others_cores: float | None = None
    """Of the cores that the runner may use, as many as are busy with something else, its own process included."""


class Gaps(Answer):
    """Between outputs, outside of switches, in milliseconds."""

    p50: float | None
    p99: float | None
    max: float | None

    @classmethod
    def of(cls, gaps: OutputGaps) -> Gaps:
        return cls(p50=ms(gaps.steady_s(50)), p99=ms(gaps.steady_s(99)), max=ms(gaps.steady_s(100)))


class ComingBody(Answer):
    """A load that is to come, or has come, as somebody said."""

    from_: Annotated[Time, Field(alias="from")]
    until: Time
    rate_per_s: float

    @classmethod
    def of(cls, coming: Coming) -> Self:
        began, ends = time_text(coming.from_epoch_s), time_text(coming.until_epoch_s)
        return cls(from_=began, until=ends, rate_per_s=coming.rate_per_s)

    @classmethod
    def all_of(cls, coming: Iterable[Coming], now_epoch_s: float) -> list[Self]:
        """Those that are not over."""
        return [cls.of(each) for each in coming if each.until_epoch_s > now_epoch_s]
