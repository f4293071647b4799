"""Runners that compute nothing and answer in the API's shapes, and a daemon of them: for tests of everything above."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from apps import registry
from compositions.errors import RecomposeError
from compositions.model import Composition, all_sequential
from control.arbitration.arbiter import Bid, Reach
from control.decisions import Grant, Mode, State, Trigger
from control.what_if import Option, Outlook, Question
from datapipe.sources.push import BufferFull
from profiler.budget import Budget
from profiler.slo import Slo
from service.daemon.daemon import Daemon
from service.daemon.store.store import DaemonStore
from service.daemon.supervision.runner_slot import LocalHost
from service.daemon.supervision.ticker import Ticker, TurnOnce
from service.runner.rpc import requests as r
from service.runner.rpc.port import ANSWER_S, Answers
from service.runner.rpc.requests import AskBid, SetGrant, SetMode, SetSlo, changed
from service.runner.rpc.vital import Vital
from service.runner.rpc.window import Window
from service.schemas.base import utc_now
from service.schemas.compositions import ActiveComposition, Choice, WhatIf, what_if_body
from service.schemas.decisions import Decision, QuietRun
from service.schemas.figures import Items
from service.schemas.results import Result, Summary
from service.schemas.slo import GrantBody
from service.schemas.spec import RunSpec
from service.schemas.status import Sample, Status, resting
from tests.support.bodies import having


def quiet_run(at: str, run: str | None) -> QuietRun:
    return QuietRun(reason="no SLO is set", first_at=at, last_at=at, count=1, run=run)


def decision(number: int, trigger: Trigger, before: str, to: str, run: str | None) -> Decision:
    nothing = {"candidates": [], "trials": 0, "duration_s": 0.0}
    nothing |= dict.fromkeys(("gap_ms", "drain_estimate_ms", "drain_actual_ms"))
    reason = f"told to run {to}"
    return Decision(id=number, at=utc_now(), trigger=trigger, from_=before, to=to, reason=reason, run=run, **nothing)


@dataclass(slots=True)
class Share:
    """Of a machine's budget."""

    needs: int = 1
    """Units, for all of its objective."""
    switching: bool = False
    """Nobody can tell for a while."""
    grant: Grant | None = None

    def keep_to(self, request: SetGrant) -> None:
        self.grant = request.grant

    def bid(self, request: AskBid, mode: Mode, active: Composition) -> Bid:
        """With fewer units it does in proportion."""
        uses = Budget(workers=active.workers)
        if mode is not Mode.AUTO or self.switching:
            return Bid(None, mode is Mode.AUTO, uses, self.grant)
        reach = tuple(Reach(min(1.0, units / self.needs), f"{units} wide") for units, _ in enumerate(request.limits, 1))
        return Bid(reach, uses=uses, grant=self.grant)


BUFFER = 4


A = TypeVar("A")


class FakeRunner:
    """Delivers every pushed item unchanged, at once, unless ``hold`` is set; then they wait in its buffer of four."""

    def __init__(self, spec: RunSpec) -> None:
        self.spec = spec
        self.app = registry.find(spec.app)
        self.state = State.STARTING
        self.hold = False
        self.waiting: list[Any] = []
        self.delivered: list[Result] = []
        self.decided: list[Decision] = []
        self.active = self._named(spec.composition) or self._choices()[0]
        self.began = utc_now()
        self.killed = False
        self.share = Share()
        self._answers = Answers(*self._changes(), *self._reads())

    def ask(self, request: r.Request[A], *, timeout_s: float = ANSWER_S) -> A:
        if self.killed:
            raise ConnectionError("the runner was killed")
        return self._answers.answer(request)

    def vital(self) -> Vital:
        return Vital.DEAD if self.killed else Vital.REACHABLE

    def kill(self) -> None:
        self.killed = True

    def start(self) -> None:
        if self.decided:
            return
        self.state = State.STABLE
        self._decide(Trigger.START, self.active.name)

    def stop(self, drain: bool = True) -> None:
        if drain:
            self.release()
        self.state = State.STOPPED

    def status(self) -> Status:
        last = self.decided[-1] if self.decided else None
        known, waiting, out = resting(self.app, self.state, self.spec, last), len(self.waiting), len(self.delivered)
        moved = {
            "composition": ActiveComposition.of(self.active),
            "input_rate_per_s": self.spec.input.rate_per_s,
            "queued": waiting,
            "items": Items(accepted=out + waiting, delivered=out, failed=0, shed=0),
            "switches": max(len(self.decided) - 1, 0),
            "grant": GrantBody.of(self.share.grant),
        }
        return having(known, moved)

    def set_slo(self, slo: Slo | None) -> None:
        self.spec = changed(self.spec, SetSlo(slo))

    def set_mode(self, mode: Mode, composition: str | None) -> None:
        self.spec = changed(self.spec, SetMode(mode, composition))
        wanted = self._named(composition)
        if wanted is not None and wanted != self.active:
            self.active = wanted
            self._decide(Trigger.MANUAL, wanted.name)

    def push_many(self, request: r.PushMany) -> r.Taken:
        serials: list[int] = []
        try:
            serials.extend(map(self.push, request.values))
        except RecomposeError as error:
            return r.Taken(serials, error, self.spec.origin.run)
        return r.Taken(serials, None, self.spec.origin.run)

    def push(self, value: Any) -> int:
        if value == "refuse me":
            raise RecomposeError(f"item {value!r} is refused by {self.spec.app}")
        if len(self.waiting) >= BUFFER:
            raise BufferFull(f"the input buffer holds {BUFFER} items and is full; try again later")
        serial = len(self.delivered) + len(self.waiting)
        self.waiting.append(value)
        if not self.hold:
            self.release()
        return serial

    def release(self) -> None:
        """Delivers what waits."""
        for value in self.waiting:
            self.delivered.append(Result(serial=len(self.delivered), value=value))
        self.waiting.clear()

    def _choices(self) -> tuple[Composition, ...]:
        return self.spec.compositions or (all_sequential(self.app.stages),)

    def _named(self, name: str | None) -> Composition | None:
        return next((each for each in self._choices() if each.name == name), None)

    def _decide(self, trigger: Trigger, to: str) -> None:
        before = self.decided[-1].to if self.decided else to
        self.decided.append(decision(len(self.decided) + 1, trigger, before, to, self.spec.origin.run))

    def _changes(self) -> tuple[r.Handler, ...]:
        return (
            r.Start.by(lambda _: self.start()),
            r.Stop.by(lambda request: self.stop(request.drain)),
            r.PushMany.by(self.push_many),
            r.SetMode.by(lambda request: self.set_mode(request.mode, request.composition)),
            r.SetSlo.by(lambda request: self.set_slo(request.slo)),
            r.SetInput.by(self._note),
            r.SetBatching.by(self._note),
            r.SetCompositions.by(self._note),
            r.SetRate.by(lambda _: None),
            r.SetPlannedLoads.by(self._note),
            r.SetGrant.by(self.share.keep_to),
            r.ResetGaps.by(lambda _: None),
        )

    def _reads(self) -> tuple[r.Handler, ...]:
        return (
            r.ReadSpec.by(lambda _: self.spec),
            r.ReadStatus.by(lambda _: self.status()),
            r.AskBid.by(lambda request: self.share.bid(request, self.spec.mode, self.active)),
            r.ReadDecisions.by(lambda ask: [each for each in self.decided if each.id > ask.after_id][: ask.limit]),
            r.ReadNoChanges.by(lambda ask: self.quiet_runs()[-ask.limit :]),
            r.ReadSizes.by(lambda _: []),
            r.ReadResults.by(lambda request: self.window().read(request)),
            r.ReadCompositions.by(lambda _: self.compositions()),
            r.ReadHistory.by(lambda ask: ask.thin(self.history(ask.last_s))),
            r.ReadWhatIf.by(self.what_if),
            r.ReadSummary.by(lambda _: self.summary()),
        )

    def _note(self, request: r.SetInput | r.SetBatching | r.SetPlannedLoads | r.SetCompositions) -> None:
        self.spec = r.changed(self.spec, request)

    def summary(self) -> Summary:
        return Summary(app=self.spec.app, run=self.spec.origin.run, composition=self.active.name)

    def window(self) -> Window:
        out = len(self.delivered)
        return Window(self.spec.origin.run, self.delivered, out, out + len(self.waiting))

    def history(self, last_s: float) -> list[Sample]:
        """It keeps none; a scene may."""
        return []

    def quiet_runs(self) -> list[QuietRun]:
        return [] if self.spec.slo else [quiet_run(self.began, self.spec.origin.run)]

    def compositions(self) -> list[Choice]:
        return [Choice.offered(self.spec.app, each, each.name == self.active.name) for each in self._choices()]

    def what_if(self, asked: r.ReadWhatIf) -> WhatIf:
        options = tuple(Option(each, None, None, each.name == self.active.name) for each in self._choices())
        question = Question(asked.cores, asked.replicas, asked.rate_per_s)
        found = Outlook(question, asked.cores, asked.rate_per_s, None, "nothing is measured here", options)
        return what_if_body(self.spec.app, found)


class PromptTicker(Ticker):
    """Takes the first turns at once instead of in a thread: the runner is up when ``start`` returns."""

    def start(self, turn: TurnOnce) -> None:
        turn()
        turn()


def fake_daemon(store: DaemonStore, names: Sequence[str] = ("synthetic",)) -> Daemon:
    """Of some registered apps."""
    apps = {name: registry.find(name) for name in names}
    return Daemon(apps, LocalHost(FakeRunner), store, make_ticker=PromptTicker)
