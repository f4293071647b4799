"""The desired state of a run: stored first, then sent to the runner, as the changes that the runner lacks."""

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
    """Yield the changes, in this order, that turn a run of ``has`` into a run of ``wanted``."""
    pinned = wanted.composition if wanted.mode is Mode.PINNED else None  # otherwise it is only the one to begin with
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
    """Return ``new`` with compositions in use unchanged, as their names must not denote others while they run."""
    return tuple(({each.name: each for each in new} | dict(in_use)).values())


SERVICE_RESTARTED = "the service was started again, and its runner had ended with it"
Tell = Callable[[requests.Change], None]
"""Function that sends a change to the runner. Raises: the runner's refusal, or UnavailableError."""


class DesiredState:
    """The spec of one app's run, for its present runner and the next. Thread-safe: changes happen one by one."""

    def __init__(self, started: Started, store: DaemonStore) -> None:
        self.app = started.spec.app
        self.spec, self._first_decision = started.spec, started.first_decision
        self._why = started.why or SERVICE_RESTARTED
        """Reason why an earlier run continues with the first runner of this daemon."""
        self._store = store
        self._past_start = False
        """True if a runner is past its start; before that, it cannot take requests."""
        self.in_step = False
        """True if the runner has received all changes; false until its start is over."""
        self._stored: Started | None = None
        """The last stored state, if this object stored it."""
        self._forgotten = False
        self.move_wanted: tuple[str, float] | None = None
        """Reason and time limit if another runner elsewhere is to replace the present one; None: it stays."""
        self._lock = threading.RLock()

    @property
    def is_durable(self) -> bool:
        """Return whether the next runner continues the run."""
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
        """Have the next runner begin anew, unless the run is durable; ``died``: end of the previous runner."""
        with self._lock:
            before, origin = self.spec, self.spec.origin
            goes_on = origin.run is not None and self.is_durable
            epoch, why = (origin.epoch + 1, died or self._why) if origin.run else (origin.epoch, origin.started_again)
            run = origin.run if goes_on else new_run()
            self.spec = before.but(origin=replace(origin, run=run, epoch=epoch, started_again=why))
            return self.spec

    def begin(self, first_decision: int) -> RunSpec:
        """Return the spec with which the next runner starts; its decisions continue at ``first_decision``."""
        with self._lock:
            self._past_start, self.in_step, self._first_decision = False, False, first_decision
            self.move_wanted = None
            self._store_again()
            return self.spec

    def move(self, why: str, timeout_s: float) -> None:
        """Have another runner elsewhere replace the present one, which gets this time to deliver its items."""
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
        """Send missing changes to the runner in ``slot``; keep its composition for the next. Raises: as its port."""
        with self._lock:
            self._past_start = True
            if not self.in_step:
                self._bring_in_step(status, slot)
            if self.spec.mode is not Mode.PINNED and status.state is State.STABLE and status.composition is not None:
                self.spec = self.spec.but(composition=status.composition.name)
            self._store_again()

    def _bring_in_step(self, status: Status, slot: RunnerSlot) -> None:
        """Send all missing changes: after its start, after a time without a daemon, or after an uncertain call."""
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
        """Remove the run, so that the next daemon does not start it. Raises: NotStoredError."""
        with self._lock:
            self._store.remove_started(self.app)
            self._forgotten = True

    def settle(self) -> None:
        """Remove the record of a run that is over and owes nothing, as no start will continue it."""
        spec = self.spec
        if spec.origin.run is None or self.owes:
            return
        with suppress(NotStoredError):  # otherwise a row stays
            self._store.durable_runs.remove(spec.app, spec.origin.run)

    def _keep(self, spec: RunSpec) -> None:
        """Store the spec. Raises: NotStoredError; then the spec is as before."""
        wanted = Started(spec, self._first_decision).alone
        if wanted != self._stored and not self._forgotten:
            self._store.put_started(self.app, wanted)
            self._stored = wanted
        self.spec = spec

    def _put_back(self, before: RunSpec) -> None:
        """Undo a change; a call without an answer may nevertheless have been carried out."""
        self.in_step = False
        self._keep(before)

    def _store_again(self) -> None:
        """Store again; if that fails now, it is tried again at the next status."""
        with suppress(NotStoredError):
            self._keep(self.spec)
