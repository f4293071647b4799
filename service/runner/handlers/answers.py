"""Answer requests to a runner: in the loop's thread during a run, otherwise at once."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from time import monotonic, time

from apps.contract import App
from control.arbitration.arbiter import Bid
from control.decisions import State
from control.reading import stalled_s
from control.what_if import Present, Question, outlook
from profiler.slo import SloStatus
from profiler.snapshot import Snapshot
from runtime.dispatch.views import DispatcherView
from service.runner.loop import ControlLoop
from service.runner.rpc import requests as ask
from service.runner.rpc.port import Answers, Mailbox
from service.runner.rpc.window import Window
from service.runner.telemetry.accounts import WallClock, refused_by
from service.runner.telemetry.record import Record
from service.runner.validation.checked import CheckedSpec
from service.runner.validation.resolution import rate_of
from service.runner.wiring.run import Run
from service.schemas import figures
from service.schemas import status as bodies
from service.schemas.base import Clock, ms, rounded, utc_now
from service.schemas.compositions import ActiveComposition, Choice, WhatIf, what_if_body
from service.schemas.decisions import Decision, QuietRun, Switch
from service.schemas.refusals import UnavailableError
from service.schemas.results import Summary
from service.schemas.slo import GrantBody, SloInForce
from service.schemas.spec import RunSpec

LATE_S = 1.0
"""Lateness in seconds beyond which an item is overdue, not merely waiting for its turn."""


@dataclass(slots=True)
class RunnerStatus:
    """State, failure and location of a runner. The loop's thread changes them, any thread may read them."""

    state: State = State.STARTING
    failure: str | None = None
    began_at: str = field(default_factory=utc_now)
    node: str = "local"

    @property
    def runner(self) -> bodies.RunnerBody:
        return bodies.RunnerBody(pid=os.getpid(), node=self.node, since=self.began_at)

    def at_rest(self, app: type[App], spec: RunSpec) -> bodies.Status:
        """Return the part of the status that is known without a run."""
        health = bodies.RunnerHealth(failure=self.failure, runner_pid=os.getpid(), runner=self.runner)
        origin = bodies.Origin.of(spec, began_at=self.began_at)
        return bodies.resting(app, self.state, spec, None, health).but(origin=origin)


def status_of(run: Run, record: Record, runner: RunnerStatus) -> bodies.Status:
    """Return the status of a run, from its parts."""
    loop, checked = run.loop, run.checked
    view, snapshot, slo = loop.engine.view(), loop.snapshot, loop.manager.slo
    cost = cost_of(run, record)
    workers = [figures.Worker.model_validate(each) for each in view.workers]
    return bodies.Status.taken_from(
        *(runner, view),
        app=type(checked.app).name,
        composition=ActiveComposition.of(view.composition),
        input_rate_per_s=rounded(snapshot.input_rate_per_s) if snapshot else None,
        throughput_per_s=rounded(snapshot.throughput_per_s) if snapshot else None,
        latency_ms=figures.Latency.of(snapshot.latency if snapshot else None, slo.share_asked if slo else None),
        stages=figures.StageStatus.all_of(checked.stages, snapshot),
        items=run.items,
        drain=figures.Drain.taken_from(loop.handovers.drain.status()),
        workers=workers if cost is None else [record.usage.of(each) for each in workers],
        updated_at=utc_now(),
        requested=_requested(run, snapshot),
        changes=_changes(loop, record.clock.text, checked.spec.origin.run),
        origin=bodies.Origin.of(checked.spec, began_at=runner.began_at),
        demand=figures.Demand.of(snapshot, loop.monitor.latencies, record.summary.slo_met_share, refused_by(run)),
        health=_health(run, runner, snapshot, record.clock.text),
        resources=_resources(run, record, cost),
    )


def _requested(run: Run, snapshot: Snapshot | None) -> bodies.Requested:
    manager, result = run.loop.manager, run.loop.result
    unjudged = SloStatus.UNKNOWN if manager.slo else SloStatus.NONE
    return bodies.Requested(
        mode=manager.mode,
        slo=SloInForce.of(manager.slo, snapshot.input_rate_per_s if snapshot else None) if manager.slo else None,
        slo_status=result.slo_status if result else unjudged,
        batching=run.bundling.status,
        announced=figures.ComingBody.all_of(run.announced, time()),
    )


def _changes(loop: ControlLoop, at: Clock, run: str | None) -> bodies.Changes:
    journal = loop.journal
    decisions, switches, quiet = journal.decisions, journal.switches, journal.no_changes
    return bodies.Changes(
        switches=journal.switch_count,
        resizes=journal.resize_count,
        last_decision=Decision.of(journal.with_switches(decisions[-1]), at, run) if decisions else None,
        last_switch=Switch.of(switches[-1], at) if switches else None,
        output_gap_ms=figures.Gaps.of(loop.handovers.gaps),
        no_change=quiet[-1].reason if quiet else None,
    )


def _health(run: Run, runner: RunnerStatus, snapshot: Snapshot | None, at: Clock) -> bodies.RunnerHealth:
    view, failures = run.loop.engine.view(), run.loop.failures
    blocked = blocked_by(view, snapshot, run.blocked)
    losses = enumerate(failures.losses, failures.count - len(failures.losses) + 1)
    return bodies.RunnerHealth.taken_from(
        *(runner, view),
        runner_pid=os.getpid(),
        losses=[figures.LostWorker.taken_from(each, number=n, at=at(each.at_s), id=each.lost[0]) for n, each in losses],
        held_up="; ".join(blocked.values()) or None,
        held_up_by=list(blocked),
    )


def _resources(run: Run, record: Record, cost: figures.Cost | None) -> bodies.Resources:
    telemetry, link, snapshot = record.telemetry, run.checked.link, run.loop.snapshot
    return bodies.Resources(
        in_flight_by_stage=dict(run.loop.engine.view().positions),
        budgets=run.budgets,
        grant=GrantBody.of(run.loop.manager.granted),
        cost=cost,
        placement=_placement(run.loop),
        worker_memory=list(record.usage.memory.values()) or None,
        proposed_resources=record.usage.proposed(run.checked.stages, snapshot) if snapshot else None,
        telemetry=telemetry.status() if telemetry else None,
        spark=bodies.SparkStatus.model_validate(link.status()) if link else None,
    )


def _placement(loop: ControlLoop) -> list[figures.Placed]:
    view = loop.engine.view()
    names = ["+".join(group.stages) for group in view.composition.groups]
    there: dict[str, Counter[str]] = {}
    for each in view.workers:
        there.setdefault(each.node, Counter())["" if each.group is None else names[each.group]] += 1
    hops_s = {node: loop.monitor.hops.on(node) for node in there}
    return [figures.Placed(node=node, workers=dict(on), hop_ms=ms(hops_s[node])) for node, on in sorted(there.items())]


def cost_of(run: Run, record: Record) -> figures.Cost | None:
    """Return the cores and workers in use; None before the first measurement."""
    snapshot = run.loop.snapshot
    return None if snapshot is None else record.usage.cost(run.loop.engine.view().workers, snapshot.cores)


# --- parts that block the stream --------------------------------------------------------------------------------------


def blocked_by(view: DispatcherView, seen: Snapshot | None, faults: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return a sentence for each part of ``BLOCKED_BY`` that blocks the stream. ``faults``: parts already known."""
    reasons: dict[str, str] = {}
    for part, reason in chain((faults or {}).items(), _few_workers(view), _overdue(seen), _stalled(seen)):
        reasons.setdefault(part, reason)
    return reasons


def _few_workers(view: DispatcherView) -> Iterator[tuple[str, str]]:
    if not view.short_of_workers:
        return
    workers, groups = len(view.workers), len(view.composition.groups)
    if view.composition.dyn is not None and workers >= view.composition.workers:
        return  # these workers change groups by design
    yield "workers", f"{workers} {'worker' if workers == 1 else 'workers'} for {groups} groups, served in turn"


def _overdue(snapshot: Snapshot | None) -> Iterator[tuple[str, str]]:
    demand = snapshot.demand if snapshot else None
    if demand is not None and demand.lag_s > LATE_S:
        yield "backlog", f"the source is held back: the next item is overdue by {demand.lag_s:.1f} s"


def _stalled(snapshot: Snapshot | None) -> Iterator[tuple[str, str]]:
    still_s = stalled_s(snapshot) if snapshot else None
    if still_s is not None:
        yield "stages", f"no item was delivered for {still_s:.0f} s"


class AtRest:
    """Handlers for a runner without a run, for any thread. Changes wait in the mailbox until a run begins."""

    def __init__(self, checked: CheckedSpec, runner: RunnerStatus, mailbox: Mailbox) -> None:
        self._spec, self._app = checked.spec, type(checked.app)
        self._runner, self._mailbox = runner, mailbox
        self._bid = Bid(None)

    def handlers(self) -> tuple[ask.Handler, ...]:
        changes = (ask.SetSlo, ask.SetInput, ask.SetBatching, ask.SetMode, ask.SetCompositions, ask.SetPlannedLoads)
        run = self._spec.origin.run
        return (
            *((each, lambda _: []) for each in ask.ReadList.__subclasses__()),
            *(each.by(self._change) for each in changes),
            ask.ReadStatus.by(lambda _: self._runner.at_rest(self._app, self._spec)),
            ask.ReadResults.by(Window(run).read),
            ask.ReadSummary.by(lambda _: Summary(run=run, failure=self._runner.failure)),
            ask.ReadWhatIf.by(self._what_if),
            ask.AskBid.by(lambda _: self._bid),
            ask.SetGrant.by(self._set_grant),
            ask.SetRate.by(self._later),
            ask.ResetGaps.by(lambda _: None),
        )

    def _what_if(self, _: ask.ReadWhatIf) -> WhatIf:
        raise UnavailableError(f"there are no measurements of {self._spec.app} yet; try again in a moment")

    def _set_grant(self, request: ask.SetGrant) -> None:
        self._bid = Bid(None, grant=request.grant)
        self._later(request)

    def _change(self, request: ask.Change) -> None:
        match request:
            case ask.SetInput(input):
                rate_of(input, self._spec.apps_dirs)
            case ask.SetBatching(batching):
                _ = batching.batching
        self._later(request)
        self._spec = ask.changed(self._spec, request)

    def _later(self, request: ask.Request[None]) -> None:
        self._mailbox.put(request)


class UnderWay:
    """Handlers of all requests to a run, for the loop's thread; they answer with bodies of the API."""

    def __init__(self, run: Run, record: Record, runner: RunnerStatus) -> None:
        self._run, self._record, self._runner = run, record, runner
        self._loop, self._manager, self._checked = run.loop, run.loop.manager, run.checked
        self._at, self._name = record.clock.text, run.checked.spec.origin.run

    def answers(self) -> Answers:
        apps_dirs, history = self._checked.spec.apps_dirs, self._record.history
        return Answers(
            ask.SetSlo.by(lambda request: self._manager.set_slo(request.slo)),
            ask.SetInput.by(lambda request: self._run.intake.set_rate(rate_of(request.input, apps_dirs))),
            ask.SetBatching.by(lambda request: self._run.bundling.set(request.batching.batching)),
            ask.SetRate.by(lambda request: self._run.intake.set_rate(request.rate)),
            ask.SetPlannedLoads.by(self._set_planned),
            ask.SetMode.by(self._set_mode),
            ask.SetCompositions.by(self._set_compositions),
            ask.SetGrant.by(lambda request: self._manager.grant(request.grant)),
            ask.ResetGaps.by(lambda _: self._loop.handovers.gaps.reset()),
            ask.ReadStatus.by(lambda _: status_of(self._run, self._record, self._runner)),
            ask.AskBid.by(self._bid),
            ask.ReadDecisions.by(self._decisions),
            ask.ReadNoChanges.by(self._no_changes),
            ask.ReadSizes.by(lambda request: self._run.bundling.changes(request.limit, self._at, self._name)),
            ask.ReadResults.by(lambda request: self._run.window.read(request)),  # noqa: PLW0108 - of now
            ask.ReadCompositions.by(self._compositions),
            ask.ReadHistory.by(lambda request: request.thin(history.since(monotonic() - request.last_s))),
            ask.ReadSummary.by(lambda _: self._record.summary.view(self._run, self._runner.failure)),
            ask.ReadWhatIf.by(self._what_if),
        )

    def _set_planned(self, request: ask.SetPlannedLoads) -> None:
        self._run.announced = request.announced
        epoch_s = WallClock.now().epoch_s  # the manager uses seconds of the loop's clock
        self._manager.announce([each.on_clock(epoch_s) for each in request.announced])

    def _set_mode(self, request: ask.SetMode) -> None:
        self._manager.set_mode(request.mode, request.composition)
        self._loop.look_now()

    def _set_compositions(self, request: ask.SetCompositions) -> None:
        self._run.compositions = request.compositions
        self._manager.set_compositions(request.compositions)

    def _bid(self, request: ask.AskBid) -> Bid:
        bid, cost = self._manager.bid(request.limits), cost_of(self._run, self._record)
        return bid if cost is None else replace(bid, uses=replace(bid.uses, cores=cost.cpu_cores))

    def _decisions(self, request: ask.ReadDecisions) -> list[Decision]:
        journal = self._loop.journal
        found = [each for each in journal.decisions if each.id > request.after_id][: request.limit]
        return [Decision.of(journal.with_switches(each), self._at, self._name) for each in found]

    def _no_changes(self, request: ask.ReadNoChanges) -> list[QuietRun]:
        return [QuietRun.of(each, self._at, self._name) for each in self._loop.journal.no_changes][-request.limit :]

    def _compositions(self, _: ask.ReadCompositions) -> list[Choice]:
        active, snapshot = self._loop.engine.view().composition, self._loop.snapshot
        return Choice.all_of(self._checked.spec.app, self._run.compositions, active, snapshot)

    def _what_if(self, request: ask.ReadWhatIf) -> WhatIf:
        checked, snapshot, choices = self._checked, self._loop.snapshot, self._manager.choices
        if snapshot is None:
            raise UnavailableError(f"there are no measurements of {checked.spec.app} yet; try again in a moment")
        known = Present(
            *(snapshot, self._loop.engine.view().composition, self._run.compositions, self._manager.objective),
            *(checked.strategy, checked.settings.manager, choices.unavailable(snapshot.now_s), choices.generated),
        )
        question = Question(request.cores, request.replicas, request.rate_per_s)
        return what_if_body(checked.spec.app, outlook(question, known))
