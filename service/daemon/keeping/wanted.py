"""What is wanted of a run: stored first, then told to the runner."""

from __future__ import annotations

import threading
from collections.abc import Callable

from control.decisions import Mode, State
from service.bodies.refusals import NotStoredError
from service.bodies.spec import RunSpec
from service.bodies.status import Status
from service.daemon.keeping.berth import Berth
from service.daemon.keeping.changes import differences, holding
from service.daemon.storing.store import DaemonStore, Started
from service.daemon.storing.undo import undone_by_failure
from service.running.asking.requests import Change, ReadSpec, SetCompositions, changed
from service.running.run_id import new_run

SERVICE_BEGAN = "the service was started again, and its runner had ended with it"
Tell = Callable[[Change], None]
"""Asks the runner. Raises: what it refuses, or UnavailableError."""


class Wanted:
    """The spec of one app's run, for its present runner and the next. Thread-safe: changes happen one by one."""

    def __init__(self, started: Started, store: DaemonStore) -> None:
        self.app = started.spec.app
        self._spec, self._first_decision = started.spec, started.first_decision
        self._store = store
        self._past_start = False
        """A runner before it cannot take requests."""
        self._in_step = False
        self._stored: Started | None = None
        """As far as this object did it."""
        self._forgotten = False
        self._lock = threading.RLock()

    @property
    def spec(self) -> RunSpec:
        return self._spec

    @property
    def in_step(self) -> bool:
        """Whether the runner was told all of it; not before its start is over."""
        return self._in_step

    def renew(self, died: str | None) -> RunSpec:
        """The next runner has serial numbers of its own, unless the run is durable; ``died``: why the one before did,
        as far as is known."""
        with self._lock:
            before = self._spec
            again = {"epoch": before.epoch + 1, "started_again": died or SERVICE_BEGAN} if before.run else {}
            goes_on = before.run is not None and before.durability != "none"
            self._spec = before.model_copy(update={"run": before.run if goes_on else new_run(), **again})
            return self._spec

    def begin(self, first_decision: int) -> RunSpec:
        """What the next runner is to be started with; its decisions continue at ``first_decision``."""
        with self._lock:
            self._past_start, self._in_step, self._first_decision = False, False, first_decision
            self._store_again()
            return self._spec

    def change(self, change: Change, tell: Tell) -> None:
        """Stores it for restarts, then tells it, at once or when the runner is past its start: what is answered holds.

        Raises: NotStoredError, or as ``tell``; then nothing was changed.
        """
        with self._lock:
            before = self._spec
            self._keep(changed(before, change))
            with undone_by_failure(lambda: self._put_back(before)):
                if self._past_start:
                    tell(change)

    def note(self, status: Status, berth: Berth) -> None:
        """Of the runner in ``berth``, past its start: it is told what it does not run yet. Raises: as its port.

        The next one begins with what was good for this one, unless it was told by hand what to run.
        """
        with self._lock:
            self._past_start = True
            if not self._in_step:
                self._bring_in_step(status, berth)
            if self._spec.mode is not Mode.PINNED and status.state is State.STABLE and status.composition is not None:
                self._spec = self._spec.model_copy(update={"composition": status.composition.name})
            self._store_again()

    def _bring_in_step(self, status: Status, berth: Berth) -> None:
        """Whatever came between: its start, a daemon that was away, a change that may or may not have reached it."""
        has = berth.ask(ReadSpec())
        active = status.composition.name if status.composition is not None else None
        in_use = {each.name: each for each in has.compositions if each.name == active}
        itself = {"run": has.run, "epoch": has.epoch, "started_again": has.started_again}
        self._spec = self._spec.model_copy(update=itself)
        self._spec = changed(self._spec, SetCompositions(holding(self._spec.compositions, in_use)))
        for change in differences(has, self._spec):
            berth.ask(change)
        self._in_step = True

    def forget(self) -> None:
        """The next daemon will not run it. Raises: NotStoredError."""
        with self._lock:
            self._store.remove_started(self.app)
            self._forgotten = True

    def _keep(self, spec: RunSpec) -> None:
        """Raises: NotStoredError, and then the spec is as before."""
        wanted = Started(spec, self._first_decision).alone
        if wanted != self._stored and not self._forgotten:
            self._store.put_started(self.app, wanted)
            self._stored = wanted
        self._spec = spec

    def _put_back(self, before: RunSpec) -> None:
        """A call without an answer may have been carried out all the same."""
        self._in_step = False
        self._keep(before)

    def _store_again(self) -> None:
        """What cannot be stored now is tried again at the next status."""
        try:
            self._keep(self._spec)
        except NotStoredError:
            return
