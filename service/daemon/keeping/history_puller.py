"""Brings what a runner decided into the store, whose history goes on across runners."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from service.bodies.base import utc_now
from service.bodies.decisions import Decision
from service.bodies.refusals import NotStoredError
from service.bodies.spec import RunSpec
from service.daemon.keeping.berth import Berth
from service.daemon.storing.store import DaemonStore
from service.running.asking.requests import ReadDecisions, ReadNoChanges, ReadSizes

QUIET_RUNS_EVERY_S = 5.0
"""Runs of "no change" and of sizes grow all the time; they are stored this often, and when someone asks."""
LATE_DECISIONS = 3
"""How many known decisions are read again: their drain, gap and outcome come after them."""
PAGE = 1000
QUIET_RUNS = 50


class HistoryPuller:
    """A runner counts its decisions from 1; stored ids continue after ``first_decision``. Thread-safe."""

    def __init__(self, app: str, berth: Berth, store: DaemonStore, first_decision: int) -> None:
        self._app, self._berth, self._store = app, berth, store
        self._first_decision = first_decision
        self._seen = 0
        self._quiet_runs_due_s = float("-inf")
        self._lock = threading.Lock()

    def begin_anew(self, spec: RunSpec, *, told: bool = False) -> int:
        """The ids of the runner of ``spec`` go on behind all that are stored: behind the one returned. That there is
        another runner is a decision too, unless it was ``told`` before."""
        with self._lock:
            if spec.started_again is not None and not told:
                self._note_start(spec)
            self._first_decision = self._store.last_decision_id(self._app)
            self._seen = 0
            return self._first_decision

    def _note_start(self, spec: RunSpec) -> None:
        number = self._store.last_decision_id(self._app) + 1
        try:
            self._store.put_decisions(self._app, [Decision.to_start_again(number, utc_now(), spec)])
        except NotStoredError:  # costs history, not the stream
            return

    def pull(self, now_s: float) -> None:
        """What is due. Raises: as the runner's port."""
        self.pull_decisions()
        if now_s >= self._quiet_runs_due_s:
            self._quiet_runs_due_s = now_s + QUIET_RUNS_EVERY_S
            self.pull_quiet_runs()
            self.pull_sizes()

    def pull_all(self) -> None:
        self.pull_decisions()
        self.pull_quiet_runs()
        self.pull_sizes()

    def pull_decisions(self) -> None:
        """New ones, and the latest known ones again."""
        with self._lock:
            found = self._berth.ask(ReadDecisions(max(self._seen - LATE_DECISIONS, 0), PAGE))
            try:
                self._put(found)
            except NotStoredError:  # costs history, not the stream; what the runner still has is read again
                return

    def _put(self, found: Sequence[Decision]) -> None:
        if found:
            base = self._first_decision
            self._store.put_decisions(self._app, [each.model_copy(update={"id": each.id + base}) for each in found])
            self._seen = max(self._seen, found[-1].id)

    def pull_quiet_runs(self) -> None:
        found = self._berth.ask(ReadNoChanges(QUIET_RUNS))
        try:
            self._store.put_quiet_runs(self._app, found)
        except NotStoredError:  # as above
            return

    def pull_sizes(self) -> None:
        found = self._berth.ask(ReadSizes(QUIET_RUNS))
        try:
            self._store.put_size_changes(self._app, found)
        except NotStoredError:  # as above
            return
