"""A runner without stages or workers: it remembers what it was told and answers in the API's shapes.

For tests of everything above the Runner, and for clients that want a daemon without computing anything.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

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
from service.bodies.results import CheckedItems, Result, Summary
from service.bodies.spec import InputSpec, RunSpec
from service.bodies.status import Sample, Status, resting
from service.daemon import store as state_file
from service.daemon.hosts import LocalHost
from service.daemon.keeper import Keeper
from service.daemon.supervisor import Supervisor

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
        self._ended = threading.Event()

    def start(self) -> None:
        self.state = State.STABLE
        self._decide(Trigger.START, self.active.name)

    def stop(self, drain: bool = True, timeout_s: float = 30) -> None:
        if drain:
            self.release()
        self.state = State.STOPPED
        self._ended.set()

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
        self.spec = self.spec.model_copy(update={"slo": slo})

    def set_input(self, input: InputSpec) -> None:
        self.spec = self.spec.model_copy(update={"input": input})

    def set_mode(self, mode: Mode, composition: str | None) -> None:
        self.spec = self.spec.model_copy(update={"mode": mode})
        wanted = self._named(composition)
        if wanted is not None and wanted != self.active:
            self.active = wanted
            self._decide(Trigger.MANUAL, wanted.name)

    def set_compositions(self, compositions: tuple[Composition, ...]) -> None:
        self.spec = self.spec.model_copy(update={"compositions": compositions})

    def decisions(self, after_id: int, limit: int) -> list[Decision]:
        return [each for each in self.decided if each.id > after_id][:limit]

    def changes(self, limit: int) -> list[QuietRun]:
        run = QuietRun(reason="no SLO is set", first_at=self.began, last_at=self.began, count=1)
        return [] if self.spec.slo else [run]

    def results(self, after: int, limit: int) -> list[Result]:
        return [each for each in self.delivered if each.serial > after][:limit]

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

    def history(self, last_s: float) -> list[Sample]:
        return []

    def what_if(self, cores: int | None, replicas: int | None, rate_per_s: float | None) -> WhatIf:
        known = {"cores": cores, "replicas": replicas, "input_rate_per_s": rate_per_s}
        rows = [Possibility.model_validate(dict(each)) for each in self.compositions()]
        unknown = {"choice": None, "reason": "nothing is measured here", "left_out": 0}
        return WhatIf.model_validate({"app": self.spec.app, **known, **unknown, "compositions": rows})

    def wait(self, timeout_s: float) -> bool:
        return self._ended.wait(timeout_s)

    def summary(self) -> Summary:
        items = CheckedItems(lost=0, misordered=0, **dict(self.status().items))
        return Summary(items=items, composition=self.active.name)

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


class PromptKeeper(Keeper):
    """Takes its first turns at once instead of in a thread: the runner is up when ``start`` returns."""

    def start(self) -> None:
        self.step()
        self.step()


def fake_supervisor(state: state_file.State, names: Sequence[str] = ("synthetic",)) -> Supervisor:
    """A supervisor of some registered apps whose runners are fakes."""
    apps = {name: registry.find(name) for name in names}
    return Supervisor(apps, LocalHost(FakeRunner), state, make_keeper=PromptKeeper)
