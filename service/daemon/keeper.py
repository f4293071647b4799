"""Keeps one started app running: brings its runner up, watches it, and brings it up again when it dies.

``step`` is one turn of the watch and returns when the next is due; the thread around it is three lines, so tests turn
it by hand with a clock of their own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from enum import StrEnum
from typing import Any

import structlog

from compositions.errors import RecomposeError
from control.decisions import Mode
from service.bodies.refusals import UnavailableError
from service.bodies.results import Result
from service.bodies.spec import RunSpec
from service.bodies.status import Sample, Status
from service.daemon.hosts import CALL_TIMEOUT_S, Host, RunnerHandle
from service.daemon.store import Started, State

log = structlog.get_logger()

POLL_S = 0.5
"""Decisions are fetched this often; the same call notices a dead runner."""
STATUS_EVERY_S = 2.0
"""Active composition and end of the run are looked at this often."""
CHANGES_EVERY_S = 5.0
"""Runs of "no change" grow all the time; they are stored this often, and when someone asks."""
START_TIMEOUT_S = 600.0
"""Building an app's database belongs to its start."""
BACK_OFF_S = (0.0, 1.0, 2.0, 4.0, 8.0)
"""Waits before the restarts of a runner that died; after the last the app counts as failed."""
HEALTHY_S = 60.0
"""A runner that lived this long starts with fresh attempts."""
SILENT_LIMIT = 3
"""Calls in a row without an answer until a runner that seems alive counts as hung."""
RESULTS_KEPT = 10_000
"""Results that can still be read after the end of a run."""
HISTORY_KEPT_S = 900.0
"""Samples of a run's end that can still be read after it."""
LATE_DECISIONS = 3
"""How many known decisions are read again: their drain, gap and outcome come after them."""


class Phase(StrEnum):
    STARTING = "starting"
    UP = "up"
    ENDED = "ended"
    FAILED = "failed"


class Keeper:
    """``name`` is the runner's name at its host. Thread-safe."""

    def __init__(
        self,
        name: str,
        started: Started,
        host: Host,
        state: State,
        *,
        attach: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name, self.app = name, started.spec.app
        self.phase = Phase.STARTING
        self.error: str | None = None
        self.restarts = 0
        self.last_status: Status | None = None
        """Of the runner that is up, or was; at most ``STATUS_EVERY_S`` old while it is up."""
        self.last_results: list[Result] = []
        """Filled when the run has ended."""
        self.last_history: list[Sample] = []
        """Filled when the run has ended."""
        self._spec, self._first_decision = started.spec, started.first_decision
        self._host, self._state, self._clock = host, state, clock
        self._attach = attach
        self._started_with: RunSpec | None = None
        """Until the runner is past its start, which cannot take requests: what it was told at first."""
        self._handle: RunnerHandle | None = None
        self._attempts = self._silent = self._seen = 0
        self._due_s = self._up_since_s = clock()
        self._status_due_s = self._changes_due_s = self._due_s
        self._lock = threading.RLock()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    # --- the watch ---

    def start(self) -> None:
        """Watches from a thread of its own until ``close``."""
        self._thread = threading.Thread(target=self._watch, name=f"keeper-{self.app}", daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        delay: float | None = 0.0
        while delay is not None and not self._closing.wait(delay):
            delay = self.step()

    def step(self) -> float | None:
        """One turn. Returns the seconds until the next, or None when there is nothing left to watch."""
        if self.phase in (Phase.ENDED, Phase.FAILED):
            return None
        if self.phase is Phase.UP:
            self._look()
        elif self._clock() >= self._due_s:
            self._bring_up()
        if self.phase is Phase.STARTING:
            return max(self._due_s - self._clock(), 0.0)
        return POLL_S if self.phase is Phase.UP else None

    def _bring_up(self) -> None:
        spec = self._spec
        try:
            self._handle = self._find() or self._start_new(spec)
        except RecomposeError as error:
            self._fail(str(error))
        except Exception as error:
            self._died(f"{type(error).__name__}: {error}")
        else:
            self._came_up(spec)

    def _find(self) -> RunnerHandle | None:
        attach, self._attach = self._attach, False
        return self._host.find(self.name) if attach else None

    def _start_new(self, spec: RunSpec) -> RunnerHandle:
        self._first_decision = self._state.last_decision_id(self.app)
        self._seen = 0
        self._store()
        handle = self._handle = self._host.spawn(self.name, spec)
        handle.call("start", timeout_s=START_TIMEOUT_S)
        return handle

    def _came_up(self, started_with: RunSpec) -> None:
        with self._lock:
            if self._closing.is_set():
                self._kill()
                return
            self.phase, self._silent = Phase.UP, 0
            self._up_since_s = self._status_due_s = self._clock()
            self._started_with = started_with
        log.info("runner up", app=self.app, attempt=self._attempts)

    def _catch_up(self) -> None:
        """Applies what was asked for while the runner was starting."""
        old, new = self._started_with, self._spec
        if old is None:
            return
        if new.slo != old.slo:
            self._call("set_slo", new.slo)
        if new.input != old.input:
            self._call("set_input", new.input)
        if new.compositions != old.compositions:
            self._call("set_compositions", new.compositions)
        if new.mode != old.mode:
            self._call("set_mode", new.mode, new.composition if new.mode is Mode.PINNED else None)
        self._started_with = None

    def _look(self) -> None:
        now_s = self._clock()
        try:
            self.pull_decisions()
            if now_s >= self._status_due_s:
                self._status_due_s = now_s + STATUS_EVERY_S
                self._note(self._call("status"))
            if now_s >= self._changes_due_s:
                self._changes_due_s = now_s + CHANGES_EVERY_S
                self.pull_changes()
            self._silent = 0
        except Exception as error:
            self._no_answer(f"{type(error).__name__}: {error}")

    def _no_answer(self, reason: str) -> None:
        handle = self._handle
        if self._closing.is_set() or handle is None:
            return
        self._silent += 1
        if not handle.alive() or self._silent >= SILENT_LIMIT:
            self._died(reason)

    def _died(self, reason: str) -> None:
        """The runner is gone: another attempt after a back-off, or the end of all attempts."""
        now_s = self._clock()
        self._kill()
        with self._lock:
            if self._closing.is_set():
                return
            if self.phase is Phase.UP and now_s - self._up_since_s >= HEALTHY_S:
                self._attempts = 0
            if self._attempts >= len(BACK_OFF_S):
                self._fail(f"the runner died {self._attempts + 1} times; last: {reason}")
                return
            self._due_s = now_s + BACK_OFF_S[self._attempts]
            self._attempts += 1
            self.restarts += 1
            self.phase, self.error = Phase.STARTING, reason
        log.warning("runner died", app=self.app, reason=reason, attempt=self._attempts)

    def _fail(self, reason: str) -> None:
        self._kill()
        self.phase, self.error = Phase.FAILED, reason
        log.error("app failed", app=self.app, reason=reason)

    def _note(self, status: Status) -> None:
        """Remembers what a restart needs, and sees the end of the run."""
        self.last_status = status
        if status.state in ("stopped", "failed"):
            self._retire()
            self._state.remove_started(self.app)
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
                self._store()

    # --- what others ask of it ---

    @property
    def spec(self) -> RunSpec:
        return self._spec

    def change(self, method: str, args: tuple[Any, ...], **update: Any) -> None:
        """Changes the spec (for restarts) and tells the runner, at once or when it is up."""
        with self._lock:
            if self.phase is Phase.UP and self._started_with is None:
                self.call(method, *args)
            self._spec = self._spec.model_copy(update=update)
            self._store()

    def call(self, method: str, *args: Any, timeout_s: float = CALL_TIMEOUT_S) -> Any:
        """Asks the runner. Raises: what it raises for the caller, or UnavailableError when it does not answer."""
        try:
            return self._call(method, *args, timeout_s=timeout_s)
        except RecomposeError:
            raise
        except Exception as error:
            raise UnavailableError(f"the runner of {self.app} does not answer ({type(error).__name__})") from error

    def _call(self, method: str, *args: Any, timeout_s: float = CALL_TIMEOUT_S) -> Any:
        handle = self._handle
        if handle is None or self.phase is not Phase.UP:
            raise UnavailableError(f"the runner of {self.app} is {self.phase}; try again in a moment")
        return handle.call(method, *args, timeout_s=timeout_s)

    def pull_decisions(self) -> None:
        """Fetches new decisions, and the latest known ones again, into the state file."""
        with self._lock:
            found = self._call("decisions", max(self._seen - LATE_DECISIONS, 0), 1000)
            if found:
                self._seen = max(self._seen, found[-1].id)
                base = self._first_decision
                self._state.put_decisions(self.app, [each.model_copy(update={"id": each.id + base}) for each in found])

    def pull_changes(self) -> None:
        self._state.put_changes(self.app, self._call("changes", 50))

    def stop(self, drain: bool = True, timeout_s: float = 30.0) -> None:
        """Ends the watch, then the runner, after its last item when ``drain``."""
        self._closing.set()
        with self._lock:
            up = self.phase is Phase.UP
        if up:
            self._stop_runner(drain, timeout_s)
        self._kill()
        self.phase = Phase.ENDED
        if self._thread is not None:
            self._thread.join(CALL_TIMEOUT_S)

    def _stop_runner(self, drain: bool, timeout_s: float) -> None:
        try:
            self._call("stop", drain, timeout_s, timeout_s=timeout_s + CALL_TIMEOUT_S)
            self._retire()
        except Exception as error:  # a runner that cannot stop by itself is killed
            log.warning("runner did not stop by itself", app=self.app, error=str(error))

    def _retire(self) -> None:
        """Keeps what is asked for after the end (last status, results, history), then frees the runner."""
        self.pull_decisions()
        self.pull_changes()
        self.last_results = self._call("results", -1, RESULTS_KEPT)
        self.last_history = self._call("history", HISTORY_KEPT_S)
        self.last_status = self._call("status")
        self.phase = Phase.ENDED
        self._kill()

    def _kill(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            try:
                handle.kill()
            except Exception as error:  # it was dead already, or its host is gone
                log.debug("kill", app=self.app, error=str(error))

    def _store(self) -> None:
        self._state.put_started(self.app, Started(self._spec.model_copy(update={"slo": None}), self._first_decision))
