"""Start and stop apps, change how they run, and continue durable runs that hold undelivered data."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

from compositions.model import all_sequential
from control.decisions import Mode
from profiler.slo import Slo
from service.daemon.checks import (
    check_batching,
    check_composition,
    check_input,
    check_objectives,
    check_resources,
    check_start,
)
from service.daemon.compositions import Specs
from service.daemon.observation import Observation
from service.daemon.runs import Runs
from service.daemon.store.store import DaemonStore, Started, undone_by_failure
from service.daemon.supervision.restart_policy import Stopping
from service.daemon.supervision.watchdog import END_S
from service.runner.durable.journal import Debt, debts_of
from service.runner.rpc.port import ANSWER_S
from service.runner.rpc.requests import PushMany, SetBatching, SetInput, SetMode, Stop, Taken
from service.schemas.compositions import AppInfo
from service.schemas.refusals import BadValueError, ConflictError, in_two_ways
from service.schemas.results import OwingRun
from service.schemas.spec import RunSpec
from service.schemas.status import Status


class Owing:
    """Finds such runs of all apps, below the folder of journals."""

    def __init__(self, runs: Runs, store: DaemonStore, journals: str | None) -> None:
        self._runs, self._store, self._journals = runs, store, journals

    def all(self) -> list[OwingRun]:
        return [self._shown(app, debt) for app in self._runs.apps for debt in self._of(app)]

    def _shown(self, app: str, debt: Debt) -> OwingRun:
        known, run = {**asdict(debt), "journal": str(debt.journal)}, self._runs.present(app)
        return OwingRun(app=app, present=run is not None and run.desired.spec.origin.run == debt.run, **known)

    def begun(self, spec: RunSpec) -> Started:
        """Return a new run of ``spec``, or the one that owes something and is of the same; one of which nothing is
        stored (its state file was lost, or it is of an earlier version) is taken to be, where its journal fits the
        source. Raises: ConflictError when what is owed is another's."""
        fresh = Started(spec, self._store.last_decision_id(spec.app))
        debt = next((debt for debt in self._of(spec.app) if debt.fault is None), None)
        if debt is None:
            return fresh
        same = self._store.durable_runs.is_same(spec, debt.run)
        if spec.durable.durability == "none" or same is False:
            raise ConflictError(_refusal(spec.app, debt))
        if same is None and debt.items and spec.source.of.positioned:
            raise ConflictError(_refusal_of_unknown(spec, debt))
        why = f"the app was started again, and run {debt.run} held {_held(debt)}"
        if same is None:
            why += "; of which source, sink and options it was is not stored, so those of this start were taken"
        assert debt.epoch is not None, "a journal that can be read has an epoch"
        origin = replace(spec.origin, run=debt.run, epoch=debt.epoch)
        return Started(spec.but(origin=origin), fresh.first_decision, why)

    def _of(self, app: str) -> Iterator[Debt]:
        return iter(()) if self._journals is None else debts_of(self._journals, app)


def _held(debt: Debt) -> str:
    items, results = debt.items or 0, debt.results or 0
    parts = [
        f"{items:,} undelivered {'item' if items == 1 else 'items'}" if items else "",
        f"{results:,} {'result' if results == 1 else 'results'} that the sink did not get" if results else "",
    ]
    return " and ".join(filter(None, parts))


def _refusal(app: str, debt: Debt) -> str:
    return (
        f"run {debt.run} of {app} holds {_held(debt)} in {debt.journal}; start {app} with the same source, sink and "
        f"options, and a durability, to deliver them, or move {debt.journal.name}* away to give them up"
    )


def _refusal_of_unknown(spec: RunSpec, debt: Debt) -> str:
    return (
        f"run {debt.run} of {spec.app} holds {_held(debt)} in {debt.journal}; they were stored as they came, which "
        f"those of source {spec.source.kind} are not; start {spec.app} with the source that the run had (push, mqtt or "
        f"a queue of rabbitmq), or move {debt.journal.name}* away to give them up"
    )


STOP_TIMEOUT_S = 600.0
"""For a stop that the user asks for. What was accepted is delivered however slow the stages are; a hung one has its own
time limit, so this one is only against what we did not think of."""

LOOK_AGAIN_S = 0.1
"""Until a stop that waits for another change looks whether that is a stop, which it can hurry."""


class Apps:
    """Answers are the app's status. All but ``all`` raise NotFoundError for an app that is not registered."""

    def __init__(self, runs: Runs, specs: Specs, store: DaemonStore, observation: Observation, owing: Owing) -> None:
        self._runs, self._choices, self._specs = runs, specs.choices, specs
        self._store, self._observation, self.owing = store, observation, owing

    def all(self) -> list[AppInfo]:
        return [
            AppInfo.of(app, self._choices.of(name), self._observation.status(name).state)
            for name, app in self._runs.apps.items()
        ]

    def start(self, spec: RunSpec, slo: Slo | None = None) -> Status:
        """Start an app; its runner comes up in the background. ``slo`` replaces the stored objective; None keeps it.

        Raises: ConflictError when it runs already, BadValueError, NotStoredError; then nothing was changed."""
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
        """Store the objective, if one is given; the former one is in force again if the block fails."""
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
        stored = self._store.slo(spec.app)
        check_objectives(spec.method.strategy, slo or (stored.slo if stored else None))
        cluster = self._runs.cluster()
        check_composition(spec.app, spec.composition, choices, cluster.cores)
        if self._specs.reserves:
            stages = self._specs.stages(spec)
            named = [each.crew(stages) for each in choices if each.name == spec.composition]
            one_each = dict.fromkeys(all_sequential(stages).crew(stages), 1)
            check_resources(spec.app, stages, named[0] if named else one_each, cluster)

    def stop(self, name: str, how: Stop | None = None) -> Status:
        """Delivers what was accepted, then ends the runner; ``how``: with a limit of the user's. A stop under way is
        hurried by another one. Raises: ConflictError when it is not running."""
        patience_s = ANSWER_S if how is None else END_S
        how = how or Stop(timeout_s=STOP_TIMEOUT_S)
        while not isinstance((watchdog := self._runs.expect(name)).condition, Stopping):
            with self._runs.changing_within(name, LOOK_AGAIN_S) as held:
                if not held:  # perhaps by a stop that waits for long
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
        """Set the input, or the bundle size for compositions that set none of their own. Raises: ConflictError,
        BadValueError, UnavailableError."""
        watchdog = self._runs.expect(name)
        match change:
            case SetInput(input):
                check_input(input, watchdog.desired.spec.apps_dirs)
            case SetBatching(batching):
                check_batching(batching)
        watchdog.change(change)
        return self._observation.status(name)

    def set_mode(self, name: str, mode: Mode, composition: str | None) -> Status:
        """``pinned`` without a composition pins the active one. Raises: as ``set``."""
        watchdog = self._runs.expect(name)
        check_composition(name, composition, watchdog.desired.spec.compositions, self._runs.cluster().cores)
        if composition is not None and mode is not Mode.PINNED:
            raise BadValueError(f"composition {composition!r} goes with mode pinned only, not with {mode}")
        if mode is Mode.PINNED and composition is None:
            composition = self._active(watchdog.desired.spec)
        watchdog.change(SetMode(mode, composition))
        return self._observation.status(name)

    def _active(self, spec: RunSpec) -> str | None:
        """None when it is not known yet, or is none that can be chosen."""
        active = self._observation.status(spec.app).composition
        known = {each.name for each in spec.compositions}
        return active.name if active is not None and active.name in known else None

    def push(self, name: str, values: tuple[Any, ...]) -> Taken:
        """Push items up to the first that is refused. Raises: ConflictError, also for an app that reads its items from
        elsewhere; UnavailableError."""
        watchdog = self._runs.expect(name)
        source = watchdog.desired.spec.source
        if not source.of.pushed:
            raise ConflictError(f"the source of {name} is {source.kind}; items are pushed into source push")
        return watchdog.ask(PushMany(values))
