"""The port of a pilot, which steers a simulated run instead of a strategy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from compositions.model import Composition
from control.choices import Choices
from control.decisions import NoChange, State, SwitchTo
from control.manager import Manager, TickResult
from control.settings import Settings
from control.strategies.base import Static
from profiler.slo import Slo, SloStatus
from profiler.snapshot import Snapshot
from runtime.dispatch.outcomes import Outcome
from runtime.dispatch.views import DispatcherView


class Pilot(Protocol):
    """A pilot, which is called at every turn of the manager."""

    def observe(self, outcome: Outcome) -> None:
        """Observe the events since the last turn."""

    def decide(self, snapshot: Snapshot, view: DispatcherView) -> Composition | None:
        """Return the composition from now on; None: no change."""


class Piloted(Manager):
    """A manager that applies its pilot's choice as soon as no change is in progress; ``look`` reads the dispatcher."""

    def __init__(
        self, settings: Settings, choices: Choices, slo: Slo | None, pilot: Pilot, look: Callable[[], DispatcherView]
    ) -> None:
        super().__init__(settings, Static(), choices, slo=slo)
        self._pilot, self._look = pilot, look
        self._wanted: Composition | None = None

    def tick(self, now_s: float, snapshot: Snapshot) -> TickResult:
        view = self._look()
        self._wanted = self._pilot.decide(snapshot, view) or self._wanted
        wanted = self._wanted
        change = wanted is not None and not view.switching and wanted.shape != view.composition.shape
        commands = (SwitchTo(wanted),) if change and wanted is not None else ()
        said = NoChange(now_s, "a pilot decides")
        return TickResult(commands, said, State.STABLE, SloStatus.UNKNOWN)
