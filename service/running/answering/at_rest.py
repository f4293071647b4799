"""What a runner answers while there is no run yet, or never was one: what is known without it.

Changes are put into the mailbox, and are carried out when the run is there to take them.
"""

from __future__ import annotations

from typing import Any

from control.arbitration.bid import Bid
from service.bodies.compositions import WhatIf
from service.bodies.refusals import UnavailableError
from service.bodies.results import Summary
from service.bodies.spec import RunSpec
from service.bodies.status import Status
from service.running.answering.standing import Standing
from service.running.asking import requests as ask
from service.running.asking.mailbox import Mailbox
from service.running.asking.window import Window
from service.running.checking.checked import CheckedSpec
from service.running.checking.rates import rate_of


class AtRest:
    """May be used from any thread."""

    def __init__(self, checked: CheckedSpec, standing: Standing, mailbox: Mailbox) -> None:
        self._spec: RunSpec = checked.spec
        self._app = type(checked.app)
        self._standing, self._mailbox = standing, mailbox
        self._bid = Bid(None)

    def handlers(self) -> tuple[ask.Handler, ...]:
        return (
            ask.ReadStatus.by(self._status),
            ask.AskBid.by(lambda _: self._bid),
            ask.ReadDecisions.by(_nothing),
            ask.ReadNoChanges.by(_nothing),
            ask.ReadSizes.by(_nothing),
            ask.ReadResults.by(Window(self._spec.run).read),
            ask.ReadCompositions.by(_nothing),
            ask.ReadHistory.by(_nothing),
            ask.ReadSwitches.by(_nothing),
            ask.ReadWhatIf.by(self._what_if),
            ask.ReadSummary.by(lambda _: Summary(run=self._spec.run, failure=self._standing.failure)),
            ask.SetSlo.by(self._set_slo),
            ask.SetInput.by(self._set_input),
            ask.SetBatching.by(self._set_batching),
            ask.SetGrant.by(self._set_grant),
            ask.SetMode.by(self._set_mode),
            ask.SetCompositions.by(self._set_compositions),
            ask.SetRate.by(self._later),
            ask.SetComing.by(self._set_coming),
            ask.ResetGaps.by(lambda _: None),
        )

    def _status(self, _: ask.ReadStatus) -> Status:
        return self._standing.status(self._app, self._spec)

    def _what_if(self, _: ask.ReadWhatIf) -> WhatIf:
        raise UnavailableError(f"nothing is measured of {self._spec.app} yet; try again in a moment")

    def _set_slo(self, request: ask.SetSlo) -> None:
        self._later(request, slo=request.slo)

    def _set_input(self, request: ask.SetInput) -> None:
        rate_of(request.input, self._spec.apps_dirs)
        self._later(request, input=request.input)

    def _set_batching(self, request: ask.SetBatching) -> None:
        _ = request.batching.batching
        self._later(request, batching=request.batching)

    def _set_coming(self, request: ask.SetComing) -> None:
        self._later(request, announced=request.coming)

    def _set_grant(self, request: ask.SetGrant) -> None:
        self._bid = Bid(None, grant=request.grant)
        self._later(request)

    def _set_mode(self, request: ask.SetMode) -> None:
        self._later(request, mode=request.mode)

    def _set_compositions(self, request: ask.SetCompositions) -> None:
        self._later(request, compositions=request.compositions)

    def _later(self, request: ask.Request[None], **told: Any) -> None:
        """``told``: what of the spec is another now."""
        self._mailbox.put(request)
        self._spec = self._spec.model_copy(update=told)


def _nothing(_: object) -> list[Any]:
    return []
