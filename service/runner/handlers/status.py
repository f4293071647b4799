"""Build the status of a runner: with its run, and before or without one."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from time import time

from apps.contract import App
from control.decisions import State
from control.reading import stalled_s
from profiler.slo import SloStatus
from profiler.snapshot import Snapshot
from runtime.dispatch.views import DispatcherView
from service.runner.loop import ControlLoop
from service.runner.telemetry.accounts import refused_by
from service.runner.telemetry.record import Record
from service.runner.wiring.run import Run
from service.schemas.base import Clock, rounded, utc_now
from service.schemas.compositions import ActiveComposition
from service.schemas.decisions import Decision, Switch
from service.schemas.figures import ComingBody, Cost, Demand, Drain, Gaps, Latency, LostWorker, StageStatus, Worker
from service.schemas.slo import GrantBody, SloInForce
from service.schemas.spec import RunSpec
from service.schemas.status import (
    Changes,
    Origin,
    Requested,
    Resources,
    RunnerBody,
    RunnerHealth,
    SparkStatus,
    Status,
    resting,
)

LATE_S = 1.0
"""An item that has been due for longer than this waits for more than its turn."""


@dataclass(slots=True)
class RunnerStatus:
    """State, failure and location of a runner. Changed by the loop's thread, read by any."""

    state: State = State.STARTING
    failure: str | None = None
    began_at: str = field(default_factory=utc_now)
    node: str = "local"

    @property
    def runner(self) -> RunnerBody:
        return RunnerBody(pid=os.getpid(), node=self.node, since=self.began_at)

    def at_rest(self, app: type[App], spec: RunSpec) -> Status:
        """Return what is known without a run."""
        health = RunnerHealth(failure=self.failure, runner_pid=os.getpid(), runner=self.runner)
        return resting(app, self.state, spec, None, health).but(origin=Origin.of(spec, began_at=self.began_at))


def status_of(run: Run, record: Record, runner: RunnerStatus) -> Status:
    """Return the status of a run, from what its parts know."""
    loop, checked = run.loop, run.checked
    view, snapshot, slo = loop.engine.view(), loop.snapshot, loop.manager.slo
    cost = cost_of(run, record)
    workers = [Worker.model_validate(each) for each in view.workers]
    return Status(
        app=type(checked.app).name,
        state=runner.state,
        composition=ActiveComposition.of(view.composition),
        input_rate_per_s=rounded(snapshot.input_rate_per_s) if snapshot else None,
        throughput_per_s=rounded(snapshot.throughput_per_s) if snapshot else None,
        latency_ms=Latency.of(snapshot.latency if snapshot else None, slo.share_asked if slo else None),
        stages=StageStatus.all_of(checked.stages, snapshot),
        queued=view.queued,
        in_flight=view.in_flight,
        items=run.items,
        drain=Drain.of(loop.handovers.drain.status()),
        workers=workers if cost is None else [record.usage.of(each) for each in workers],
        updated_at=utc_now(),
        requested=_requested(run, snapshot),
        changes=_changes(loop, record.clock.text, checked.spec.origin.run),
        origin=Origin.of(checked.spec, began_at=runner.began_at),
        demand=Demand.of(snapshot, loop.monitor.latencies, record.summary.slo_met_share, refused_by(run)),
        health=_health(run, runner, snapshot, record.clock.text),
        resources=_resources(run, record, cost),
    )


def _requested(run: Run, snapshot: Snapshot | None) -> Requested:
    manager, result = run.loop.manager, run.loop.result
    unjudged = SloStatus.UNKNOWN if manager.slo else SloStatus.NONE
    return Requested(
        mode=manager.mode,
        slo=SloInForce.of(manager.slo, snapshot.input_rate_per_s if snapshot else None) if manager.slo else None,
        slo_status=result.slo_status if result else unjudged,
        batching=run.bundling.status,
        announced=ComingBody.all_of(run.announced, time()),
    )


def _changes(loop: ControlLoop, at: Clock, run: str | None) -> Changes:
    journal = loop.journal
    decisions, switches, quiet = journal.decisions, journal.switches, journal.no_changes
    return Changes(
        switches=journal.switch_count,
        resizes=journal.resize_count,
        last_decision=Decision.of(journal.with_switches(decisions[-1]), at, run) if decisions else None,
        last_switch=Switch.of(switches[-1], at) if switches else None,
        output_gap_ms=Gaps.of(loop.handovers.gaps),
        no_change=quiet[-1].reason if quiet else None,
    )


def _health(run: Run, runner: RunnerStatus, snapshot: Snapshot | None, at: Clock) -> RunnerHealth:
    view, failures = run.loop.engine.view(), run.loop.failures
    blocked = blocked_by(view, snapshot, run.blocked)
    losses = enumerate(failures.losses, failures.count - len(failures.losses) + 1)
    return RunnerHealth(
        failure=runner.failure,
        runner_pid=os.getpid(),
        runner=runner.runner,
        restarts=view.restarts,
        losses=[
            LostWorker(number=n, at=at(each.at_s), id=each.lost[0], pid=each.pid, node=each.node, reason=each.reason)
            for n, each in losses
        ],
        held_up="; ".join(blocked.values()) or None,
        held_up_by=list(blocked),
    )


def _resources(run: Run, record: Record, cost: Cost | None) -> Resources:
    telemetry, link = record.telemetry, run.checked.link
    return Resources(
        in_flight_by_stage=dict(run.loop.engine.view().positions),
        budgets=run.budgets,
        grant=GrantBody.of(run.loop.manager.granted),
        cost=cost,
        worker_memory=list(record.usage.memory.values()) or None,
        telemetry=telemetry.status() if telemetry else None,
        spark=SparkStatus.model_validate(link.status()) if link else None,
    )


def cost_of(run: Run, record: Record) -> Cost | None:
    """Return the cores and workers in use; None before anything was measured."""
    snapshot = run.loop.snapshot
    return None if snapshot is None else record.usage.cost(run.loop.engine.view().workers, snapshot.cores)


# --- parts that block the stream --------------------------------------------------------------------------------------


def blocked_by(
    view: DispatcherView, snapshot: Snapshot | None, faults: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return a sentence for each part of ``BLOCKED_BY`` that blocks the stream; empty if none does.

    ``faults``: sentences about what cannot be read or written now.
    """
    reasons: dict[str, str] = {}
    for part, reason in chain((faults or {}).items(), _few_workers(view), _overdue(snapshot), _stalled(snapshot)):
        reasons.setdefault(part, reason)
    return reasons


def _few_workers(view: DispatcherView) -> Iterator[tuple[str, str]]:
    if not view.short_of_workers:
        return
    workers, groups = len(view.workers), len(view.composition.groups)
    if view.composition.dyn is not None and workers >= view.composition.workers:
        return  # these workers change groups by design
    yield "workers", f"{workers} {'worker' if workers == 1 else 'workers'} for {groups} groups, shared in turn"


def _overdue(snapshot: Snapshot | None) -> Iterator[tuple[str, str]]:
    demand = snapshot.demand if snapshot else None
    if demand is not None and demand.lag_s > LATE_S:
        yield "backlog", f"the source is held back: the next item is overdue by {demand.lag_s:.1f} s"


def _stalled(snapshot: Snapshot | None) -> Iterator[tuple[str, str]]:
    still_s = stalled_s(snapshot) if snapshot else None
    if still_s is not None:
        yield "stages", f"nothing has come out for {still_s:.0f} s"
