"""A run without stages or workers: it remembers what it was told, and what came in goes out."""

from __future__ import annotations

from typing import Any

from apps import registry
from apps.input.push import BufferFull
from compositions.errors import RecomposeError
from compositions.model import Composition, all_sequential
from control.decisions import Mode, State, Trigger
from profiler.slo import Slo
from service.bodies.decisions import Decision
from service.bodies.results import Result
from service.bodies.spec import RunSpec
from service.bodies.status import Status, resting
from service.daemon.fakes import fake_bodies as bodies
from service.running.asking.requests import SetMode, SetSlo, changed

BUFFER = 4


class FakeRun:
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
        known = resting(self.app, self.state, self.spec, last)
        figures = bodies.figures(self.active, self.spec, len(self.waiting), len(self.delivered))
        return known.model_copy(update=figures | {"switches": max(len(self.decided) - 1, 0)})

    def set_slo(self, slo: Slo | None) -> None:
        self.spec = changed(self.spec, SetSlo(slo))

    def set_mode(self, mode: Mode, composition: str | None) -> None:
        self.spec = changed(self.spec, SetMode(mode, composition))
        wanted = self._named(composition)
        if wanted is not None and wanted != self.active:
            self.active = wanted
            self._decide(Trigger.MANUAL, wanted.name)

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
        self.decided.append(bodies.decision(len(self.decided) + 1, trigger, before, to, self.spec.run))
