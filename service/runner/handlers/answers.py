"""Answer requests to a runner: in the loop's thread while there is a run, at once while there is none."""

from dataclasses import replace
from time import monotonic

from control.arbitration.arbiter import Bid
from control.what_if import Present, Question, outlook
from service.runner.handlers.status import RunnerStatus, cost_of, status_of
from service.runner.rpc import requests as ask
from service.runner.rpc.mailbox import Answers, Mailbox
from service.runner.rpc.window import Window
from service.runner.telemetry.accounts import WallClock
from service.runner.telemetry.record import Record
from service.runner.validation.checked import CheckedSpec
from service.runner.validation.resolution import rate_of
from service.runner.wiring.run import Run
from service.schemas.compositions import Choice, WhatIf, what_if_body
from service.schemas.decisions import Decision, QuietRun
from service.schemas.refusals import UnavailableError
from service.schemas.results import Result, Summary


class AtRest:
    """Handlers for a runner whose run is not up yet, or never was; they may be used from any thread. Changes are put
    into the mailbox, and are carried out when the run is there to take them."""

    def __init__(self, checked: CheckedSpec, runner: RunnerStatus, mailbox: Mailbox) -> None:
        self._spec, self._app = checked.spec, type(checked.app)
        self._runner, self._mailbox = runner, mailbox
        self._bid = Bid(None)

    def handlers(self) -> tuple[ask.Handler, ...]:
        changes = (ask.SetSlo, ask.SetInput, ask.SetBatching, ask.SetMode, ask.SetCompositions, ask.SetPlannedLoads)
        run = self._spec.origin.run
        return (
            *(each.at_rest() for each in ask.ReadList.__subclasses__()),
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
        raise UnavailableError(f"nothing is measured of {self._spec.app} yet; try again in a moment")

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


def answers_of(run: Run, record: Record, runner: RunnerStatus) -> Answers:
    """Return the handlers of all requests, for the thread that the run belongs to."""
    return Answers(*Changes(run).handlers(), *Reads(run, record, runner).handlers())


class Changes:
    """Handlers of the requests that change a run."""

    def __init__(self, run: Run) -> None:
        self._run, self._manager = run, run.loop.manager

    def handlers(self) -> tuple[ask.Handler, ...]:
        apps_dirs = self._run.checked.spec.apps_dirs
        return (
            ask.SetSlo.by(lambda request: self._manager.set_slo(request.slo)),
            ask.SetInput.by(lambda request: self._run.intake.set_rate(rate_of(request.input, apps_dirs))),
            ask.SetBatching.by(lambda request: self._run.bundling.set(request.batching.batching)),
            ask.SetRate.by(lambda request: self._run.intake.set_rate(request.rate)),
            ask.SetPlannedLoads.by(self._set_planned),
            ask.SetMode.by(self._set_mode),
            ask.SetCompositions.by(self._set_compositions),
            ask.SetGrant.by(lambda request: self._manager.grant(request.grant)),
            ask.ResetGaps.by(lambda _: self._run.loop.handovers.gaps.reset()),
        )

    def _set_planned(self, request: ask.SetPlannedLoads) -> None:
        self._run.announced = request.coming
        epoch_s = WallClock.now().epoch_s  # the manager counts in seconds of the loop's clock
        self._manager.announce([each.on_clock(epoch_s) for each in request.coming])

    def _set_mode(self, request: ask.SetMode) -> None:
        self._manager.set_mode(request.mode, request.composition)
        self._run.loop.look_now()

    def _set_compositions(self, request: ask.SetCompositions) -> None:
        self._run.compositions = request.compositions
        self._manager.set_compositions(request.compositions)


class Reads:
    """Handlers of the requests that read a run; they answer with the bodies of the API."""

    def __init__(self, run: Run, record: Record, runner: RunnerStatus) -> None:
        self._run, self._record, self._runner = run, record, runner
        self._loop, self._checked = run.loop, run.checked
        self._at, self._name = record.clock.text, run.checked.spec.origin.run

    def handlers(self) -> tuple[ask.Handler, ...]:
        record = self._record
        return (
            ask.ReadStatus.by(lambda _: status_of(self._run, self._record, self._runner)),
            ask.AskBid.by(self._bid),
            ask.ReadDecisions.by(self._decisions),
            ask.ReadNoChanges.by(self._no_changes),
            ask.ReadSizes.by(lambda request: self._run.bundling.changes(request.limit, self._at, self._name)),
            ask.ReadResults.by(self._results),
            ask.ReadCompositions.by(self._compositions),
            ask.ReadHistory.by(lambda request: request.thin(record.history.since(monotonic() - request.last_s))),
            ask.ReadSummary.by(lambda _: self._record.summary.view(self._run, self._runner.failure)),
            ask.ReadWhatIf.by(self._what_if),
        )

    def _bid(self, request: ask.AskBid) -> Bid:
        bid, cost = self._loop.manager.bid(request.limits), cost_of(self._run, self._record)
        return bid if cost is None else replace(bid, uses=replace(bid.uses, cores=cost.cpu_cores))

    def _decisions(self, request: ask.ReadDecisions) -> list[Decision]:
        journal = self._loop.journal
        found = [each for each in journal.decisions if each.id > request.after_id][: request.limit]
        return [Decision.of(journal.with_switches(each), self._at, self._name) for each in found]

    def _results(self, request: ask.ReadResults) -> list[Result]:
        return self._run.window.read(request)

    def _no_changes(self, request: ask.ReadNoChanges) -> list[QuietRun]:
        return [QuietRun.of(each, self._at, self._name) for each in self._loop.journal.no_changes][-request.limit :]

    def _compositions(self, _: ask.ReadCompositions) -> list[Choice]:
        active, snapshot = self._loop.engine.view().composition, self._loop.snapshot
        return Choice.all_of(self._checked.spec.app, self._run.compositions, active, snapshot)

    def _what_if(self, request: ask.ReadWhatIf) -> WhatIf:
        loop, checked = self._loop, self._checked
        if loop.snapshot is None:
            raise UnavailableError(f"nothing is measured of {checked.spec.app} yet; try again in a moment")
        active, objective = loop.engine.view().composition, loop.manager.objective
        choices, now_s = loop.manager.choices, loop.snapshot.now_s
        known = Present(
            *(loop.snapshot, active, self._run.compositions, objective, checked.strategy, checked.settings.manager),
            choices.unavailable(now_s),
            choices.generated,
        )
        question = Question(request.cores, request.replicas, request.rate_per_s)
        return what_if_body(checked.spec.app, outlook(question, known))
