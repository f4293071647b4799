"""Watches one started app: brings its runner up, looks at it, and brings it up again when it dies.

``step`` is one turn of the watch and returns when the next is due, so tests turn it by hand with a clock of their own.
What a turn finds out goes to ``restart_policy``, which says what follows.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import structlog

from compositions.errors import RecomposeError
from service.bodies.refusals import UnavailableError
from service.bodies.results import Result
from service.bodies.spec import RunSpec
from service.bodies.status import Sample, Status
from service.daemon import restart_policy as policy
from service.daemon.changes import Change, changed, differences
from service.daemon.history_puller import HistoryPuller
from service.daemon.restart_policy import Condition, Failed, Starting, Turn, Up
from service.daemon.slot import Slot
from service.daemon.store import DaemonStore, Started
from service.daemon.ticker import Ticker
from service.running.port import ANSWER_S
from service.running.requests import (
    ReadHistory,
    ReadResults,
    ReadStatus,
    Request,
    Start,
    Stop,
)

A = TypeVar("A")
log = structlog.get_logger()

STATUS_EVERY_S = 2.0
"""Active composition and end of the run are looked at this often."""
START_TIMEOUT_S = 600.0
"""Building an app's database belongs to its start."""
RESULTS_KEPT = 10_000
"""Results that can still be read after the end of a run."""
HISTORY_KEPT_S = 900.0
"""Samples of a run's end that can still be read after it."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """What is known of a runner without asking it."""

    status: Status | None = None
    """At most ``STATUS_EVERY_S`` old while it is up; its last when it has ended."""
    results: tuple[Result, ...] = ()
    """Filled when the run has ended, as is ``history``."""
    history: tuple[Sample, ...] = ()


class Watchdog:
    """Of the runner in ``slot``. Thread-safe."""

    def __init__(
        self,
        started: Started,
        slot: Slot,
        store: DaemonStore,
        ticker: Ticker,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.app = started.spec.app
        self.remembered = Remembered()
        self._spec = started.spec
        self._slot, self._store, self._ticker, self._clock = slot, store, ticker, clock
        self._history = HistoryPuller(self.app, slot, store, started.first_decision)
        self._condition: Condition = Starting(clock())
        self._started_with: RunSpec | None = None
        """Until the runner is past its start, which cannot take requests: what it was told at first."""
        self._status_due_s = clock()
        self._lock = threading.RLock()

    @property
    def spec(self) -> RunSpec:
        """As the next runner gets it."""
        return self._spec

    @property
    def condition(self) -> Condition:
        return self._condition

    # --- the watch ---

    def start(self) -> None:
        """Watches from a thread of its own until ``stop``."""
        self._ticker.start(self.step)

    def step(self) -> float | None:
        """One turn. Returns the seconds until the next, or None when there is nothing left to watch."""
        match policy.turn(self._condition, self._clock()):
            case Turn.BRING_UP:
                self._bring_up()
            case Turn.LOOK:
                self._look()
        return policy.delay_s(self._condition, self._clock())

    def _bring_up(self) -> None:
        spec = self._spec
        event = self._attempt(spec)
        with self._lock:
            self._started_with, self._status_due_s = spec, self._clock()
            self._happened(event)
            if self._ticker.ending:
                self._slot.clear()

    def _attempt(self, spec: RunSpec) -> policy.Event:
        try:
            if not self._slot.find():
                self._start_new(spec)
        except RecomposeError as error:
            return policy.Refused(str(error))
        except Exception as error:
            return policy.Died(self._clock(), f"{type(error).__name__}: {error}")
        return policy.CameUp(self._clock())

    def _start_new(self, spec: RunSpec) -> None:
        self._history.begin_anew()
        self._put()
        self._slot.spawn(spec)
        self._slot.ask(Start(), START_TIMEOUT_S)

    def _look(self) -> None:
        now_s = self._clock()
        try:
            self._history.pull(now_s)
            if now_s >= self._status_due_s:
                self._status_due_s = now_s + STATUS_EVERY_S
                self._note(self._slot.ask(ReadStatus()))
        except Exception as error:
            self._happened(policy.Silent(self._clock(), f"{type(error).__name__}: {error}", self._slot.alive()))
        else:
            self._happened(policy.Answered())

    def _happened(self, event: policy.Event) -> None:
        with self._lock:
            if self._ticker.ending:
                return
            before, self._condition = self._condition, policy.after(self._condition, event)
        if type(before) is type(self._condition):
            return
        if not isinstance(self._condition, Up):
            self._slot.clear()
        _tell(self.app, self._condition)

    def _note(self, status: Status) -> None:
        """Remembers what a restart needs, and sees the end of the run."""
        self.remembered = replace(self.remembered, status=status)
        if status.state in ("stopped", "failed"):
            self._retire()
            self._store.remove_started(self.app)
            log.info("run ended", app=self.app, state=status.state)
            return
        active = status.composition.name if status.composition else None
        with self._lock:
            if status.state == "starting":
                self._status_due_s = self._clock()
                return
            self._catch_up()
            if status.state == "stable" and active and active != self._spec.composition:
                self._spec = self._spec.model_copy(update={"composition": active})
                self._put()

    def _catch_up(self) -> None:
        """Applies what was asked for while the runner was starting."""
        if self._started_with is not None:
            for change in differences(self._started_with, self._spec):
                self._slot.ask(change)
            self._started_with = None

    # --- what others ask of it ---

    def change(self, change: Change) -> None:
        """Changes the spec (for restarts) and tells the runner, at once or when it is up. Raises: as ``ask``."""
        with self._lock:
            if isinstance(self._condition, Up) and self._started_with is None:
                self.ask(change)
            self._spec = changed(self._spec, change)
            self._put()

    def ask(self, request: Request[A]) -> A:
        """Raises: what the runner refuses, or UnavailableError when it does not answer."""
        if not isinstance(self._condition, Up):
            raise UnavailableError(f"the runner of {self.app} is {self._condition.word}; try again in a moment")
        try:
            return self._slot.ask(request)
        except RecomposeError:
            raise
        except Exception as error:
            raise UnavailableError(f"the runner of {self.app} does not answer ({type(error).__name__})") from error

    def pull_history(self) -> None:
        """Brings what was decided up to now into the store. Raises: as the runner's port."""
        self._history.pull_all()

    def stop(self, drain: bool = True, timeout_s: float = 30.0) -> None:
        """Ends the watch, then the runner, after its last item when ``drain``."""
        self._ticker.end()
        with self._lock:
            up = isinstance(self._condition, Up)
        if up:
            self._stop_runner(drain, timeout_s)
        self._slot.clear()
        self._condition = policy.Ended(self._condition.deaths)
        self._ticker.join(ANSWER_S)

    def _stop_runner(self, drain: bool, timeout_s: float) -> None:
        try:
            self._slot.ask(Stop(drain, timeout_s), timeout_s + ANSWER_S)
            self._retire()
        except Exception as error:  # a runner that cannot stop by itself is killed
            log.warning("runner did not stop by itself", app=self.app, error=str(error))

    def _retire(self) -> None:
        """Keeps what is asked for after the end, then frees the runner."""
        self._history.pull_all()
        results = tuple(self._slot.ask(ReadResults(-1, RESULTS_KEPT)))
        history = tuple(self._slot.ask(ReadHistory(HISTORY_KEPT_S)))
        self.remembered = Remembered(self._slot.ask(ReadStatus()), results, history)
        self._happened(policy.Finished())

    def _put(self) -> None:
        self._store.put_started(self.app, Started(self._spec, self._history.first_decision))


def _tell(app: str, condition: Condition) -> None:
    deaths = condition.deaths
    match condition:
        case Up():
            log.info("runner up", app=app, attempt=deaths.in_a_row)
        case Starting():
            log.warning("runner died", app=app, reason=deaths.reason, attempt=deaths.in_a_row)
        case Failed():
            log.error("app failed", app=app, reason=deaths.reason)
