"""Watch one started app: start its runner, observe it, and replace it if it dies. ``step`` is one turn, so tests call
it with a clock of their own. ``restart_policy`` decides what follows."""

import threading
from dataclasses import replace
from time import monotonic
from typing import TypeVar

import structlog

from compositions.errors import NotNow, RecomposeError
from control.decisions import State
from service.daemon.supervision import restart_policy as policy
from service.daemon.supervision.desired_state import DesiredState
from service.daemon.supervision.history import HistoryPuller, Remembered
from service.daemon.supervision.restart_policy import Condition, Ended, Failed, Starting, Stopping, Up
from service.daemon.supervision.runner_slot import RunnerSlot
from service.daemon.supervision.ticker import Clock, Ticker
from service.runner.rpc.port import ANSWER_S
from service.runner.rpc.requests import Change, ReadSpec, ReadStatus, Request, Start, Stop
from service.runner.rpc.vital import Vital
from service.schemas.refusals import NotStoredError, UnavailableError
from service.schemas.status import Status

A = TypeVar("A")
log = structlog.get_logger()

STATUS_EVERY_S = 2.0
"""Interval at which active composition and end of the run are read, in seconds."""
START_S = 60.0
"""Maximum time for a built runner to begin, in seconds; it only starts a thread, but the machine may be busy."""
PROBE_S = 2.0
"""Timeout of a call that checks whether a silent runner is still silent, in seconds."""
END_S = 1.5
"""Time by which a stop may exceed its own limit, in seconds; then the rest is killed."""


class Watchdog:
    """Watches the runner in ``slot``. Thread-safe."""

    def __init__(
        self, wanted: DesiredState, slot: RunnerSlot, history: HistoryPuller, ticker: Ticker, clock: Clock = monotonic
    ) -> None:
        self.desired, self.history = wanted, history
        self.remembered = Remembered()
        self.app = wanted.app
        self._slot, self._ticker, self._clock = slot, ticker, clock
        self.condition: Condition = Starting(clock())
        self._status_due_s = clock()
        self._out_before = 0
        """Number of items of a durable run that were delivered when its present runner began."""
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._found = False
        """True if an earlier daemon started the present runner and logged it."""
        self._unbegun = False
        """True if a found runner may not have been told to begin."""

    # --- the watch ---

    def start(self) -> None:
        """Watch in a separate thread until ``stop``."""
        self._ticker.start(self.step)

    def step(self) -> float | None:
        """Take one turn. Return the seconds until the next, or None if there is nothing left to watch."""
        match self.condition:
            case Starting(due_s) if self._clock() >= due_s:
                self._bring_up()
            case Up(silent=silent):
                self._look(silent is not None)
        return policy.delay_s(self.condition, self._clock())

    def _bring_up(self) -> None:
        found = self._found = self._slot.find()
        if not found and (ahead := self._slot.ahead()):
            self._happened(policy.Queued(self._clock(), ahead))
            return
        self._happened(self._attempt(found))
        self._status_due_s = self._clock()
        if self._ticker.ending:
            self._slot.leave()

    def _attempt(self, found: bool) -> policy.Event:
        try:
            if not found:
                self._spawn()
            self._begin_run(found)
        except NotNow as error:
            return policy.Postponed(self._clock(), str(error))
        except RecomposeError as error:
            return policy.Refused(self._clock(), str(error), self.desired.owes)
        except Exception as error:
            return policy.Died(self._clock(), f"{type(error).__name__}: {error}", self.desired.owes)
        return policy.CameUp(self._clock())

    def _begin_run(self, found: bool) -> None:
        """Begin the run. A found runner may only have been built; if it does not answer, its lease decides."""
        self._unbegun = False
        try:
            self._slot.ask(Start(), ANSWER_S if found else START_S)
        except TimeoutError:
            if not found:
                raise
            self._unbegun = True

    def _spawn(self) -> None:
        """Start a runner. Repeated attempts after a postponed one count as the same start, which is logged once."""
        put_off = policy.put_off(self.condition)
        self._out_before = self.remembered.out
        anew = self.desired.renew(self._why_again() or put_off)
        first_decision = self.history.begin_anew(anew, told=put_off is not None)
        self._slot.spawn(self.desired.begin(first_decision))

    def _why_again(self) -> str | None:
        """Return why the previous runner died, and the data lost with it, as far as known."""
        reason, lost = self.condition.deaths.reason, self.remembered.unfinished
        if reason is None or not lost or self.desired.is_durable:
            return reason
        return f"{reason}; {lost:,} accepted {'item was' if lost == 1 else 'items were'} not delivered yet"

    def _look(self, was_silent: bool) -> None:
        began_s = self._clock()
        move = self.desired.move_wanted
        if move is not None and self._slot.followed(self.desired.spec, move[1] / 2):
            why, timeout_s = move
            last = self._slot.hand_over(timeout_s, self.history.pull_all)
            self.remembered = replace(self.remembered, status=last or self.remembered.status)
            log.info("runner moves to another node", app=self.app, reason=why, **_where(self.remembered.status))
            self._happened(policy.Moved(self._clock(), why))
            return
        try:
            if was_silent:
                self._slot.ask(ReadSpec(), PROBE_S)
            self.history.pull(began_s)
            if began_s >= self._status_due_s:
                self._status_due_s = began_s + STATUS_EVERY_S
                self._reconcile()
        except Exception as error:
            reason, vital = f"{type(error).__name__}: {error}", self._slot.vital()
            silent = policy.Silent(began_s, self._clock(), reason, vital, self.desired.lease_s)
            owes = policy.gives_up(self.condition, silent) and self.desired.owes  # reading it opens the journal
            self._happened(replace(silent, owes=owes))
        else:
            durable = self.desired.is_durable  # a run that is not durable begins anew
            self._happened(policy.Answered(durable and self.remembered.out > self._out_before))

    def _reconcile(self) -> None:
        """Store the state that a restart needs, and detect the end of the run."""
        status = self._slot.ask(ReadStatus())
        if self.remembered.status is not None or not self._found:
            _tell_losses(self.remembered.status, status)
        self.remembered = replace(self.remembered, status=status)
        match status.state:
            case State.STARTING:
                if self._unbegun:
                    self._begin_run(True)
                self._status_due_s = self._clock()
                return
            case State.FAILED if self.desired.owes:
                reason = status.health.failure or "the reason is unknown"
                self._happened(policy.Refused(self._clock(), reason, owes=True))
            case State.STOPPED | State.FAILED:
                self._note_end(status.state)
            case _:
                self.desired.reconcile(status, self._slot)
        self._slot.started()

    def _note_end(self, state: State) -> None:
        try:
            self.desired.forget()
        except NotStoredError:
            return  # kept until the end is stored: otherwise the next daemon would start the run again
        self._retire()
        log.info("run ended", app=self.app, state=state)

    def _happened(self, event: policy.Event) -> None:
        with self._lock:
            if self._ticker.ending:
                return
            before, self.condition = self.condition, policy.after(self.condition, event)
        match before, self.condition:
            case ((Ended() | Failed()), _):
                return
            case _, (Ended() | Failed()):
                self._slot.leave()
                self.desired.settle()
            case Up(), Starting():
                anew = not (isinstance(event, policy.Moved) or self.desired.is_durable)
                self._slot.clear(with_workers=anew)
                self._slot.started()
            case Starting(), Starting() if not isinstance(event, policy.Queued):
                self._slot.clear()
                self._slot.started()
        _tell(self.app, before, self.condition, self.remembered.status)

    # --- calls of other parts ---

    def change(self, change: Change) -> None:
        """Apply a change. Raises: NotStoredError, or as ``ask``; then nothing was changed."""
        self.desired.change(change, self._tell_if_up)

    def _tell_if_up(self, change: Change) -> None:
        if isinstance(self.condition, Up):
            self.ask(change)

    def ask(self, request: Request[A], timeout_s: float = ANSWER_S) -> A:
        """Ask the runner. Raises: the runner's refusal, or UnavailableError if it does not answer."""
        if not isinstance(self.condition, Up | Stopping):
            state = type(self.condition).__name__.lower()
            raise UnavailableError(f"the runner of {self.app} is {state}; try again in a moment")
        try:
            return self._slot.ask(request, timeout_s)
        except RecomposeError:
            raise
        except Exception as error:
            raise UnavailableError(f"the runner of {self.app} does not answer ({type(error).__name__})") from error

    def stop(self, how: Stop | None = None, patience_s: float = ANSWER_S) -> None:
        """End the watch, then the runner, as ``how`` says (default: within 30 s, after its last item). A runner that
        has not ended ``patience_s`` after its limit is killed. Another stop shortens a stop in progress."""
        how = how or Stop()
        with self._lock:
            self._ticker.end()
            before, self.condition = self.condition, policy.after(self.condition, policy.StopAsked())
        if isinstance(before, Stopping):
            self._hurry(how, patience_s)
            return
        if isinstance(before, Up):
            self._stop_runner(how, patience_s)
        self._slot.leave()
        self.desired.settle()
        self.condition = policy.after(self.condition, policy.Finished())
        self._stopped.set()
        self._ticker.join(ANSWER_S)

    def _hurry(self, how: Stop, patience_s: float) -> None:
        """Shorten a stop. The first caller of stop does the rest: it reads the last results and frees the runner."""
        rest_s = ANSWER_S
        try:
            self._slot.ask(how, how.timeout_s + patience_s)
        except Exception as error:
            rest_s = END_S
            log.warning("runner did not stop by itself and is killed", app=self.app, error=str(error))
        if not self._stopped.wait(rest_s):
            self._slot.clear()
            self._stopped.wait(ANSWER_S)

    def _stop_runner(self, how: Stop, patience_s: float) -> None:
        try:
            self._slot.ask(how, how.timeout_s + patience_s)
            self._retire()
        except Exception as error:  # a runner that cannot stop by itself is killed
            log.warning("runner did not stop by itself and is killed", app=self.app, error=str(error))
        else:  # logged like items given up: when the daemon ends, nobody can ask any more
            if (status := self.remembered.status) is not None and status.health.failure:
                log.error("run failed", app=status.app, reason=status.health.failure)

    def _retire(self) -> None:
        """Store what can be read after the end, then free the runner."""
        self.history.pull_all()
        self.remembered = Remembered.of(self._slot)
        self._happened(policy.Finished())


def _tell_losses(before: Status | None, status: Status) -> None:
    """Log the workers that died since the last call, and the consequence for their work."""
    same = before is not None and (before.origin.run, before.origin.epoch) == (status.origin.run, status.origin.epoch)
    known = before.health.losses or [] if before is not None and same else []
    logged = max((each.number for each in known), default=0)
    for each in status.health.losses or []:
        if each.number > logged:
            log.warning(
                "worker died",
                **{"app": status.app, "worker": each.id, "pid": each.pid, "node": each.node, "reason": each.reason},
                consequence="its tasks run again on others, and another worker is started",
            )


def _where(status: Status | None) -> dict[str, object]:
    """Return the location of the last known runner."""
    runner = None if status is None else status.health.runner
    return {} if runner is None else {"pid": runner.pid, "node": runner.node}


def _tell(app: str, before: Condition, condition: Condition, status: Status | None) -> None:
    deaths = condition.deaths
    match before, condition:
        case _ if condition == before:
            return
        case _, Starting(blocked=str(why)):
            if policy.put_off(before) != why:
                log.warning("runner cannot start now; starting it again later", app=app, reason=why)
        case Up(silent=None), Up(silent=Vital() as how):
            log.warning("runner does not answer", app=app, seen=how.value)
        case Up(silent=Vital()), Up(silent=None):
            log.info("runner answers again", app=app)
        case Up(), Up():
            return
        case _, Up():
            log.info("runner is up", app=app, attempt=deaths.in_a_row)
        case _, Starting() if deaths.restarts > before.deaths.restarts:
            known = {**_where(status), "reason": deaths.reason, "attempt": deaths.in_a_row}
            log.warning("runner died", app=app, **known, consequence="another runner is started")
        case _, Failed():
            log.error("app failed", app=app, reason=deaths.reason)
