"""One running app in a thread of its own, behind ``RunnerPort``: its life, start to end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from math import inf
from time import monotonic
from typing import TypeVar

import structlog

from service.bodies.spec import RunSpec
from service.running import failure
from service.running.answering.answerers import answers_of, handlers_at_rest
from service.running.answering.standing import Standing
from service.running.asking.mailbox import Answers, Mailbox
from service.running.asking.port import ANSWER_S
from service.running.asking.requests import (
    Change,
    Handler,
    Push,
    PushMany,
    ReadSpec,
    ReadStatus,
    Request,
    SetComing,
    Start,
    Stop,
    Taken,
    changed,
)
from service.running.building.assembly import assemble
from service.running.building.run import Run
from service.running.checking.checked import NOTHING, CheckedSpec, Given
from service.running.recording.record import record_of
from service.running.run_id import new_run

A = TypeVar("A")

STEP_S = 0.25
"""Longest step of the loop; whatever happens ends it early."""
CLOSE_S = 10.0
"""What a stop waits beyond its drain for workers to end."""


@dataclass(slots=True)
class _End:
    """When a run is to end, as far as it was told to."""

    told: threading.Event = field(default_factory=threading.Event)
    drain: bool = True
    drain_until_s: float = 0.0

    def tell(self, drain: bool, timeout_s: float) -> None:
        self.drain, self.drain_until_s = drain, monotonic() + timeout_s
        self.told.set()

    @property
    def due(self) -> bool:
        """What is still in flight is given up."""
        return self.told.is_set() and (not self.drain or monotonic() > self.drain_until_s)


class Runner:
    """All public methods may be called from any thread. Raises: RecomposeError for a spec that cannot run."""

    def __init__(self, spec: RunSpec, given: Given = NOTHING) -> None:
        self.spec = spec = spec if spec.run else spec.model_copy(update={"run": new_run()})
        self._checked = CheckedSpec(spec, given)
        self._results = given.results
        self._log = structlog.get_logger().bind(app=spec.app)
        self._standing = Standing()
        self._mailbox = Mailbox()
        self._run: Run | None = None
        resting = handlers_at_rest(self._checked, self._standing, self._mailbox)
        self._at_once = Answers(*self._handlers(), *resting)
        self._unstarted = threading.Lock()
        self._end = _End()
        self._ended = threading.Event()
        self._killed = False
        self._thread = threading.Thread(target=self._live, name=f"loop-{spec.app}", daemon=True)

    # --- the port ---------------------------------------------------------------------------------------------------

    def ask(self, request: Request[A], *, timeout_s: float = ANSWER_S) -> A:
        """As :class:`service.running.asking.port.RunnerPort` says; ``Stop`` takes its own time."""
        if self._killed:
            raise ConnectionError("the runner was killed")
        at_once = self._at_once  # read once: another takes its place when the run begins
        answer = at_once.answer(request) if request in at_once else self._mailbox.ask(request, timeout_s)
        if isinstance(request, Change):
            self.spec = changed(self.spec, request)
        return answer

    def alive(self) -> bool:
        return not self._killed

    def kill(self) -> None:
        if not self._killed:
            self._killed = True
            self._stop(Stop(drain=False, timeout_s=0.0))

    def wait(self, timeout_s: float) -> bool:
        """True when the run has ended."""
        return self._ended.wait(timeout_s)

    def _handlers(self) -> tuple[Handler, ...]:
        """Of what needs no loop."""
        return (
            Start.by(self._start),
            ReadSpec.by(lambda _: self.spec),
            Stop.by(self._stop),
            Push.by(lambda request: self._checked.pushes.put(request.value)),
            PushMany.by(lambda request: Taken(*self._checked.pushes.put_all(request.values), self.spec.run)),
        )

    def _start(self, _: Start) -> None:
        if self._unstarted.acquire(blocking=False):
            self._thread.start()

    def _stop(self, request: Stop) -> None:
        self._end.tell(request.drain, request.timeout_s)
        if self._run is not None:
            self._run.wake()
        if self._thread.ident is not None:
            self._ended.wait(request.timeout_s + CLOSE_S)

    # --- the loop's thread ------------------------------------------------------------------------------------------

    def _live(self) -> None:
        try:
            with self._telling(), ExitStack() as closing:
                closing.callback(self._checked.close)
                with self._telling():
                    self._conduct(closing)
                self._standing.close()
        finally:
            self._standing.end()
            self._ended.set()

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """The last place that can tell what went wrong: the state says failed, the log says why."""
        try:
            yield
        except Exception as error:
            self._fail(failure.told(error, self.spec.app))

    def _fail(self, reason: str) -> None:
        self._standing.failure = self._standing.failure or reason
        self._log.error("run failed", reason=reason)

    def _conduct(self, closing: ExitStack) -> None:
        self._run = run = assemble(self._checked, self._results)
        closing.callback(run.close)
        record = record_of(self.spec, run)
        closing.callback(record.close)
        answers = answers_of(run, record, self._standing)
        answers.answer(SetComing(run.announced))
        self._mailbox.open(answers, run.wake)
        closing.callback(self._mailbox.close)
        self._at_once = Answers(*self._handlers())
        run.loop.engine.start()
        self._turn(run, lambda: record.note(run, lambda: answers.answer(ReadStatus())))

    def _turn(self, run: Run, note: Callable[[], None]) -> None:
        ends_at_s = inf if self.spec.duration_s is None else monotonic() + self.spec.duration_s
        while not (self._end.due or run.over):
            self._mailbox.serve()
            if self._end.told.is_set() or monotonic() >= ends_at_s:
                run.intake.stop(drain=self._end.drain)
            run.feed()
            run.step(run.loop.engine.now_s + STEP_S)
            self._look(run)
            note()
        if self._end.drain:
            failure.check_drained(run)

    def _look(self, run: Run) -> None:
        """Raises: RecomposeError when the run cannot go on."""
        standing = self._standing
        if run.loop.result is not None and run.intake.reading:
            standing.state = run.loop.result.state
        failure.check(run)
        if run.intake.failure is not None and standing.failure is None:
            self._fail(f"the source failed: {run.intake.failure}")
