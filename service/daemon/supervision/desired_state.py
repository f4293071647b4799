"""The desired state of a run: stored first, then sent to the runner as the changes that it lacks."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from compositions.model import Composition
from compositions.settings import overridden
from control.decisions import Mode, State
from runtime.pools.ray.settings import RayPoolSettings
from service.daemon.store.store import DaemonStore, Started, undone_by_failure
from service.daemon.supervision.runner_slot import RunnerSlot
from service.runner.durable.journal import debt_in, journal_path
from service.runner.rpc import requests
from service.schemas.refusals import NotStoredError
from service.schemas.spec import RunSpec, new_run
from service.schemas.status import Status


def differences(has: RunSpec, wanted: RunSpec) -> Iterator[requests.Change]:
    """Yield the changes, in this order, that make a run of ``has`` one of ``wanted``."""
    pinned = wanted.composition if wanted.mode is Mode.PINNED else None  # else it is no more than where to begin
    all_of_it: tuple[requests.Change, ...] = (
        requests.SetSlo(wanted.slo),
        requests.SetInput(wanted.input),
        requests.SetBatching(wanted.batching),
        requests.SetPlannedLoads(wanted.announced),
        requests.SetCompositions(wanted.compositions),
        requests.SetMode(wanted.mode, pinned),
    )
    yield from (each for each in all_of_it if requests.changed(has, each) != has)


def holding(new: Sequence[Composition], in_use: Mapping[str, Composition]) -> tuple[Composition, ...]:
    """``new``, but what is in use stays as it runs: nothing else may be called by its name while it does."""
    return tuple(({each.name: each for each in new} | dict(in_use)).values())


SERVICE_RESTARTED = "the service was started again, and its runner had ended with it"
Tell = Callable[[requests.Change], None]
"""Asks the runner. Raises: what it refuses, or UnavailableError."""


class DesiredState:
    """The spec of one app's run, for its present runner and the next. Thread-safe: changes happen one by one."""

    def __init__(self, started: Started, store: DaemonStore) -> None:
        self.app = started.spec.app
        self.spec, self._first_decision = started.spec, started.first_decision
        self._why = started.why or SERVICE_RESTARTED
        """Why a run that has begun before goes on with a first runner of ours."""
        self._store = store
        self._past_start = False
        """A runner before it cannot take requests."""
        self.in_step = False
        """True if the runner was told all changes; false until its start is over."""
        self._stored: Started | None = None
        """As far as this object did it."""
        self._forgotten = False
        self.move_wanted: tuple[str, float] | None = None
        """Why the present runner is to be followed by one elsewhere, and its time; None: it stays."""
        self._lock = threading.RLock()

    @property
    def is_durable(self) -> bool:
        """Return whether the next runner goes on with the run."""
        return self.spec.durable.durability != "none"

    @property
    def lease_s(self) -> float:
        """The time for which a silent runner is left alone, in seconds."""
        return overridden(RayPoolSettings(), {k: v for k, v in self.spec.settings.items() if k == "lease_s"}).lease_s

    @property
    def owes(self) -> bool:
        """True if the journal holds undelivered data, or cannot be read."""
        spec = self.spec
        if not self.is_durable or spec.durable.journals is None or spec.origin.run is None:
            return False
        return debt_in(journal_path(spec.durable.journals, spec.app, spec.origin.run)) is not None

    def renew(self, died: str | None) -> RunSpec:
        """Have the next runner count anew, unless the run is durable; ``died``: why the one before did."""
        with self._lock:
            before, origin = self.spec, self.spec.origin
            goes_on = origin.run is not None and self.is_durable
            epoch, why = (origin.epoch + 1, died or self._why) if origin.run else (origin.epoch, origin.started_again)
            run = origin.run if goes_on else new_run()
            self.spec = before.but(origin=replace(origin, run=run, epoch=epoch, started_again=why))
            return self.spec

    def begin(self, first_decision: int) -> RunSpec:
        """Return the spec that the next runner is started with; its decisions continue at ``first_decision``."""
        with self._lock:
            self._past_start, self.in_step, self._first_decision = False, False, first_decision
            self.move_wanted = None
            self._store_again()
            return self.spec

    def move(self, why: str, timeout_s: float) -> None:
        """Have the present runner followed by one elsewhere; it gets so long to deliver what it has."""
        self.move_wanted = why, timeout_s

    def change(self, change: requests.Change, tell: Tell) -> None:
        """Store a change, and tell a runner past its start. Raises: NotStoredError; as ``tell``. Then it is undone."""
        with self._lock:
            before = self.spec
            self._keep(requests.changed(before, change))
            with undone_by_failure(lambda: self._put_back(before)):
                if self._past_start:
                    tell(change)

    def reconcile(self, status: Status, slot: RunnerSlot) -> None:
        """Tell the runner in ``slot`` what it lacks; keep its composition for the next one. Raises: as its port."""
        with self._lock:
            self._past_start = True
            if not self.in_step:
                self._bring_in_step(status, slot)
            if self.spec.mode is not Mode.PINNED and status.state is State.STABLE and status.composition is not None:
                self.spec = self.spec.but(composition=status.composition.name)
            self._store_again()

    def _bring_in_step(self, status: Status, slot: RunnerSlot) -> None:
        """Whatever came between: its start, a daemon that was away, a change that may or may not have reached it."""
        has = slot.ask(requests.ReadSpec())
        active = status.composition.name if status.composition is not None else None
        in_use = {each.name: each for each in has.compositions if each.name == active}
        origin = replace(has.origin, kept_up=self.spec.origin.kept_up)
        self.spec = self.spec.but(origin=origin)
        self.spec = requests.changed(self.spec, requests.SetCompositions(holding(self.spec.compositions, in_use)))
        for change in differences(has, self.spec):
            slot.ask(change)
        self.in_step = True

    def forget(self) -> None:
        """The next daemon will not run it. Raises: NotStoredError."""
        with self._lock:
            self._store.remove_started(self.app)
            self._forgotten = True

    def settle(self) -> None:
        """Forget what a run was of that is over and owes nothing: no start will go on with it."""
        spec = self.spec
        if spec.origin.run is None or self.owes:
            return
        with suppress(NotStoredError):  # costs a row
            self._store.durable_runs.remove(spec.app, spec.origin.run)

    def _keep(self, spec: RunSpec) -> None:
        """Raises: NotStoredError, and then the spec is as before."""
        wanted = Started(spec, self._first_decision).alone
        if wanted != self._stored and not self._forgotten:
            self._store.put_started(self.app, wanted)
            self._stored = wanted
        self.spec = spec

    def _put_back(self, before: RunSpec) -> None:
        """A call without an answer may have been carried out all the same."""
        self.in_step = False
        self._keep(before)

    def _store_again(self) -> None:
        """What cannot be stored now is tried again at the next status."""
        with suppress(NotStoredError):
            self._keep(self.spec)
