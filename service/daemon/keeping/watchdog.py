"""Watches one started app: brings its runner up, looks at it, and brings it up again when it dies.

``step`` is one turn of the watch and returns when the next is due, so tests turn it by hand with a clock of their own.
What a turn finds out goes to ``restart_policy``, which says what follows.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import structlog

from compositions.errors import NotNow, RecomposeError
from control.decisions import State
from service.bodies.refusals import NotStoredError, UnavailableError
from service.daemon.keeping import restart_policy as policy
from service.daemon.keeping.berth import Berth
from service.daemon.keeping.history_puller import HistoryPuller
from service.daemon.keeping.remembered import Remembered
from service.daemon.keeping.restart_policy import Condition, Ended, Failed, Starting, Up, Upkeep
from service.daemon.keeping.ticker import Ticker
from service.daemon.keeping.wanted import Wanted
from service.running.asking.port import ANSWER_S
from service.running.asking.requests import Change, ReadStatus, Request, Start, Stop

A = TypeVar("A")
log = structlog.get_logger()

STATUS_EVERY_S = 2.0
"""Active composition and end of the run are looked at this often."""
START_TIMEOUT_S = 600.0
"""Building an app's database belongs to its start."""


class Watchdog:
    """Of the runner in ``berth``. Thread-safe."""

    def __init__(
        self,
        wanted: Wanted,
        berth: Berth,
        history: HistoryPuller,
        ticker: Ticker,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.wanted, self.history = wanted, history
        self.remembered = Remembered()
        self.app = wanted.app
        self._berth, self._ticker, self._clock = berth, ticker, clock
        self._condition: Condition = Starting(clock())
        self._status_due_s = clock()
        self._out_before = 0
        """Items of a durable run that were out when its present runner began."""
        self._lock = threading.Lock()

    @property
    def condition(self) -> Condition:
        return self._condition

    # --- the watch ---

    def start(self) -> None:
        """Watches from a thread of its own until ``stop``."""
        self._ticker.start(self.step)

    def step(self) -> float | None:
        """One turn. Returns the seconds until the next, or None when there is nothing left to watch."""
        match policy.upkeep(self._condition, self._clock()):
            case Upkeep.BRING_UP:
                self._bring_up()
            case Upkeep.LOOK:
                self._look()
        return policy.delay_s(self._condition, self._clock())

    def _bring_up(self) -> None:
        self._happened(self._attempt())
        self._status_due_s = self._clock()
        if self._ticker.ending:
            self._berth.leave()

    def _attempt(self) -> policy.Event:
        try:
            found = self._berth.find()
            if not found:
                self._spawn()
            # one that was found may have been built and no more
            self._berth.ask(Start(), ANSWER_S if found else START_TIMEOUT_S)
        except NotNow as error:
            return policy.Postponed(self._clock(), str(error))
        except RecomposeError as error:
            return policy.Refused(str(error))
        except Exception as error:
            return policy.Died(self._clock(), f"{type(error).__name__}: {error}")
        return policy.CameUp(self._clock())

    def _spawn(self) -> None:
        """The attempts after one that was put off are the same start, and told once."""
        put_off = policy.put_off(self._condition)
        self._out_before = self.remembered.out
        anew = self.wanted.renew(self._why_again() or put_off)
        first_decision = self.history.begin_anew(anew, told=put_off is not None)
        self._berth.spawn(self.wanted.begin(first_decision))

    def _why_again(self) -> str | None:
        """Why the runner before died, and what went with it, as far as is known."""
        reason, lost = self._condition.deaths.reason, self.remembered.unfinished
        if reason is None or not lost or self.wanted.spec.durability != "none":
            return reason
        return f"{reason}; of what it had accepted {lost:,} {'item was' if lost == 1 else 'items were'} not out yet"

    def _look(self) -> None:
        now_s = self._clock()
        try:
            self.history.pull(now_s)
            if now_s >= self._status_due_s:
                self._status_due_s = now_s + STATUS_EVERY_S
                self._note()
        except Exception as error:
            self._happened(policy.Silent(self._clock(), f"{type(error).__name__}: {error}", self._berth.alive()))
        else:
            durable = self.wanted.spec.durability != "none"  # another begins anew, and gets as far each time
            self._happened(policy.Answered(durable and self.remembered.out > self._out_before))

    def _note(self) -> None:
        """Remembers what a restart needs, and sees the end of the run."""
        status = self._berth.ask(ReadStatus())
        self.remembered = replace(self.remembered, status=status)
        match status.state:
            case State.STARTING:
                self._status_due_s = self._clock()
            case State.STOPPED | State.FAILED:
                self._note_end(status.state)
            case _:
                self.wanted.note(status, self._berth)

    def _note_end(self, state: State) -> None:
        try:
            self.wanted.forget()
        except NotStoredError:
            return  # kept until it is stored that it has ended: else the next daemon would run it again
        self._retire()
        log.info("run ended", app=self.app, state=state)

    def _happened(self, event: policy.Event) -> None:
        with self._lock:
            if self._ticker.ending:
                return
            before, self._condition = self._condition, policy.after(self._condition, event)
        match before, self._condition:
            case ((Ended() | Failed()), _):
                return
            case _, (Ended() | Failed()):
                self._berth.leave()
            case _, Starting():
                self._berth.clear()
            case Up(), _:
                return  # as before, but for what it was silent about
        _tell(self.app, before, self._condition)

    # --- what others ask of it ---

    def change(self, change: Change) -> None:
        """Raises: NotStoredError, or as ``ask``; then nothing was changed."""
        self.wanted.change(change, self._tell_if_up)

    def _tell_if_up(self, change: Change) -> None:
        if isinstance(self._condition, Up):
            self.ask(change)

    def ask(self, request: Request[A], timeout_s: float = ANSWER_S) -> A:
        """Raises: what the runner refuses, or UnavailableError when it does not answer."""
        if not isinstance(self._condition, Up):
            raise UnavailableError(f"the runner of {self.app} is {self._condition.word}; try again in a moment")
        try:
            return self._berth.ask(request, timeout_s)
        except RecomposeError:
            raise
        except Exception as error:
            raise UnavailableError(f"the runner of {self.app} does not answer ({type(error).__name__})") from error

    def stop(self, drain: bool = True, timeout_s: float = 30.0) -> None:
        """Ends the watch, then the runner, after its last item when ``drain``."""
        with self._lock:
            self._ticker.end()
        if isinstance(self._condition, Up):
            self._stop_runner(drain, timeout_s)
        self._berth.leave()
        self._condition = policy.Ended(self._condition.deaths)
        self._ticker.join(ANSWER_S)

    def _stop_runner(self, drain: bool, timeout_s: float) -> None:
        try:
            self._berth.ask(Stop(drain, timeout_s), timeout_s + ANSWER_S)
            self._retire()
        except Exception as error:  # a runner that cannot stop by itself is killed
            log.warning("runner did not stop by itself", app=self.app, error=str(error))
        else:
            self._tell_failure()

    def _tell_failure(self) -> None:
        """What went wrong at the end, as items that were given up: when the daemon ends, nobody can ask any more."""
        status = self.remembered.status
        if status is not None and status.failure:
            log.error("run failed", app=self.app, reason=status.failure)

    def _retire(self) -> None:
        """Keeps what is asked for after the end, then frees the runner."""
        self.history.pull_all()
        self.remembered = Remembered.of(self._berth)
        self._happened(policy.Finished())


def _tell(app: str, before: Condition, condition: Condition) -> None:
    deaths = condition.deaths
    match condition:
        case _ if condition == before:
            return
        case Starting(held_up=str(why)):
            if policy.put_off(before) != why:
                log.warning("runner cannot start now and is tried again", app=app, reason=why)
        case Up():
            log.info("runner up", app=app, attempt=deaths.in_a_row)
        case Starting():
            log.warning("runner died", app=app, reason=deaths.reason, attempt=deaths.in_a_row)
        case Failed():
            log.error("app failed", app=app, reason=deaths.reason)
