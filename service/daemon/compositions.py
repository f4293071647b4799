"""Manage compositions in three layers: shipped with an app, in the watched directory, changed by REST. Later layers win
by name. An app without any gets a generated list that fits this machine's cores."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import structlog

from apps import registry
from apps.contract import App
from compositions.document import apart
from compositions.enumeration import own_list
from compositions.errors import CompositionError, Fault
from compositions.model import Composition, Document, Stage, all_sequential
from compositions.resources import Resources
from compositions.rules import MAX_COMPOSITIONS
from service.daemon.observation import Observation
from service.daemon.runs import Runs
from service.daemon.store.store import DaemonStore, undone_by_failure
from service.daemon.supervision.desired_state import holding
from service.runner.rpc.requests import ReadCompositions, ReadWhatIf, SetCompositions
from service.runner.validation.resolution import choices_for, shipped, stages_of
from service.schemas.compositions import Choice, WhatIf
from service.schemas.refusals import AppTypes, BadValueError, ConflictError, NotFoundError, listed
from service.schemas.spec import RunSpec


class Choices:
    """Thread-safe. Removed compositions stay removed after a restart, also those that come from a file."""

    def __init__(self, apps: AppTypes, store: DaemonStore, cores: Callable[[], float]) -> None:
        self.apps, self._store, self._cores = apps, store, cores
        self.stages: dict[str, Sequence[Stage]] = {name: app.stages for name, app in apps.items()}
        """The stages of every app, for the loader."""
        self._shipped = {name: shipped(app).compositions for name, app in apps.items()}
        self._directory: dict[str, tuple[Composition, ...]] = {}
        self.resources: Mapping[str, Resources] = {}
        """Resources by app, from the watched directory; at the next start they replace the stages' own."""
        self._lock = threading.Lock()

    def of(self, app: str) -> tuple[Composition, ...]:
        """Return all compositions of ``app``; never empty."""
        overlay = self._store.overlay(app)
        known: dict[str, Composition | None] = {each.name: each for each in self._shipped[app]}
        known.update((each.name, each) for each in self._directory.get(app, ()))
        if not known and not any(overlay.values()):
            known.update((each.name, each) for each in own_list(self.apps[app].stages, self._cores()))
        known.update(overlay)
        present = tuple(each for each in known.values() if each is not None)
        return present or (all_sequential(self.apps[app].stages),)

    @contextmanager
    def changed(self, app: str, changes: Mapping[str, Composition | None]) -> Iterator[None]:
        """Add, replace or (None) remove compositions, unless the block fails. Raises: BadValueError for too many;
        NotFoundError; ConflictError for the only one; NotStoredError."""
        with self._lock:
            names = {each.name for each in self.of(app)}
            for name in (name for name, change in changes.items() if change is None):
                if name not in names:
                    raise NotFoundError(f"{app} has no composition {name!r}; it has {listed(names)}")
                if len(names) == 1:
                    raise ConflictError(f"{name!r} is the only composition of {app}; add another before removing it")
            if any(changes.values()) and (count := len(names | changes.keys())) > MAX_COMPOSITIONS:
                message = f"{app} would have {count:,} compositions; at most {MAX_COMPOSITIONS:,} are kept, remove some"
                raise BadValueError(message, [Fault("compositions", message)])
            overlay = self._store.overlay(app)
            self._store.put_overlay(app, overlay | dict(changes))
        with undone_by_failure(lambda: self._store.put_overlay(app, overlay)):
            yield

    def load_directory(self, new: Mapping[str, Sequence[Composition]], resources: Mapping[str, Resources]) -> set[str]:
        """Replace the layer of the watched directory; return the apps whose compositions changed."""
        with self._lock:
            self.resources = resources
            before = {app: self.of(app) for app in self.apps}
            self._directory = {app: tuple(compositions) for app, compositions in new.items()}
            return {app for app in self.apps if self.of(app) != before[app]}


class Specs:
    """Makes specs. ``base`` contains what all runs share: directories of apps, kind of pool, telemetry."""

    def __init__(self, apps: AppTypes, store: DaemonStore, base: RunSpec, cores: Callable[[], float]) -> None:
        """``cores``: number of cores of all nodes."""
        self.choices = Choices(apps, store, cores)
        self._store, self._base, self._cores = store, base, cores

    def complete(self, spec: RunSpec) -> RunSpec:
        stored = self._store.slo(spec.app)
        return spec.but(
            apps_dirs=self._base.apps_dirs,
            pool=self._base.pool,
            origin=replace(spec.origin, kept_up=True),
            ending=replace(spec.ending, telemetry=self._base.ending.telemetry),
            durable=replace(spec.durable, journals=self._base.durable.journals),
            compositions=self.compositions(spec),
            resources=self._resources(spec),
            slo=stored.slo if stored else None,
        )

    def compositions(self, spec: RunSpec) -> tuple[Composition, ...]:
        """Return the compositions of the app that fit ``spec``, whose options may change the stages."""
        return choices_for(self._app(spec), self.choices.of(spec.app), self._cores())

    @property
    def reserves(self) -> bool:
        """Return whether workers reserve their stages' resources: Ray's do, threads share those of the process."""
        return self._base.pool == "ray"

    def stages(self, spec: RunSpec) -> Sequence[Stage]:
        """Return the stages with the options and resources of ``spec``. Raises: RecomposeError for unfit resources."""
        return stages_of(self._app(spec), spec.but(resources=self._resources(spec), pool=self._base.pool))

    def _resources(self, spec: RunSpec) -> Resources:
        watched = Document(spec.app, resources=self.choices.resources.get(spec.app, {}))
        return {**watched.resources_of(self._app(spec).stages), **spec.resources}

    def _app(self, spec: RunSpec) -> App:
        return registry.create(spec.app, spec.options, [Path(folder) for folder in self._base.apps_dirs])


log = structlog.get_logger()


class Compositions:
    """The compositions of all apps. Methods with a name raise NotFoundError for an unregistered app."""

    def __init__(self, runs: Runs, specs: Specs, observation: Observation) -> None:
        self._runs, self._specs, self._observation = runs, specs, observation
        self._choices = specs.choices
        self.stages = self._choices.stages

    def of(self, name: str) -> list[Choice]:
        """Return the compositions with predictions. Raises: UnavailableError if the runner does not answer."""
        up = self._runs.up(name)
        if up is not None:
            return up.ask(ReadCompositions())
        return [Choice.offered(name, each) for each in self._choices.of(name)]

    def what_if(self, name: str, question: ReadWhatIf) -> WhatIf:
        """Predict under other circumstances. Raises: ConflictError if the app is not running."""
        return self._runs.expect(name).ask(question)

    def add(self, text: str | bytes) -> list[Choice]:
        """Add or replace the compositions of a YAML document. Raises: CompositionError with every fault; ConflictError
        for a replacement of the active one; NotStoredError, UnavailableError. Then nothing is changed."""
        document = apart.load(text, self._choices.stages)
        if document.resources:
            how = "can be set only at a start: in its body, or in a file of recompose serve --compositions"
            raise CompositionError([Fault("resources", how)])
        with self._runs.changing(document.app):
            self._spare_those_in_use(document.app, document.compositions)
            with self._choices.changed(document.app, {each.name: each for each in document.compositions}):
                self._apply(document.app)
        return self.of(document.app)

    def remove(self, name: str, composition: str) -> None:
        """Remove a composition. Raises: ConflictError for the active or only one; NotFoundError; else as ``add``."""
        self._runs.app(name)
        with self._runs.changing(name):
            if composition in self._in_use(name):
                raise ConflictError(f"{composition!r} is the active composition of {name}; switch to another one first")
            with self._choices.changed(name, {composition: None}):
                self._apply(name)

    def load_directory(self, new: Mapping[str, Sequence[Composition]], resources: Mapping[str, Resources] = {}) -> None:
        """Apply the present content of the watched directory; ``resources`` (by app) count from the next start."""
        for name in self._choices.load_directory(new, resources):
            with self._runs.changing(name):
                self._apply(name)

    def _in_use(self, name: str) -> dict[str, Composition]:
        """Return the active composition and the one that is to become active, as they run."""
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
            log.warning("removed or changed compositions in use stay until the next start", app=name, compositions=held)
        watchdog.change(SetCompositions(holding(found, in_use)))
