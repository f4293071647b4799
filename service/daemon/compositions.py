"""What can be chosen from: shown with predictions where there is a profile, added, removed, watched in a directory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from compositions.document import loader
from compositions.model import Composition, Stage
from service.bodies.compositions import Choice, WhatIf
from service.bodies.refusals import ConflictError
from service.daemon.choices import Choices
from service.daemon.observation import Observation
from service.daemon.runs import Runs
from service.running.requests import ReadCompositions, ReadWhatIf, SetCompositions


class Compositions:
    """Methods with a name raise NotFoundError for an app that is not registered."""

    def __init__(self, runs: Runs, choices: Choices, observation: Observation) -> None:
        self._runs, self._choices, self._observation = runs, choices, observation

    @property
    def stages(self) -> dict[str, Sequence[Stage]]:
        """Of every app, as documents of compositions name them."""
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
        """Adds or replaces the compositions of a YAML document. Raises: CompositionError with every fault."""
        document = loader.load(text, self._choices.stages)
        with self._runs.changing(document.app):
            self._choices.add(document.app, document.compositions)
            self._apply(document.app)
        return self.of(document.app)

    def remove(self, name: str, composition: str) -> None:
        """Raises: ConflictError for the active or the only one, NotFoundError when there is no such composition."""
        self._runs.app(name)
        with self._runs.changing(name):
            if composition in self._in_use(name):
                raise ConflictError(f"{composition!r} is the active composition of {name}; switch to another one first")
            self._choices.remove(name, composition)
            self._apply(name)

    def load_directory(self, found: Mapping[str, Sequence[Composition]]) -> None:
        """What the watched directory holds now."""
        for name in self._choices.load_directory(found):
            with self._runs.changing(name):
                self._apply(name)

    def _in_use(self, name: str) -> set[str | None]:
        watchdog = self._runs.present(name)
        if watchdog is None:
            return set()
        active = self._observation.status(name).composition
        return {active.name if active else None, watchdog.spec.composition}

    def _apply(self, name: str) -> None:
        watchdog = self._runs.present(name)
        if watchdog is not None:
            watchdog.change(SetCompositions(self._runs.choices_of(watchdog.spec)))
