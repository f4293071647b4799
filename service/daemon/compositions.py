"""Manage compositions: list, add and remove them, reload a watched directory, predict their figures from a profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import structlog

from compositions.document import loader
from compositions.model import Composition, Stage
from service.daemon.choices import Choices, Specs
from service.daemon.observation import Observation
from service.daemon.runs import Runs
from service.daemon.supervision.desired_state import holding
from service.runner.rpc.requests import ReadCompositions, ReadWhatIf, SetCompositions
from service.schemas.compositions import Choice, WhatIf
from service.schemas.refusals import ConflictError

log = structlog.get_logger()


class Compositions:
    """Methods with a name raise NotFoundError for an app that is not registered."""

    def __init__(self, runs: Runs, choices: Choices, specs: Specs, observation: Observation) -> None:
        self._runs, self._choices, self._specs, self._observation = runs, choices, specs, observation

    @property
    def stages(self) -> dict[str, Sequence[Stage]]:
        """The stages of every app, as documents of compositions name them."""
        return self._choices.stages

    def of(self, name: str) -> list[Choice]:
        """Raises: UnavailableError when the runner does not answer."""
        up = self._runs.up(name)
        if up is not None:
            return up.ask(ReadCompositions())
        return [Choice.offered(name, each) for each in self._choices.of(name)]

    def what_if(self, name: str, question: ReadWhatIf) -> WhatIf:
        """Predictions under other circumstances. Raises: ConflictError when the app is not running."""
        return self._runs.expect(name).ask(question)

    def add(self, text: str | bytes) -> list[Choice]:
        """Adds or replaces the compositions of a YAML document.

        Raises: CompositionError with every fault; ConflictError when the active one would become another one;
        NotStoredError and UnavailableError, and then nothing was changed.
        """
        document = loader.load(text, self._choices.stages)
        with self._runs.changing(document.app):
            self._spare_those_in_use(document.app, document.compositions)
            with self._choices.added(document.app, document.compositions):
                self._apply(document.app)
        return self.of(document.app)

    def remove(self, name: str, composition: str) -> None:
        """Raises: ConflictError for the active or the only one; NotFoundError when there is none; else as ``add``."""
        self._runs.app(name)
        with self._runs.changing(name):
            if composition in self._in_use(name):
                raise ConflictError(f"{composition!r} is the active composition of {name}; switch to another one first")
            with self._choices.removed(name, composition):
                self._apply(name)

    def load_directory(self, found: Mapping[str, Sequence[Composition]]) -> None:
        """Apply the present content of the watched directory."""
        for name in self._choices.load_directory(found):
            with self._runs.changing(name):
                self._apply(name)

    def _in_use(self, name: str) -> dict[str, Composition]:
        """The active one and the one that is to be active, as they run."""
        watchdog = self._runs.present(name)
        if watchdog is None:
            return {}
        active = self._observation.status(name).composition
        names = {active.name if active else None, watchdog.desired.spec.composition}
        return {each.name: each for each in watchdog.desired.spec.compositions if each.name in names}

    def _spare_those_in_use(self, name: str, new: Sequence[Composition]) -> None:
        in_use = self._in_use(name)
        for each in new:
            if in_use.get(each.name, each) != each:
                how = "switch to another one first, or give the new one another name"
                raise ConflictError(f"{each.name!r} is the active composition of {name}; {how}")

    def _apply(self, name: str) -> None:
        watchdog = self._runs.present(name)
        if watchdog is None:
            return
        in_use = self._in_use(name)
        found = self._specs.compositions(watchdog.desired.spec)
        held = sorted(each for each in in_use if in_use[each] not in found)
        if held:
            log.warning("compositions in use stay as they are until the next start", app=name, compositions=held)
        watchdog.change(SetCompositions(holding(found, in_use)))
