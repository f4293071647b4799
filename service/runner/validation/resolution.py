"""Resolve the names of a spec: the app, its compositions, input rate and settings, or a program's overrides."""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, Protocol

from apps import registry
from apps.contract import App
from apps.rates import Rate
from apps.registry import build
from compositions.enumeration import own_list
from compositions.errors import CompositionError, Fault
from compositions.logger import Logger
from compositions.model import Composition, Document, Stage
from compositions.resources import in_bytes, sized, with_resources
from compositions.settings import Checked, overridden, ranged
from control.settings import GONE, Settings
from datapipe.sources.rate_spec import from_spec
from datapipe.sources.sources import GivenItems, Source
from profiler.drain_samples import DrainSettings
from profiler.monitor import MonitorSettings
from profiler.slo import FASTEST, INPUT_RATE
from runtime.arena.reference import memory_bytes
from runtime.dispatch.settings import DispatcherSettings
from runtime.housekeeping import available_cores
from runtime.pools.ray.settings import RayPoolSettings
from service.schemas.results import Result
from service.schemas.spec import InputSpec, RunSpec

log = Logger()

MAIN = "__main__"


def classes_of_main(app_class: type[App]) -> dict[str, type]:
    """Return the classes that the program defines in addition to its app."""
    if app_class.__module__ != MAIN:
        return {}
    defined = vars(sys.modules[MAIN]).items()
    return {name: each for name, each in defined if isinstance(each, type) and each.__module__ == MAIN}


def built_with(classes: Mapping[str, type], app_class: type[App], options: Mapping[str, Any]) -> App:
    """Return the app; values of a script find their classes in the main module. Raises: AppRefused."""
    main = sys.modules[MAIN]
    for name, each in classes.items():
        vars(main).setdefault(name, each)
    return build(app_class, options)


class Released(Protocol):
    """Results of items with consecutive serial numbers that may leave."""

    def items(self) -> Iterable[dict[str, Any]]:
        """Yield ``serial`` and ``value``, ``values`` or ``error`` of each item."""

    def results(self) -> Iterable[Result]:
        """Yield the rows: one per item, or one for each value of an item with several."""


class Table(Protocol):
    """A further destination of results. It may request a pause, as it retains results until it could store them."""

    @property
    def has_room(self) -> bool: ...

    @property
    def failed(self) -> str | None: ...

    def start(self) -> None: ...

    def take(self, results: Released) -> None: ...

    def finish(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Overrides:
    """Parts of a run that a program in the same process supplies; a part that is None is as the spec says."""

    app: type[App] | None = None
    items: Iterable[Any] | None = None
    results: Table | None = None

    def maker(self, spec: RunSpec) -> Callable[[], App]:
        """Return the function that creates an instance, here and in workers."""
        if self.app is not None:
            return partial(built_with, classes_of_main(self.app), self.app, dict(spec.options))
        return partial(registry.create, spec.app, dict(spec.options), [Path(each) for each in spec.apps_dirs])

    def source(self) -> Source | None:
        return None if self.items is None else GivenItems(self.items, clock=monotonic)


NO_OVERRIDES = Overrides()


def rate_of(input: InputSpec, apps_dirs: Sequence[str]) -> Rate | None:
    """Return the input rate; None: unpaced. Raises: RecomposeError for an invalid rate. Only modules in ``apps_dirs``
    can be named, so that a user who may set a rate cannot call any installed function."""
    return from_spec(input.rate, partial(registry.module_named, apps_dirs=[Path(each) for each in apps_dirs]))


def follows_itself(spec: RunSpec) -> str | None:
    """Return why an objective of the input rate has no effect in this run; None if it has one. Without a set rate,
    items of a data set, of files and of a script are read as fast as the app accepts them."""
    asked = spec.slo is not None and any(each.target == INPUT_RATE for each in spec.slo.each)
    if not asked or spec.source.kind != "replay" or spec.input.is_paced:
        return None
    return (
        f"throughput={INPUT_RATE} has no effect here: the source has no rate of its own and is read as fast as "
        f"the app accepts items; set a rate, or ask for {FASTEST}"
    )


def usable_cores(pool: str) -> float:
    """Return the cores that workers of a run may use: of all nodes with pool ``ray``, else of this process."""
    if pool == "ray":
        from runtime.pools.ray import cluster, nodes  # imported here: a local run does not need Ray

        if cluster.joined():
            return nodes.WATCH.recent().cores
    return available_cores()


def shipped(app: type[App]) -> Document:
    """Return the compositions of the app's own file or of the shipped one. Raises: CompositionError, with the file."""
    path = registry.compositions_file(app)
    if path is None:
        return Document(app.name)
    from compositions.document import loader  # imported here: most scripts list no compositions, so they need no YAML

    try:
        return loader.load(path.read_bytes(), {app.name: app.stages})
    except CompositionError as error:
        raise CompositionError([Fault(f"{path}", str(fault)) for fault in error.faults]) from error


def stages_of(app: App, spec: RunSpec) -> tuple[Stage, ...]:
    """Return the stages with the resources of the file and of ``spec``. Raises: RecomposeError for invalid ones."""
    stages = with_resources(app.stages, {**shipped(type(app)).resources_of(app.stages), **spec.resources})
    if spec.pool == "local" or not any(in_bytes(stage.gpu_memory) for stage in stages):
        return stages
    from runtime.pools.ray import cluster, nodes  # imported here: a local run does not need Ray

    known = nodes.WATCH.gpu_memory_bytes() if cluster.joined() else None
    if known is None:
        log.warning("the memory of the GPUs is not known, so each worker gets a whole GPU", app=app.name)
    return sized(stages, known)


def choices_for(
    app: App, known: Sequence[Composition] | None = None, cores: float | None = None
) -> tuple[Composition, ...]:
    """Return those of ``known`` (default: shipped) that fit the stages of ``app``, else a list for these ``cores``."""
    stages = tuple(stage.name for stage in app.stages)
    found = shipped(type(app)).compositions if known is None else known
    return tuple(each for each in found if each.stages == stages) or own_list(app.stages, cores or available_cores())


@dataclass(frozen=True, slots=True)
class InputSettings(Checked):
    """The settings of a source that was held back. Raises: SettingsError if a setting is out of range."""

    catch_up_s: float = ranged(10.0, 0, 3600, "s")
    """Items that became due within this time are still read, as fast as there is room; older items are missed. One
    check interval: a source that is further behind is not late but overloaded."""


@dataclass(frozen=True, slots=True)
class RunSettings:
    """All settings of a run; no two fields share a name."""

    input: InputSettings = field(default_factory=InputSettings)
    manager: Settings = field(default_factory=Settings)
    monitor: MonitorSettings = field(default_factory=MonitorSettings)
    drain: DrainSettings = field(default_factory=DrainSettings)
    pool: RayPoolSettings = field(default_factory=RayPoolSettings)
    dispatcher: DispatcherSettings = field(default_factory=DispatcherSettings)


def for_machine(memory: int) -> RunSettings:
    """Return the defaults for this memory: 1/32 for waiting items, 1/8 for started ones, the rest for workers."""
    dispatcher = DispatcherSettings(buffer_bytes=max(1, memory // 32), started_bytes=max(1, memory // 8))
    return RunSettings(dispatcher=dispatcher)


def settings_for(values: Mapping[str, Any], *, keeps_warm: bool = True, reserves: bool = False) -> RunSettings:
    """Return the settings of a run on this machine. ``values``: a user's; settings that were removed after 0.2 cause a
    warning. ``keeps_warm``: idle workers stay for a while, unless they reserve resources, which others may need.
    Raises: SettingsError for a value that is unknown or out of range."""
    gone = sorted(GONE & values.keys())
    if gone:
        log.warning("settings of an earlier version have no effect", names=gone, until="0.3")
    left = {name: value for name, value in values.items() if name not in GONE}
    settings = for_machine(memory_bytes())
    dispatcher = settings.dispatcher if keeps_warm else settings.dispatcher.lean
    usual = replace(settings, dispatcher=replace(dispatcher, spares=0) if reserves else dispatcher)
    return overridden(usual, left)
