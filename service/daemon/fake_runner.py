"""A runner without stages or workers: it remembers what it was told and answers in the API's shapes.

For tests of everything above the Runner, and for clients that want a daemon without computing anything.
"""

from __future__ import annotations

from typing import Any, TypeVar

from apps import registry
from apps.input.sources import BufferFull
from compositions.errors import RecomposeError
from compositions.model import Composition, all_sequential
from control.decisions import Mode, State, Trigger
from profiler.slo import Slo
from service.bodies.base import utc_now
from service.bodies.compositions import ActiveComposition, Choice, Possibility, WhatIf
from service.bodies.decisions import Decision, QuietRun
from service.bodies.figures import Items
from service.bodies.results import Result, Summary
from service.bodies.spec import RunSpec
from service.bodies.status import Status, resting
from service.running import requests as r
from service.running.mailbox import Answers
from service.running.port import ANSWER_S

A = TypeVar("A")
BUFFER = 4


class FakeRunner:
    """Delivers every pushed item unchanged, at once, unless ``hold`` is set; then they wait in its buffer of four."""

    def __init__(self, spec: RunSpec) -> None:
        self.spec = spec
        self.app = registry.find(spec.app)
        self.state = State.STARTING
        self.began = utc_now()
        self.hold = False
        self.waiting: list[Any] = []
        self.delivered: list[Result] = []
        self.decided: list[Decision] = []
        self.active = self._named(spec.composition) or self._choices()[0]
        self.killed = False
        self._answers = Answers(*self._changes(), *self._reads())

    # --- the port ---

    def ask(self, request: r.Request[A], *, timeout_s: float = ANSWER_S) -> A:
        if self.killed:
            raise ConnectionError("the runner was killed")
        return self._answers.answer(request)

    def alive(self) -> bool:
        return not self.killed

    def kill(self) -> None:
        self.killed = True

    def _changes(self) -> tuple[r.Handler, ...]:
        return (
            r.Start.by(lambda _: self.start()),
            r.Stop.by(lambda request: self.stop(request.drain)),
            r.Push.by(lambda request: self.push(request.value)),
            r.SetMode.by(lambda request: self.set_mode(request.mode, request.composition)),
            r.SetSlo.by(lambda request: self.set_slo(request.slo)),
            r.SetInput.by(self._note),
            r.SetCompositions.by(self._note),
            r.SetRate.by(lambda _: None),
            r.ResetGaps.by(lambda _: None),
        )

    def _reads(self) -> tuple[r.Handler, ...]:
        return (
            r.ReadSpec.by(lambda _: self.spec),
            r.ReadStatus.by(lambda _: self.status()),
            r.ReadDecisions.by(lambda ask: [each for each in self.decided if each.id > ask.after_id][: ask.limit]),
            r.ReadNoChanges.by(lambda ask: self.quiet_runs()[-ask.limit :]),
            r.ReadResults.by(lambda ask: [each for each in self.delivered if each.serial > ask.after][: ask.limit]),
            r.ReadCompositions.by(lambda _: self.compositions()),
            r.ReadHistory.by(lambda _: []),
            r.ReadWhatIf.by(self.what_if),
            r.ReadSwitches.by(lambda _: []),
            r.ReadSummary.by(lambda _: Summary(app=self.spec.app, composition=self.active.name)),
        )

    def _note(self, request: r.SetInput | r.SetCompositions) -> None:
        self.spec = r.changed(self.spec, request)

    # --- what it does ---

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
        waiting, delivered = len(self.waiting), len(self.delivered)
        known = {
            "composition": ActiveComposition.of(self.active),
            "input_rate_per_s": self.spec.input.rate_per_s,
            "queued": waiting,
            "items": Items(accepted=delivered + waiting, delivered=delivered, failed=0, shed=0),
            "switches": len(self.decided) - 1 if self.decided else 0,
        }
        last = self.decided[-1] if self.decided else None
        return resting(self.app, self.state, self.spec, last).model_copy(update=known)

    def set_slo(self, slo: Slo | None) -> None:
        self.spec = r.changed(self.spec, r.SetSlo(slo))

    def set_mode(self, mode: Mode, composition: str | None) -> None:
        self.spec = r.changed(self.spec, r.SetMode(mode, composition))
        wanted = self._named(composition)
        if wanted is not None and wanted != self.active:
            self.active = wanted
            self._decide(Trigger.MANUAL, wanted.name)

    def quiet_runs(self) -> list[QuietRun]:
        run = QuietRun(reason="no SLO is set", first_at=self.began, last_at=self.began, count=1)
        return [] if self.spec.slo else [run]

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

    def compositions(self) -> list[Choice]:
        return [Choice.offered(self.spec.app, each, each.name == self.active.name) for each in self._choices()]

    def what_if(self, question: r.ReadWhatIf) -> WhatIf:
        rows = [self._unknown(each) for each in self._choices()]
        return WhatIf(
            app=self.spec.app,
            cores=question.cores,
            replicas=question.replicas,
            input_rate_per_s=question.rate_per_s,
            choice=None,
            reason="nothing is measured here",
            compositions=rows,
            left_out=0,
        )

    def _unknown(self, composition: Composition) -> Possibility:
        return Possibility(
            active=composition.name == self.active.name,
            predicted_throughput_per_s=None,
            predicted_latency_ms=None,
            **dict(ActiveComposition.of(composition)),
        )

    def _choices(self) -> tuple[Composition, ...]:
        return self.spec.compositions or (all_sequential(self.app.stages),)

    def _named(self, name: str | None) -> Composition | None:
        return next((each for each in self._choices() if each.name == name), None)

    def _decide(self, trigger: Trigger, to: str) -> None:
        decision = Decision(
            id=len(self.decided) + 1,
            at=utc_now(),
            trigger=trigger,
            from_=self.decided[-1].to if self.decided else to,
            to=to,
            reason=f"told to run {to}",
            candidates=[],
            trials=0,
            duration_s=0.0,
            gap_ms=None,
            drain_estimate_ms=None,
            drain_actual_ms=None,
        )
        self.decided.append(decision)
