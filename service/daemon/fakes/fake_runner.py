"""A runner that computes nothing and answers in the API's shapes.

For tests of everything above the runner, and for clients that want a daemon without computing anything.
"""

from __future__ import annotations

from typing import TypeVar

from service.bodies.base import utc_now
from service.bodies.compositions import Choice, WhatIf
from service.bodies.decisions import QuietRun
from service.bodies.results import Summary
from service.bodies.spec import RunSpec
from service.bodies.status import Sample, Status
from service.daemon.fakes import fake_bodies as bodies
from service.daemon.fakes.fake_run import FakeRun
from service.running.asking import requests as r
from service.running.asking.mailbox import Answers
from service.running.asking.port import ANSWER_S
from service.running.asking.window import Window

A = TypeVar("A")


class FakeRunner(FakeRun):
    """A fake run behind the port."""

    def __init__(self, spec: RunSpec) -> None:
        super().__init__(spec)
        self.began = utc_now()
        self.killed = False
        self.share = bodies.Share()
        self._answers = Answers(*self._changes(), *self._reads())

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
            r.PushMany.by(lambda request: r.Taken.by(self.push, request.values, self.spec.run)),
            r.SetMode.by(lambda request: self.set_mode(request.mode, request.composition)),
            r.SetSlo.by(lambda request: self.set_slo(request.slo)),
            r.SetInput.by(self._note),
            r.SetBatching.by(self._note),
            r.SetCompositions.by(self._note),
            r.SetRate.by(lambda _: None),
            r.SetComing.by(self._note),
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
            r.ReadSwitches.by(lambda _: []),
            r.ReadSummary.by(lambda _: Summary(app=self.spec.app, run=self.spec.run, composition=self.active.name)),
        )

    def _note(self, request: r.SetInput | r.SetBatching | r.SetComing | r.SetCompositions) -> None:
        self.spec = r.changed(self.spec, request)

    def status(self) -> Status:
        return super().status().model_copy(update=self.share.told())

    def window(self) -> Window:
        out = len(self.delivered)
        return Window(self.spec.run, self.delivered, out, out + len(self.waiting))

    def history(self, last_s: float) -> list[Sample]:
        """It keeps none; a scene may."""
        return []

    def quiet_runs(self) -> list[QuietRun]:
        return [] if self.spec.slo else [bodies.quiet_run(self.began, self.spec.run)]

    def compositions(self) -> list[Choice]:
        return [Choice.offered(self.spec.app, each, each.name == self.active.name) for each in self._choices()]

    def what_if(self, question: r.ReadWhatIf) -> WhatIf:
        return bodies.what_if(question, self.spec.app, self._choices(), self.active.name)
