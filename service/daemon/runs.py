"""The present or last run of each app: one watchdog each, and what a run is made of."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from apps import registry
from apps.contract import App
from compositions.model import Composition
from service.bodies.refusals import ConflictError, NotFoundError, listed
from service.bodies.spec import RunSpec
from service.daemon.choices import Choices
from service.daemon.hosts import Host
from service.daemon.restart_policy import Starting, Up
from service.daemon.slot import Slot
from service.daemon.store import DaemonStore, Started
from service.daemon.ticker import Ticker
from service.daemon.watchdog import Watchdog
from service.running.shipped import choices_for


class Runs:
    """``base`` carries what all runs share: the directories of apps, the kind of pool, telemetry. Thread-safe."""

    def __init__(
        self, choices: Choices, host: Host, store: DaemonStore, base: RunSpec, make_ticker: Callable[[str], Ticker]
    ) -> None:
        self._choices, self._host, self._store, self._base = choices, host, store, base
        self._make_ticker = make_ticker
        self._watchdogs: dict[str, Watchdog] = {}
        self._changing = {name: threading.Lock() for name in choices.apps}

    @property
    def apps(self) -> Mapping[str, type[App]]:
        return self._choices.apps

    def app(self, name: str) -> type[App]:
        """Raises: NotFoundError."""
        if name not in self.apps:
            raise NotFoundError(f"there is no app {name!r}; registered are {listed(self.apps)}")
        return self.apps[name]

    def changing(self, name: str) -> AbstractContextManager[bool]:
        """Held while what ``name`` runs, or is to run, is changed."""
        return self._changing[name]

    # --- which there are ---

    def all(self) -> list[Watchdog]:
        return list(self._watchdogs.values())

    def last(self, name: str) -> Watchdog | None:
        """Of the present run or, when it is over, the last one. Raises: NotFoundError."""
        self.app(name)
        return self._watchdogs.get(name)

    def present(self, name: str) -> Watchdog | None:
        """Of the run that is coming up or up. Raises: NotFoundError."""
        last = self.last(name)
        return last if last is not None and isinstance(last.condition, Starting | Up) else None

    def up(self, name: str) -> Watchdog | None:
        """Of the run whose runner can be asked. Raises: NotFoundError."""
        last = self.last(name)
        return last if last is not None and isinstance(last.condition, Up) else None

    def expect(self, name: str) -> Watchdog:
        """As ``present``. Raises also: ConflictError."""
        found = self.present(name)
        if found is None:
            raise ConflictError(f"{name} is not running; start it with POST /apps/{name}/start")
        return found

    # --- a new one ---

    def begin(self, spec: RunSpec, first_decision: int, *, attach: bool = False) -> None:
        """Stores that it is to run, and has it brought up; ``attach``: where an earlier daemon left its runner."""
        started = Started(self._complete(spec), first_decision)
        self._store.put_started(spec.app, started)
        slot = Slot(f"recompose-{self._store.instance}-{spec.app}", self._host, attach=attach)
        watchdog = Watchdog(started, slot, self._store, self._make_ticker(spec.app))
        self._watchdogs[spec.app] = watchdog
        watchdog.start()

    def _complete(self, spec: RunSpec) -> RunSpec:
        stored = self._store.slo(spec.app)
        return spec.model_copy(
            update={
                "apps_dirs": self._base.apps_dirs,
                "pool": self._base.pool,
                "telemetry": self._base.telemetry,
                "compositions": self.choices_of(spec),
                "slo": stored.slo if stored else None,
            }
        )

    def choices_of(self, spec: RunSpec) -> tuple[Composition, ...]:
        """Those of the app that fit ``spec``, whose options may have changed its stages."""
        app = registry.create(spec.app, spec.options, [Path(folder) for folder in self._base.apps_dirs])
        return choices_for(app, self._choices.of(spec.app))
