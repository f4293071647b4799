"""One running app in its own thread, behind ``RunnerPort``: its life from start to end, and its failures."""

import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from math import inf
from tempfile import NamedTemporaryFile
from time import monotonic
from typing import TypeVar

from compositions.errors import RecomposeError
from compositions.extras import advice
from compositions.logger import Logger
from control.decisions import State
from runtime.dispatch.event_log import DispatcherError, EventLog
from runtime.housekeeping import TRIM_EVERY_S, trim
from service.runner.handlers.answers import AtRest, RunnerStatus, UnderWay
from service.runner.rpc import requests
from service.runner.rpc.port import ANSWER_S, Answers, Mailbox
from service.runner.rpc.vital import Vital
from service.runner.telemetry.record import record_of
from service.runner.validation.checked import CheckedSpec
from service.runner.validation.resolution import NO_OVERRIDES, Overrides, follows_itself
from service.runner.wiring.assembly import assemble
from service.runner.wiring.run import Run
from service.schemas.spec import RunSpec, new_run

NAMED = 5
"""Maximum number of serial numbers that a message names if items were given up."""


def failure_text(error: Exception, app: str) -> str:
    """Return a sentence for users, else the stack. For the dispatcher's errors, it names the file that replays them."""
    if isinstance(error, RecomposeError) and not isinstance(error, DispatcherError):
        return str(error)
    if sentence := advice(error):
        return sentence
    stack = "".join(traceback.format_exception(error)).rstrip()
    return f"{_kept(error.log, app)}\n{stack}" if isinstance(error, DispatcherError) else stack


def _kept(log: EventLog, app: str) -> str:
    """Write the event log. It contains no payloads; nevertheless only its owner may read it (mode 0600)."""
    try:
        with NamedTemporaryFile("w", prefix=f"recompose-{app}-", suffix=".events.jsonl", delete=False) as file:
            file.writelines(f"{line}\n" for line in log.lines())
    except OSError as error:
        return f"The events that led to it could not be written: {error}"
    return f"{file.name} contains the events that led to it; attach it to a report, so that a test can replay them."


def _given_up(serials: range) -> str:
    shown = ", ".join(str(serial) for serial in serials[:NAMED])
    more = f" and {len(serials) - NAMED} more" if len(serials) > NAMED else ""
    left = f"with {len(serials)} accepted items undelivered, serial numbers {shown}{more}"
    return f"the time to drain ended {left}; push them again, or give the stop more time"


A = TypeVar("A")

STEP_S = 0.25
"""Maximum length of a step of the loop, in seconds; any event ends it early."""
CLOSE_S = 10.0
"""Time for which a stop waits for workers to end, after its drain, in seconds."""


@dataclass(slots=True)
class _End:
    """The requested end of a run; of several stops, the tightest limits hold."""

    told: threading.Event = field(default_factory=threading.Event)
    drain: bool = True
    drain_until_s: float = inf
    hands_over: bool = False
    drained: threading.Event = field(default_factory=threading.Event)
    telling: threading.Lock = field(default_factory=threading.Lock)

    def tell(self, stop: requests.Stop) -> None:
        with self.telling:
            self.hands_over = stop.hands_over and (self.hands_over or not self.told.is_set())
            self.drain = self.drain and stop.drain
            self.drain_until_s = min(self.drain_until_s, monotonic() + stop.timeout_s)
        self.told.set()

    def goes_on(self, over: bool) -> bool:
        """Return whether the loop goes on: a runner that hands over waits to be killed, its workers alive."""
        if not over or not self.hands_over:
            return not (over or self.due)
        self.drained.set()
        return True

    @property
    def due(self) -> bool:
        """Return whether the time is up, so that items in flight are given up."""
        return self.told.is_set() and (not self.drain or monotonic() > self.drain_until_s)


class Runner:
    """A running app. Any thread may call its methods. Raises: RecomposeError for a spec that cannot run."""

    def __init__(self, spec: RunSpec, overrides: Overrides = NO_OVERRIDES) -> None:
        self.spec = spec = spec if spec.origin.run else spec.but(origin=replace(spec.origin, run=new_run()))
        self._checked = CheckedSpec(spec, overrides)
        self._results = overrides.results
        self._log = Logger(app=spec.app)
        if idle := follows_itself(spec):
            self._log.warning(idle)
        self._status = RunnerStatus()
        self._mailbox = Mailbox()
        self._run: Run | None = None
        resting = AtRest(self._checked, self._status, self._mailbox).handlers()
        self._at_once = Answers(*self._handlers(), *resting)
        self._unstarted = threading.Lock()
        self._end = _End()
        self._ended = threading.Event()
        self._killed = False
        self._thread = threading.Thread(target=self._live, name=f"loop-{spec.app}", daemon=True)

    # --- the port ---------------------------------------------------------------------------------------------------

    def ask(self, request: requests.Request[A], *, timeout_s: float = ANSWER_S) -> A:
        """Answer a request; see :class:`service.runner.rpc.port.RunnerPort`. ``Stop`` takes its own time."""
        if self._killed:
            raise ConnectionError("the runner was killed")
        at_once = self._at_once  # read once: another handler replaces it when the run begins
        answer = at_once.answer(request) if request in at_once else self._mailbox.ask(request, timeout_s)
        if isinstance(request, requests.Change):
            self.spec = requests.changed(self.spec, request)
        return answer

    def vital(self) -> Vital:
        return Vital.DEAD if self._killed else Vital.REACHABLE

    def kill(self) -> None:
        if not self._killed:
            self._killed = True
            self._stop(requests.Stop(drain=False, timeout_s=0.0))

    def at(self, node: str) -> None:
        """Record that the runner runs on the machine with this address."""
        self._status.node = node

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end of the run; return True if it has ended."""
        return self._ended.wait(timeout_s)

    def _handlers(self) -> tuple[requests.Handler, ...]:
        """Return the handlers of requests that need no loop."""
        taken, put = requests.Taken, self._checked.pushes.put
        return (
            requests.Start.by(self._start),
            requests.ReadSpec.by(lambda _: self.spec),
            requests.Stop.by(self._stop),
            requests.PushMany.by(lambda request: taken(*put(request.values), self.spec.origin.run)),
        )

    def _start(self, _: requests.Start) -> None:
        if self._unstarted.acquire(blocking=False):
            self._thread.start()

    def _stop(self, request: requests.Stop) -> None:
        self._end.tell(request)
        if self._run is not None:
            self._run.wake()
        if self._thread.ident is not None:
            (self._end.drained if request.hands_over else self._ended).wait(request.timeout_s + CLOSE_S)

    # --- the loop's thread ------------------------------------------------------------------------------------------

    def _live(self) -> None:
        try:
            with self._reporting(), ExitStack() as closing:
                closing.callback(self._checked.close)
                with self._reporting():
                    self._conduct(closing)
                self._status.state = State.CLOSING
        finally:
            self._status.state = State.FAILED if self._status.failure else State.STOPPED
            self._ended.set()

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        """Report an error that nothing else could handle: the state becomes failed, the log has the reason."""
        try:
            yield
        except Exception as error:
            self._fail(failure_text(error, self.spec.app))

    def _fail(self, reason: str) -> None:
        self._status.failure = self._status.failure or reason
        before, _, last = reason.rstrip().rpartition("\n")
        self._log.error("run failed", reason=last, **({"detail": reason} if before else {}))

    def _conduct(self, closing: ExitStack) -> None:
        self._run = run = assemble(self._checked, self._results)
        closing.callback(run.close)
        record = record_of(self.spec, run)
        closing.callback(record.close)
        answers = UnderWay(run, record, self._status).answers()
        answers.answer(requests.SetPlannedLoads(run.announced))
        self._mailbox.open(answers, run.wake)
        closing.callback(self._mailbox.close)
        self._at_once = Answers(*self._handlers())
        run.loop.engine.start()
        self._turn(run, lambda: record.record(run, lambda: answers.answer(requests.ReadStatus())))

    def _turn(self, run: Run, note: Callable[[], None]) -> None:
        ends_at_s = inf if self.spec.ending.duration_s is None else monotonic() + self.spec.ending.duration_s
        trim_at_s = monotonic() + TRIM_EVERY_S
        while self._end.goes_on(run.over):
            if monotonic() >= trim_at_s:
                trim_at_s += TRIM_EVERY_S
                trim()
            self._mailbox.serve()
            if self._end.told.is_set() or monotonic() >= ends_at_s:
                run.intake.stop(drain=self._end.drain)
            run.feed()
            run.step(run.loop.engine.now_s + STEP_S)
            self._look(run)
            note()
        if self._end.drain and run.undelivered:
            raise RecomposeError(_given_up(run.undelivered))

    def _look(self, run: Run) -> None:
        """Check the run. Raises: RecomposeError if it cannot continue."""
        status = self._status
        if run.loop.result is not None and run.intake.reading:
            status.state = run.loop.result.state
        if (failed := run.failed) is not None:
            raise RecomposeError(failed)
        if run.intake.failure is not None and status.failure is None:
            self._fail(f"the source failed: {run.intake.failure}")
