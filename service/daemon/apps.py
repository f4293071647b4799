"""Start, change and stop apps, and continue durable runs; requests are checked before a runner gets them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NoReturn

from compositions.errors import Fault, RecomposeError
from compositions.model import Composition, Loads, Stage, all_sequential, held_by
from compositions.resources import need_of
from control.decisions import Mode
from control.strategies import check_takes
from datapipe.sink_kinds import KINDS, Opening
from datapipe.source_kinds import PathMeans
from profiler.slo import Slo
from runtime.placement.cluster import Cluster
from runtime.placement.place import Shape, lacking_for
from service.daemon.compositions import Specs
from service.daemon.observation import Observation
from service.daemon.runs import Runs
from service.daemon.store.store import DaemonStore, Started, undone_by_failure
from service.daemon.supervision.restart_policy import Stopping
from service.daemon.supervision.watchdog import END_S
from service.runner.durable.journal import Debt, debts_of
from service.runner.rpc.port import ANSWER_S
from service.runner.rpc.requests import PushMany, SetBatching, SetInput, SetMode, Stop, Taken
from service.runner.validation.durable import durability_fault
from service.runner.validation.resolution import rate_of, settings_for
from service.schemas.compositions import AppInfo
from service.schemas.refusals import BadValueError, ConflictError, in_two_ways, listed
from service.schemas.results import OwingRun
from service.schemas.spec import RunSpec, SinkSpec
from service.schemas.status import Status

WORKERS_PER_CORE = 32
"""Maximum workers of an app per core. Stages that wait gain from more workers; each takes some 64 MB."""


@contextmanager
def _refusing(field: str, what: str = "") -> Iterator[None]:
    """Refuse ``field`` of a request if its content is refused. Raises: BadValueError."""
    try:
        yield
    except RecomposeError as error:
        raise BadValueError(f"{what}{error}", [Fault(field, str(error))]) from error


def _refuse(field: str, message: str) -> NoReturn:
    raise BadValueError(message, [Fault(field, message)])


def check_composition(app: str, name: str | None, choices: Sequence[Composition], cores: float) -> None:
    """Raises: BadValueError if ``name`` is given and not among ``choices``, or has too many workers for ``cores``."""
    if name is None:
        return
    found = next((each for each in choices if each.name == name), None)
    if found is None:
        known = listed([each.name for each in choices])
        _refuse("composition", f"{app} has no composition {name!r}; it has {known}")
    if found.workers > (most := int(cores * WORKERS_PER_CORE)):
        has = f"composition {name!r} has {found.workers:,} workers"
        _refuse("composition", f"{has}; on {cores:g} cores an app may have {most:,}, {WORKERS_PER_CORE} a core")


def check_resources(app: str, stages: Sequence[Stage], crew: Mapping[Loads, int], cluster: Cluster) -> None:
    """Raises: BadValueError if the nodes could never hold the workers of each class with their stages' resources."""
    names = {loads: f"{app} for {', '.join(loads)}" if loads else app for loads in crew}
    shapes = [Shape(names[loads], need_of(held_by(stages, loads)), count) for loads, count in crew.items()]
    if (lacking := lacking_for(cluster, shapes)) is not None:
        _refuse("app", f"{app} cannot start on these nodes: {lacking}")


def check_change(change: SetInput | SetBatching, apps_dirs: Sequence[str]) -> None:
    """Raises: BadValueError for an invalid rate, pattern (``apps_dirs`` have custom ones) or bundle size."""
    match change:
        case SetInput(input):
            with _refusing("input", "input refused: "):
                rate_of(input, apps_dirs)
        case SetBatching(batching):
            with _refusing("batching", "batching refused: "):
                _ = batching.batching


def check_objectives(strategy: str, slo: Slo | None) -> None:
    """Raises: BadValueError if ``strategy`` takes only one objective, but there are several, or a budget."""
    with _refusing("objectives"):
        check_takes(strategy, slo)


def check_start(spec: RunSpec) -> None:
    """Check a start, except its objective and composition. Raises: BadValueError."""
    _check_source(spec)
    _check_sink(spec.sink)
    if (fault := durability_fault(spec)) is not None:
        _refuse("durability", fault)
    check_change(SetInput(spec.input), spec.apps_dirs)
    check_change(SetBatching(spec.batching), spec.apps_dirs)
    with _refusing("settings", "settings refused: "):
        settings_for(spec.settings)


def _check_source(spec: RunSpec) -> None:
    """Raises: BadValueError if the source cannot be read from this machine."""
    means, path = spec.source.of.path, spec.source.path
    if spec.source.fault is not None:
        _refuse("source", spec.source.fault)
    if path is None or means is PathMeans.PLACE:
        return
    if means is PathMeans.NOTHING or not _exists(path):
        why = "does not exist on the service's machine" if means is PathMeans.FILES else "needs source kind replay"
        _refuse("source.path", f"source path {path!r} {why}; give a file or folder, or null for the app's own data set")


def _check_sink(sink: SinkSpec | None) -> None:
    """Raises: BadValueError for fields of another kind, or an impossible sink. Its server is not contacted."""
    if sink is None:
        return
    if sink.fault is not None:
        _refuse("sink", sink.fault)
    if sink.kind in KINDS:
        with _refusing("sink.path"):
            KINDS[sink.kind].open(Opening(sink.path, "", 0, sink.options)).close()


def _exists(path: str) -> bool:
    with suppress(ValueError, OSError):  # NUL bytes, or too long names
        return Path(path).exists()
    return False


class Owing:
    """Finds durable runs with undelivered data of all apps, below the folder of journals."""

    def __init__(self, runs: Runs, store: DaemonStore, journals: str | None) -> None:
        self._runs, self._store, self._journals = runs, store, journals

    def all(self) -> list[OwingRun]:
        return [self._shown(app, debt) for app in self._runs.apps for debt in self._of(app)]

    def _shown(self, app: str, debt: Debt) -> OwingRun:
        known, run = {**asdict(debt), "journal": str(debt.journal)}, self._runs.present(app)
        return OwingRun(app=app, present=run is not None and run.desired.spec.origin.run == debt.run, **known)

    def begun(self, spec: RunSpec) -> Started:
        """Return a new run of ``spec``, or the one that owes data and has the same source, sink and options. If they
        are unknown (state file lost, or earlier version), a run whose journal fits the source counts as the same.
        Raises: ConflictError if the data belong to another run."""
        fresh = Started(spec, self._store.last_decision_id(spec.app))
        debt = next((debt for debt in self._of(spec.app) if debt.fault is None), None)
        if debt is None:
            return fresh
        same = self._store.durable_runs.is_same(spec, debt.run)
        if spec.durable.durability == "none" or same is False:
            how = "with the same source, sink and options, and a durability, to deliver them"
            raise _refusal(debt, f"start {spec.app} {how}", spec.app)
        if same is None and debt.items and spec.source.of.positioned:
            how = f"start {spec.app} with the source that the run had (push, mqtt or a queue of rabbitmq)"
            not_so = f"the run stored its items as received; source {spec.source.kind} stores only positions"
            raise _refusal(debt, f"{not_so}; {how}", spec.app)
        why = f"the app was started again, and run {debt.run} held {_held(debt)}"
        if same is None:
            why += "; its source, sink and options were not stored, so those of this start are used"
        assert debt.epoch is not None, "a journal that can be read has an epoch"
        origin = replace(spec.origin, run=debt.run, epoch=debt.epoch)
        return Started(spec.but(origin=origin), fresh.first_decision, why)

    def _of(self, app: str) -> Iterator[Debt]:
        return iter(()) if self._journals is None else debts_of(self._journals, app)


def _held(debt: Debt) -> str:
    items, results = debt.items or 0, debt.results or 0
    held = f"{items:,} undelivered {'item' if items == 1 else 'items'}" if items else ""
    owed = f"{results:,} {'result' if results == 1 else 'results'} that the sink did not get" if results else ""
    return " and ".join(filter(None, (held, owed)))


def _refusal(debt: Debt, how: str, app: str) -> ConflictError:
    holds = f"run {debt.run} of {app} holds {_held(debt)} in {debt.journal}"
    return ConflictError(f"{holds}; {how}, or move {debt.journal.name}* away to give them up")


STOP_TIMEOUT_S = 600.0
"""Default time limit of a user's stop, in seconds: stages may be slow, and hung ones have their own time limit."""

LOOK_AGAIN_S = 0.1
"""Interval in seconds at which a waiting stop checks if the other change is a stop, which it can shorten."""


class Apps:
    """Changes of apps; answers are the app's status. All but ``all`` raise NotFoundError for an unregistered app."""

    def __init__(self, runs: Runs, specs: Specs, store: DaemonStore, observation: Observation, owing: Owing) -> None:
        self._runs, self._choices, self._specs = runs, specs.choices, specs
        self._store, self._observation, self.owing = store, observation, owing

    def all(self) -> list[AppInfo]:
        return [
            AppInfo.of(app, self._choices.of(name), self._observation.status(name).state)
            for name, app in self._runs.apps.items()
        ]

    def start(self, spec: RunSpec, slo: Slo | None = None) -> Status:
        """Start an app; its runner starts in the background. ``slo`` replaces the stored objective; None keeps it.
        Raises: ConflictError if it runs already, BadValueError, NotStoredError; then nothing was changed."""
        self._runs.app(spec.app)
        self._check(spec, slo)
        with self._runs.changing(spec.app):
            if self._runs.present(spec.app) is not None:
                raise ConflictError(f"{spec.app} is running already; {in_two_ways('stop', spec.app)}")
            with self._stored(spec.app, slo):
                started = self.owing.begun(self._specs.complete(spec))
                self._store.put_started(spec.app, started.alone)
            self._runs.begin(started)
        return self._observation.status(spec.app)

    @contextmanager
    def _stored(self, app: str, slo: Slo | None) -> Iterator[None]:
        """Store the objective, if one is given; if the block fails, the former one is restored."""
        if slo is None:
            yield
            return
        before = self._store.slo(app)
        self._store.put_slo(app, slo)
        with undone_by_failure(lambda: self._store.put_back_slo(app, before)):
            yield

    def _check(self, spec: RunSpec, slo: Slo | None) -> None:
        choices = self._specs.compositions(spec)
        check_start(spec)
        with _refusing("resources"):
            stages = self._specs.stages(spec)
        stored = self._store.slo(spec.app)
        check_objectives(spec.method.strategy, slo or (stored.slo if stored else None))
        cluster = self._runs.cluster()
        check_composition(spec.app, spec.composition, choices, cluster.cores)
        if self._specs.reserves:
            named = [each.crew(stages) for each in choices if each.name == spec.composition]
            one_each = dict.fromkeys(all_sequential(stages).crew(stages), 1)
            check_resources(spec.app, stages, named[0] if named else one_each, cluster)

    def stop(self, name: str, how: Stop | None = None) -> Status:
        """Deliver accepted items, then end the runner; another stop shortens it. Raises: ConflictError."""
        patience_s = ANSWER_S if how is None else END_S
        how = how or Stop(timeout_s=STOP_TIMEOUT_S)
        while not isinstance((watchdog := self._runs.expect(name)).condition, Stopping):
            with self._runs.changing_within(name, LOOK_AGAIN_S) as held:
                if not held:  # the lock may belong to a stop that waits for long
                    continue
                watchdog = self._runs.expect(name)
                watchdog.desired.forget()
                watchdog.stop(how, patience_s)
                return self._observation.status(name)
        watchdog.stop(how, patience_s)
        return self._observation.status(name)

    def running_spec(self, name: str) -> RunSpec | None:
        """Return the spec of the present run, with all changes since its start; None if there is no run."""
        present = self._runs.present(name)
        return None if present is None else present.desired.spec

    def set(self, name: str, change: SetInput | SetBatching) -> Status:
        """Set the input, or the app's bundle size. Raises: ConflictError, BadValueError, UnavailableError."""
        watchdog = self._runs.expect(name)
        check_change(change, watchdog.desired.spec.apps_dirs)
        watchdog.change(change)
        return self._observation.status(name)

    def set_mode(self, name: str, mode: Mode, composition: str | None) -> Status:
        """Set the mode; ``pinned`` without a composition pins the active one. Raises: as ``set``."""
        watchdog = self._runs.expect(name)
        check_composition(name, composition, watchdog.desired.spec.compositions, self._runs.cluster().cores)
        if composition is not None and mode is not Mode.PINNED:
            raise BadValueError(f"composition {composition!r} needs mode pinned; the mode is {mode}")
        if mode is Mode.PINNED and composition is None:
            composition = self._active(watchdog.desired.spec)
        watchdog.change(SetMode(mode, composition))
        return self._observation.status(name)

    def _active(self, spec: RunSpec) -> str | None:
        """Return the active composition; None if it is unknown, or cannot be chosen."""
        active = self._observation.status(spec.app).composition
        known = {each.name for each in spec.compositions}
        return active.name if active is not None and active.name in known else None

    def push(self, name: str, values: tuple[Any, ...]) -> Taken:
        """Push items up to the first refused one. Raises: ConflictError (also for another source), UnavailableError."""
        watchdog = self._runs.expect(name)
        source = watchdog.desired.spec.source
        if not source.of.pushed:
            raise ConflictError(f"the source of {name} is {source.kind}; only source push accepts pushed items")
        return watchdog.ask(PushMany(values))
