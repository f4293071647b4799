"""What would be chosen under other circumstances; answered in the loop's thread."""

from __future__ import annotations

from control.what_if import Present, Question, outlook
from service.bodies.compositions import WhatIf
from service.bodies.refusals import UnavailableError
from service.bodies.what_if import what_if_body
from service.running.asking.requests import Handler, ReadWhatIf
from service.running.building.run import Run


class WhatIfs:
    """Of one run."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def handlers(self) -> tuple[Handler, ...]:
        return (ReadWhatIf.by(self._answer),)

    def _answer(self, request: ReadWhatIf) -> WhatIf:
        loop, checked = self._run.loop, self._run.checked
        if loop.snapshot is None:
            raise UnavailableError(f"nothing is measured of {checked.spec.app} yet; try again in a moment")
        active, objective = loop.engine.view().composition, loop.manager.objective
        choices, settings = self._run.compositions, checked.settings.manager
        known = Present(loop.snapshot, active, choices, objective, checked.strategy, settings, checked.stages)
        question = Question(request.cores, request.replicas, request.rate_per_s)
        return what_if_body(checked.spec.app, outlook(question, known))
