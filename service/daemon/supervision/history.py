"""The history of an app across runners: copied decisions, and the last known state of a runner."""

import threading
from contextlib import suppress
from dataclasses import dataclass

from service.daemon.store.store import DaemonStore
from service.daemon.supervision.runner_slot import RunnerSlot
from service.runner.rpc.requests import ReadDecisions, ReadHistory, ReadNoChanges, ReadResults, ReadSizes, ReadStatus
from service.runner.rpc.window import Window
from service.schemas.base import utc_now
from service.schemas.decisions import Decision
from service.schemas.refusals import NotStoredError
from service.schemas.results import Result
from service.schemas.spec import RunSpec
from service.schemas.status import Sample, Status

QUIET_RUNS_EVERY_S = 5.0
"""Interval in seconds at which series of "no change" and of sizes are stored, because they grow all the time."""
LATE_DECISIONS = 3
"""Number of known decisions that are read again, because their drain, gap and outcome follow later."""
PAGE = 1000
QUIET_RUNS = 50


class HistoryPuller:
    """Copies a runner's history. Runners count decisions from 1; stored ids continue after ``first_decision``."""

    def __init__(self, app: str, slot: RunnerSlot, store: DaemonStore, first_decision: int) -> None:
        self._app, self._slot, self._store = app, slot, store
        self._first_decision = first_decision
        self._seen = 0
        self._quiet_runs_due_s = float("-inf")
        self._lock = threading.Lock()

    def begin_anew(self, spec: RunSpec, *, told: bool = False) -> int:
        """Return the id after which new ones continue. Another runner is a decision too, unless it was ``told``."""
        with self._lock:
            if spec.origin.started_again is not None and not told:
                number = self._store.last_decision_id(self._app) + 1
                with suppress(NotStoredError):  # this costs history, not the stream
                    self._store.put_decisions(self._app, [Decision.to_start_again(number, utc_now(), spec)])
            self._first_decision = self._store.last_decision_id(self._app)
            self._seen = 0
            return self._first_decision

    def pull(self, now_s: float) -> None:
        """Copy what is due. Raises: as the runner's port."""
        self.pull_decisions()
        if now_s >= self._quiet_runs_due_s:
            self._quiet_runs_due_s = now_s + QUIET_RUNS_EVERY_S
            self.pull_lasting()

    def pull_all(self) -> None:
        self.pull_decisions()
        self.pull_lasting()

    def pull_decisions(self) -> None:
        """Copy new decisions, and the latest known ones again."""
        with self._lock:
            found = self._slot.ask(ReadDecisions(max(self._seen - LATE_DECISIONS, 0), PAGE))
            base = self._first_decision
            if found:
                with suppress(NotStoredError):  # this costs history, not the stream; retained data are read again
                    stored = [each.model_copy(update={"id": each.id + base}) for each in found]
                    self._store.put_decisions(self._app, stored)
                    self._seen = max(self._seen, found[-1].id)

    def pull_lasting(self) -> None:
        """Copy the latest series of "no change" and changes of the bundle size."""
        quiet, sizes = self._slot.ask(ReadNoChanges(QUIET_RUNS)), self._slot.ask(ReadSizes(QUIET_RUNS))
        with suppress(NotStoredError):  # this costs history, not the stream
            self._store.quiet_runs.put(self._app, quiet)
            self._store.size_changes.put(self._app, sizes)


RESULTS_KEPT = 10_000
"""Maximum number of results that can be read after the end of a run."""
HISTORY_KEPT_S = 900.0
"""Period before the end of a run whose samples can be read after it, in seconds."""


@dataclass(frozen=True, slots=True)
class Remembered:
    status: Status | None = None
    """A recent status while the runner is up; the last one when the run has ended."""
    results: tuple[Result, ...] = ()
    """Results when the run has ended, else empty; the same holds for ``history``."""
    history: tuple[Sample, ...] = ()

    @property
    def out(self) -> int:
        """Number of items that had left at the last status."""
        if self.status is None:
            return 0
        items = self.status.items
        return items.delivered + items.failed + items.shed

    @property
    def unfinished(self) -> int:
        """Number of items that were accepted and not delivered at the last status."""
        return 0 if self.status is None else max(0, self.status.items.accepted - self.out)

    def window(self, run: str | None) -> Window:
        """Return the results of ``run`` that can still be read; none for an unknown run."""
        if self.status is None or self.status.origin.run != run:
            return Window(run)
        given = self.status.items.accepted if self.results else None
        return Window(run, self.results, self.out, given)

    @classmethod
    def of(cls, slot: RunnerSlot) -> "Remembered":
        """Read everything from the runner that can be read after its end. Raises: as the runner's port."""
        results = slot.ask(ReadResults(None, RESULTS_KEPT))
        history = slot.ask(ReadHistory(HISTORY_KEPT_S))
        return cls(slot.ask(ReadStatus()), tuple(results), tuple(history))
