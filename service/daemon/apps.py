"""Apps are started, stopped, and told how to run."""

from __future__ import annotations

from typing import Any

from control.decisions import Mode
from service.bodies.apps import AppInfo
from service.bodies.refusals import BadValueError, ConflictError
from service.bodies.spec import BatchingSpec, InputSpec, RunSpec
from service.bodies.status import Status
from service.daemon.checks import (
    check_batching,
    check_composition,
    check_input,
    check_objectives,
    check_settings,
    check_sink,
    check_source,
)
from service.daemon.choices import Choices
from service.daemon.observation import Observation
from service.daemon.runs import Runs
from service.daemon.specs import Specs
from service.daemon.storing.store import DaemonStore, Started
from service.running.asking.requests import PushMany, SetBatching, SetInput, SetMode, Taken

STOP_TIMEOUT_S = 600.0
"""For a stop that the user asks for. What was accepted is delivered however slow the stages are; a hung one has its own
time limit, so this one is only against what we did not think of."""


class Apps:
    """Answers are the app's status. All but ``all`` raise NotFoundError for an app that is not registered."""

    def __init__(
        self, runs: Runs, choices: Choices, specs: Specs, store: DaemonStore, observation: Observation
    ) -> None:
        self._runs, self._choices, self._specs = runs, choices, specs
        self._store, self._observation = store, observation

    def all(self) -> list[AppInfo]:
        return [
            AppInfo.of(app, self._choices.of(name), self._observation.status(name).state)
            for name, app in self._runs.apps.items()
        ]

    def start(self, spec: RunSpec) -> Status:
        """Its runner comes up in the background. Raises: ConflictError when it runs already, BadValueError."""
        self._runs.app(spec.app)
        self._check(spec)
        with self._runs.changing(spec.app):
            if self._runs.present(spec.app) is not None:
                raise ConflictError(f"{spec.app} is running already; stop it with POST /apps/{spec.app}/stop")
            started = Started(self._specs.complete(spec), self._store.last_decision_id(spec.app))
            self._store.put_started(spec.app, started.alone)
            self._runs.begin(started)
        return self._observation.status(spec.app)

    def _check(self, spec: RunSpec) -> None:
        choices = self._specs.compositions(spec)
        check_source(spec)
        check_sink(spec.sink)
        check_input(spec.input, spec.apps_dirs)
        check_batching(spec.batching)
        check_settings(spec)
        stored = self._store.slo(spec.app)
        check_objectives(spec.strategy, stored.slo if stored else None)
        check_composition(spec.app, spec.composition, choices, self._runs.cores())

    def stop(self, name: str) -> Status:
        """Delivers what was accepted, then ends the runner. Raises: ConflictError when it is not running."""
        self._runs.app(name)
        with self._runs.changing(name):
            watchdog = self._runs.expect(name)
            watchdog.wanted.forget()
            watchdog.stop(True, STOP_TIMEOUT_S)
        return self._observation.status(name)

    def running_spec(self, name: str) -> RunSpec | None:
        """What runs, with what it was told since; None: nothing does."""
        present = self._runs.present(name)
        return None if present is None else present.wanted.spec

    def set_input(self, name: str, input: InputSpec) -> Status:
        """Raises: ConflictError, BadValueError, UnavailableError."""
        watchdog = self._runs.expect(name)
        check_input(input, watchdog.wanted.spec.apps_dirs)
        watchdog.change(SetInput(input))
        return self._observation.status(name)

    def set_batching(self, name: str, batching: BatchingSpec) -> Status:
        """Where the active composition says nothing of its own. Raises: as ``set_input``."""
        watchdog = self._runs.expect(name)
        check_batching(batching)
        watchdog.change(SetBatching(batching))
        return self._observation.status(name)

    def set_mode(self, name: str, mode: Mode, composition: str | None) -> Status:
        """``pinned`` without a composition pins the active one. Raises: as ``set_input``."""
        watchdog = self._runs.expect(name)
        check_composition(name, composition, watchdog.wanted.spec.compositions, self._runs.cores())
        if composition is not None and mode is not Mode.PINNED:
            raise BadValueError(f"composition {composition!r} goes with mode pinned only, not with {mode}")
        if mode is Mode.PINNED and composition is None:
            composition = self._active(watchdog.wanted.spec)
        watchdog.change(SetMode(mode, composition))
        return self._observation.status(name)

    def _active(self, spec: RunSpec) -> str | None:
        """None when it is not known yet, or is none that can be chosen."""
        active = self._observation.status(spec.app).composition
        known = {each.name for each in spec.compositions}
        return active.name if active is not None and active.name in known else None

    def push(self, name: str, value: Any) -> Taken:
        """Of one item. Raises: as ``push_many``; BufferFull; what the app refuses."""
        taken = self.push_many(name, (value,))
        if taken.refusal is not None:
            raise taken.refusal
        return taken

    def push_many(self, name: str, values: tuple[Any, ...]) -> Taken:
        """Those before the first that is refused. Raises: ConflictError, UnavailableError."""
        return self._runs.pushed_into(name).ask(PushMany(values))
