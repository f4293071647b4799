"""The daemon's core without HTTP: which apps there are, which run, and what is asked of them.

Methods block (on a runner, on the disk) and may be called from any thread; the API calls them from a thread pool.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from apps import registry
from apps.contract import App
from compositions.document import loader
from compositions.model import Composition
from control.decisions import Mode
from control.decisions import State as AppState
from profiler.slo import INPUT_RATE, Slo
from service.bodies.apps import AppInfo
from service.bodies.compositions import Choice, WhatIf
from service.bodies.decisions import Entry, history_of
from service.bodies.refusals import BadValueError, ConflictError, NotFoundError, UnavailableError, listed
from service.bodies.results import Result
from service.bodies.slo import StoredSlo
from service.bodies.spec import InputSpec, RunSpec
from service.bodies.status import Sample, Status, resting
from service.daemon.catalogue import Catalogue
from service.daemon.checks import check_composition, check_input, check_source
from service.daemon.hosts import Host
from service.daemon.keeper import Keeper, Phase
from service.daemon.store import Started, State
from service.running.shipped import choices_for

STOP_TIMEOUT_S = 600.0
"""For a stop that the user asks for. What was accepted is delivered however slow the stages are; a hung one has its own
time limit, so this one is only against what we did not think of."""
CLOSE_TIMEOUT_S = 30.0
"""At the end of the daemon, whose own supervisor does not wait for long."""
KEPT_AFTER_END = {"stages", "items", "drain", "switches", "slo_met_share", "failure", "updated_at"}
"""What the last status of a run still tells when it has ended; rates and workers are gone."""


class Supervisor:
    """``base`` carries what all runs share: the directories of apps, and the kind of pool."""

    def __init__(
        self,
        apps: Mapping[str, type[App]],
        host: Host,
        state: State,
        base: RunSpec | None = None,
        *,
        make_keeper: Callable[..., Keeper] = Keeper,
    ) -> None:
        self.catalogue = Catalogue(apps, state)
        self._apps, self._host, self._state = apps, host, state
        self._base = base or RunSpec(app="")
        self._make_keeper = make_keeper
        self._keepers: dict[str, Keeper] = {}
        self._lock = threading.Lock()
        self._changing = {name: threading.Lock() for name in apps}
        self._restored = False

    # --- life of the daemon ---

    def restore(self) -> None:
        """Brings back what was running: attaches to runners that outlived the last daemon, starts the others."""
        for name, started in self._state.started().items():
            if name in self._apps:
                self._keep(self._complete(started.spec), started.first_decision, attach=True)
        self._restored = True

    def close(self, drain: bool = True) -> None:
        """Stops all runners at once, in parallel; they stay registered as started, for the next daemon."""
        keepers = list(self._keepers.values())
        threads = [threading.Thread(target=keeper.stop, args=(drain, CLOSE_TIMEOUT_S)) for keeper in keepers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def readiness(self) -> str | None:
        """None when ready, else what is missing."""
        if not self._restored:
            return "the apps that were running are not restored yet"
        return None if self._host.ready() else "Ray does not answer"

    # --- apps ---

    def apps(self) -> list[AppInfo]:
        return [AppInfo.of(app, self.catalogue.of(name), self.status(name).state) for name, app in self._apps.items()]

    def start(self, spec: RunSpec) -> Status:
        """Starts an app; its runner comes up in the background. Raises: NotFoundError, ConflictError, BadValueError."""
        self._check(spec)
        with self._changing[spec.app]:
            if self._running(spec.app):
                raise ConflictError(f"{spec.app} is running already; stop it with POST /apps/{spec.app}/stop")
            self._keep(self._complete(spec), self._state.last_decision_id(spec.app))
        return self.status(spec.app)

    def stop(self, name: str) -> Status:
        """Delivers what was accepted, then ends the runner."""
        self._app(name)
        with self._changing[name]:
            keeper = self._keeper(name)
            self._state.remove_started(name)
            keeper.stop(True, STOP_TIMEOUT_S)
            self._state.remove_started(name)  # the keeper may have stored its spec in between
        return self.status(name)

    def set_input(self, name: str, input: InputSpec) -> Status:
        keeper = self._keeper(name)
        check_input(input)
        keeper.change("set_input", (input,), input=input)
        return self.status(name)

    def set_mode(self, name: str, mode: Mode, composition: str | None) -> Status:
        """``pinned`` without a composition pins the active one."""
        keeper = self._keeper(name)
        check_composition(name, composition, keeper.spec.compositions)
        if composition is not None and mode is not Mode.PINNED:
            raise BadValueError(f"composition {composition!r} goes with mode pinned only, not with {mode}")
        update = {"mode": mode} | ({"composition": composition} if composition else {})
        keeper.change("set_mode", (mode, composition), **update)
        return self.status(name)

    def push(self, name: str, value: Any) -> int:
        keeper = self._keeper(name)
        if keeper.spec.source.kind != "push":
            raise ConflictError(f"the source of {name} is {keeper.spec.source.kind}; items are pushed into source push")
        return int(keeper.call("push", value))

    # --- objectives ---

    def set_slo(self, name: str, slo: Slo) -> StoredSlo:
        self._app(name)
        with self._changing[name]:
            stored = self._state.put_slo(name, slo)
            if self._running(name):
                self._keepers[name].change("set_slo", (slo,), slo=slo)
        return StoredSlo.stored(stored, self._input_rate(name, slo))

    def slo(self, name: str) -> StoredSlo:
        self._app(name)
        stored = self._state.slo(name)
        if stored is None:
            raise NotFoundError(f"{name} has no SLO; set one with POST /slo")
        return StoredSlo.stored(stored, self._input_rate(name, stored.slo))

    def slos(self) -> list[StoredSlo]:
        stored = [each for each in self._state.slos() if each.app in self._apps]
        return [StoredSlo.stored(each, self._input_rate(each.app, each.slo)) for each in stored]

    def remove_slo(self, name: str) -> None:
        self.slo(name)
        with self._changing[name]:
            self._state.remove_slo(name)
            if self._running(name):
                self._keepers[name].change("set_slo", (None,), slo=None)

    # --- what can be seen ---

    def names(self) -> list[str]:
        return list(self._apps)

    def statuses(self) -> list[Status]:
        return [self.status(name) for name in self._apps]

    def status(self, name: str) -> Status:
        """From the runner; its last words when it does not answer; what is known without it when it is not up."""
        app, keeper = self._app(name), self._keepers.get(name)
        if keeper is None:
            return self._resting(app, AppState.STOPPED, None)
        if keeper.phase is Phase.UP:
            return self._live(keeper) or self._resting(app, AppState.STARTING, keeper)
        if keeper.phase is Phase.ENDED and keeper.last_status:
            last = keeper.last_status
            kept = {name: getattr(last, name) for name in KEPT_AFTER_END & last.model_fields_set}
            return self._resting(app, last.state, keeper).model_copy(update=kept)
        state = {Phase.FAILED: AppState.FAILED, Phase.ENDED: AppState.STOPPED}.get(keeper.phase, AppState.STARTING)
        return self._resting(app, state, keeper)

    def decisions(self, name: str, limit: int) -> list[Entry]:
        self._app(name)
        keeper = self._keepers.get(name)
        if keeper is not None and keeper.phase is Phase.UP:
            self._pull(keeper)
        return history_of(self._state.decisions(name, limit), self._state.changes(name, limit), limit)

    def results(self, name: str, after: int, limit: int) -> list[Result]:
        """Of the present or the last run."""
        self._app(name)
        keeper = self._keepers.get(name)
        if keeper is None:
            return []
        if keeper.phase is Phase.UP:
            return list(keeper.call("results", after, limit))
        return [result for result in keeper.last_results if result.serial > after][:limit]

    def history(self, name: str, last_s: float) -> list[Sample]:
        """Of the present run; after its end, of its last quarter of an hour."""
        self._app(name)
        keeper = self._keepers.get(name)
        if keeper is None:
            return []
        return list(keeper.call("history", last_s)) if keeper.phase is Phase.UP else keeper.last_history

    # --- compositions ---

    def what_if(self, name: str, cores: int | None, replicas: int | None, rate_per_s: float | None) -> WhatIf:
        """Predictions under other circumstances. Raises: ConflictError when the app is not running."""
        found: WhatIf = self._keeper(name).call("what_if", cores, replicas, rate_per_s)
        return found

    def compositions(self, name: str) -> list[Choice]:
        self._app(name)
        keeper = self._keepers.get(name)
        if keeper is not None and keeper.phase is Phase.UP:
            return list(keeper.call("compositions"))
        return [Choice.offered(name, each) for each in self.catalogue.of(name)]

    def add_compositions(self, text: str | bytes) -> list[Choice]:
        """Adds or replaces the compositions of a YAML document. Raises: CompositionError with every fault."""
        document = loader.load(text, self.catalogue.stages)
        with self._changing[document.app]:
            self.catalogue.add(document.app, document.compositions)
            self._apply_compositions(document.app)
        return self.compositions(document.app)

    def remove_composition(self, name: str, composition: str) -> None:
        self._app(name)
        with self._changing[name]:
            active = self.status(name).composition
            if self._running(name) and composition in (active and active.name, self._keepers[name].spec.composition):
                raise ConflictError(f"{composition!r} is the active composition of {name}; switch to another one first")
            self.catalogue.remove(name, composition)
            self._apply_compositions(name)

    def load_directory(self, found: Mapping[str, Sequence[Composition]]) -> None:
        """What the watched directory holds now."""
        for name in self.catalogue.load_directory(found):
            with self._changing[name]:
                self._apply_compositions(name)

    # --- inside ---

    def _app(self, name: str) -> type[App]:
        if name not in self._apps:
            raise NotFoundError(f"there is no app {name!r}; registered are {listed(self._apps)}")
        return self._apps[name]

    def _running(self, name: str) -> bool:
        keeper = self._keepers.get(name)
        return keeper is not None and keeper.phase in (Phase.STARTING, Phase.UP)

    def _keeper(self, name: str) -> Keeper:
        self._app(name)
        if not self._running(name):
            raise ConflictError(f"{name} is not running; start it with POST /apps/{name}/start")
        return self._keepers[name]

    def _complete(self, spec: RunSpec) -> RunSpec:
        stored = self._state.slo(spec.app)
        return spec.model_copy(
            update={
                "apps_dirs": self._base.apps_dirs,
                "pool": self._base.pool,
                "telemetry": self._base.telemetry,
                "compositions": choices_for(self._instance(spec), self.catalogue.of(spec.app)),
                "slo": stored and stored.slo,
            }
        )

    def _keep(self, spec: RunSpec, first_decision: int, *, attach: bool = False) -> None:
        started = Started(spec, first_decision)
        self._state.put_started(spec.app, Started(spec.model_copy(update={"slo": None}), first_decision))
        name = f"recompose-{self._state.instance}-{spec.app}"
        keeper = self._make_keeper(name, started, self._host, self._state, attach=attach)
        self._keepers[spec.app] = keeper
        keeper.start()

    def _apply_compositions(self, name: str) -> None:
        if self._running(name):
            keeper = self._keepers[name]
            compositions = choices_for(self._instance(keeper.spec), self.catalogue.of(name))
            keeper.change("set_compositions", (compositions,), compositions=compositions)

    def _check(self, spec: RunSpec) -> None:
        self._app(spec.app)
        choices = choices_for(self._instance(spec), self.catalogue.of(spec.app))
        check_source(spec)
        check_input(spec.input)
        check_composition(spec.app, spec.composition, choices)

    def _instance(self, spec: RunSpec) -> App:
        return registry.create(spec.app, spec.options, [Path(folder) for folder in self._base.apps_dirs])

    def _resting(self, app: type[App], state: AppState, keeper: Keeper | None) -> Status:
        stored = self._state.slo(app.name)
        spec = (keeper.spec if keeper else RunSpec(app=app.name)).model_copy(update={"slo": stored and stored.slo})
        last = next(iter(self._state.decisions(app.name, 1)), None)
        extra = {"failure": keeper.error, "runner_restarts": keeper.restarts} if keeper else {}
        return resting(app, state, spec, last).model_copy(update=extra)

    def _live(self, keeper: Keeper) -> Status | None:
        restarts = {"runner_restarts": keeper.restarts}
        try:
            status: Status = keeper.call("status")
            return status.model_copy(update=restarts)
        except UnavailableError as error:
            last = keeper.last_status
            return last and last.model_copy(update={"failure": str(error), **restarts})

    def _pull(self, keeper: Keeper) -> None:
        try:
            keeper.pull_decisions()
            keeper.pull_changes()
        except Exception:  # the history that is stored is still true; the keeper deals with the runner
            return

    def _input_rate(self, name: str, slo: Slo) -> float | None:
        if slo.target != INPUT_RATE or not self._running(name):
            return None
        return self.status(name).input_rate_per_s
