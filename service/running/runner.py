"""One running app: source, dispatcher, sink, monitor and manager, in a thread of its own. All methods are thread-safe.

Whatever others ask is carried out by the loop's own thread between two steps, so that nothing here needs a lock.
"""

from __future__ import annotations

import os
import queue
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from time import monotonic, time
from typing import TYPE_CHECKING, Any, TypeVar

import structlog

from apps.input.rates import Rate
from apps.input.sources import Push
from compositions.errors import RecomposeError
from compositions.model import Composition
from control import decisions as control
from control.decisions import Mode, State
from profiler.slo import Slo
from service.bodies.base import time_text
from service.bodies.compositions import Choice, WhatIf
from service.bodies.decisions import Decision, QuietRun, Switch
from service.bodies.refusals import UnavailableError
from service.bodies.results import Result, Summary
from service.bodies.spec import InputSpec, RunSpec
from service.bodies.status import Sample, SparkStatus, Status, resting
from service.running.assembly import Assembly, Parts
from service.running.history import History
from service.running.status import Beside, running_status
from service.running.summary import RunningSummary
from service.running.what_if import Present, Question, answer

if TYPE_CHECKING:
    from service.running.telemetry import Telemetry

T = TypeVar("T")

STEP_S = 0.25
"""Longest step of the loop; whatever happens ends it early."""
START_FAILURES = 3
"""After so many workers in a row could not start, with none alive, the app has failed."""


class Runner:
    """Interface in :class:`service.daemon.hosts.Runner`. Raises: RecomposeError for a spec that cannot run."""

    def __init__(self, spec: RunSpec) -> None:
        self.spec = spec
        self._assembly = Assembly(spec)
        self._log = structlog.get_logger().bind(app=spec.app)
        self._asked: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = queue.SimpleQueue()
        self._state = State.STARTING
        self._failure: str | None = None
        self._parts: Parts | None = None
        self._stopping = threading.Event()
        self._drain = True
        self._stop_by_s: float | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"loop-{spec.app}", daemon=True)
        self._epoch_s = time() - monotonic()
        self._summary = RunningSummary()
        self._history = History()
        self._telemetry: Telemetry | None = None

    # --- life -------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Returns at once; ``status`` tells when it is up, or why it failed."""
        self._thread.start()

    def stop(self, drain: bool = True, timeout_s: float = 30) -> None:
        """No more input; with ``drain`` waits until all accepted items are out, at most ``timeout_s``."""
        self._drain = drain
        self._stop_by_s = monotonic() + timeout_s
        self._stopping.set()
        if self._parts is not None:
            self._parts.pool.wake()
        if self._thread.ident is not None:
            self._ended.wait(timeout_s + 10)

    def wait(self, timeout_s: float) -> bool:
        return self._ended.wait(timeout_s)

    # --- requests ---------------------------------------------------------------------------------------------------

    def set_slo(self, slo: Slo | None) -> None:
        self._tell(lambda parts: parts.loop.manager.set_slo(slo))
        self.spec = self.spec.model_copy(update={"slo": slo})

    def set_input(self, input: InputSpec) -> None:
        """Raises: RecomposeError for a pattern that is not one."""
        rate = self._assembly.rate(input)
        self._tell(lambda parts: parts.source.set_pattern(rate))
        self.spec = self.spec.model_copy(update={"input": input})

    def set_rate(self, rate: Rate) -> None:
        """Any input rate over time, counted from now; for experiments."""
        self._tell(lambda parts: parts.source.set_pattern(rate))

    def set_mode(self, mode: Mode, composition: str | None) -> None:
        """Raises: RecomposeError for a composition that is not known."""
        self._tell(lambda parts: parts.loop.manager.set_mode(mode, composition))
        self.spec = self.spec.model_copy(update={"mode": mode})

    def set_compositions(self, compositions: tuple[Composition, ...]) -> None:
        self._tell(lambda parts: parts.replace_compositions(compositions))
        self.spec = self.spec.model_copy(update={"compositions": compositions})

    def push(self, value: Any) -> int:
        """Raises: BufferFull; RecomposeError when the source is not ``push`` or the app refuses the value."""
        source = self._assembly.source
        if not isinstance(source, Push):
            kind = self.spec.source.kind
            raise RecomposeError(f"{self.spec.app} reads its items from source {kind!r}; start it with source 'push'")
        try:
            item = self._assembly.app.from_json(value)
        except (ValueError, TypeError, KeyError) as error:
            raise RecomposeError(f"{self.spec.app} does not take this item: {error}") from error
        return source.put(item)

    # --- views ------------------------------------------------------------------------------------------------------

    def status(self) -> Status:
        known = resting(type(self._assembly.app), self._state, self.spec, None)
        known = known.model_copy(update={"failure": self._failure, "runner_pid": os.getpid()})
        return self._ask(lambda parts: self._running(parts, known), known)

    def decisions(self, after_id: int, limit: int) -> list[Decision]:
        return self._ask(
            lambda parts: [self._decision(parts, d) for d in parts.loop.journal.decisions if d.id > after_id][:limit],
            [],
        )

    def changes(self, limit: int) -> list[QuietRun]:
        return self._ask(lambda parts: [QuietRun.of(run, self._at) for run in parts.loop.journal.changes][-limit:], [])

    def results(self, after: int, limit: int) -> list[Result]:
        return self._ask(lambda parts: parts.sink.results(after, limit), [])

    def compositions(self) -> list[Choice]:
        return self._ask(Parts.choices, [])

    def history(self, last_s: float) -> list[Sample]:
        """One sample a second of the last ``last_s`` seconds."""
        return self._ask(lambda parts: self._history.since(monotonic() - last_s), [])

    def what_if(self, cores: int | None, replicas: int | None, rate_per_s: float | None) -> WhatIf:
        """Raises: RecomposeError while nothing is measured."""
        found = self._ask(lambda parts: self._what_if(parts, Question(cores, replicas, rate_per_s)))
        if found is None:
            raise UnavailableError(f"nothing is measured of {self.spec.app} yet; try again in a moment")
        return found

    def _what_if(self, parts: Parts, question: Question) -> WhatIf | None:
        loop, assembly = parts.loop, parts.assembly
        if loop.snapshot is None:
            return None
        active, slo = loop.engine.view().composition, loop.manager.slo
        known = Present(loop.snapshot, active, assembly.compositions, slo, assembly.strategy, assembly.settings.manager)
        return answer(question, known, self.spec.app)

    def switches(self) -> list[Switch]:
        """Every switch that ended: names, style, gap, drain expected and actual (ms)."""
        return self._ask(lambda parts: [Switch.of(record, self._at) for record in parts.loop.journal.switches], [])

    def reset_gaps(self) -> None:
        """Starts the statistics of gaps between outputs anew; for measurements."""
        self._ask(lambda parts: parts.loop.gaps.reset())

    def summary(self) -> Summary:
        return self._ask(self._summary.view, Summary()).model_copy(update={"failure": self._failure})

    def _running(self, parts: Parts, known: Status) -> Status:
        telemetry, link = self._telemetry, self._assembly.link
        spark = SparkStatus.model_validate(link.status()) if link else None
        beside = Beside(self._summary.slo_met_share, telemetry.status() if telemetry else None, spark)
        return running_status(known, self._assembly.stages, parts.loop, beside, self._at)

    def _decision(self, parts: Parts, decision: control.Decision) -> Decision:
        return Decision.of(parts.loop.journal.with_switches(decision), self._at)

    def _at(self, at_s: float) -> str:
        return time_text(self._epoch_s + at_s)

    # --- the loop's thread ------------------------------------------------------------------------------------------

    def _tell(self, request: Callable[[Parts], None]) -> None:
        """A request of the loop's thread; before there are parts it is kept, and carried out once there are."""
        if self._parts is None:
            self._asked.put((lambda: request(self._built()), Future()))
        else:
            self._ask(request)

    def _built(self) -> Parts:
        assert self._parts is not None, "requests are served by the loop, which begins with the parts"
        return self._parts

    def _ask(self, question: Callable[[Parts], T], before_start: Any = None) -> T:
        """Has the loop's thread answer; ``before_start`` is the answer while there are no parts yet."""
        parts = self._parts
        if parts is None:
            answer: T = before_start
            return answer
        if self._ended.is_set() or threading.current_thread() is self._thread:
            return question(parts)
        future: Future[T] = Future()
        self._asked.put((lambda: question(parts), future))
        parts.pool.wake()
        return self._answer(parts, question, future)

    def _answer(self, parts: Parts, question: Callable[[Parts], T], future: Future[T]) -> T:
        while True:
            try:
                return future.result(timeout=1.0)
            except TimeoutError:
                if self._ended.is_set() and not future.done():
                    return question(parts)

    def _run(self) -> None:
        try:
            self._parts = self._assembly.build()
            self._telemetry = self._tapped(self._parts)
            self._parts.loop.engine.start()
            self._turn(self._parts)
            self._state = State.FAILED if self._failure else State.STOPPED
        except RecomposeError as error:
            self._fail(str(error))
        except Exception:  # the last place that can tell: the state says failed, the log says why
            self._fail(traceback.format_exc())
        finally:
            self._close()

    def _turn(self, parts: Parts) -> None:
        ends_at_s = None if self.spec.duration_s is None else monotonic() + self.spec.duration_s
        while not self._over(parts):
            self._serve()
            if self._stopping.is_set() or (ends_at_s is not None and monotonic() >= ends_at_s):
                parts.source.stop(drain=self._drain)
            parts.feed()
            parts.loop.step(parts.loop.engine.now_s + STEP_S)
            self._look(parts)

    def _over(self, parts: Parts) -> bool:
        if self._stopping.is_set() and (not self._drain or monotonic() > (self._stop_by_s or 0)):
            return True
        return parts.source.finished and parts.loop.engine.idle and not parts.loop.engine.view().switching

    def _serve(self) -> None:
        while True:
            try:
                question, future = self._asked.get_nowait()
            except queue.Empty:
                return
            try:
                future.set_result(question())
            except BaseException as error:
                future.set_exception(error)

    def _look(self, parts: Parts) -> None:
        """What the outside should see of the last step."""
        loop = parts.loop
        result, snapshot = loop.result, loop.snapshot
        if result is None or snapshot is None:
            return
        if parts.reading:
            self._state = result.state
            self._history.note(monotonic(), lambda: Sample.of(self.status(), self._at(monotonic())))
        if self._summary.note(snapshot, result):
            parts.sink.flush()
            if self._telemetry is not None:
                self._telemetry.tick(loop, snapshot, result)
        failure = loop.start_failure
        if failure is not None and failure.consecutive >= START_FAILURES and not snapshot.workers_alive:
            raise RecomposeError(f"workers cannot start: {failure.reason}")
        if parts.sink.failed is not None:
            raise RecomposeError(parts.sink.failed)
        if parts.source.error is not None and self._failure is None:
            self._failure = f"the source failed: {parts.source.error}"
            self._log.error("source failed", reason=parts.source.error)

    def _tapped(self, parts: Parts) -> Telemetry | None:
        """Telemetry of the loop, if any is to be written."""
        wanted = self.spec.telemetry
        if wanted is None:
            return None
        from service.running.telemetry import Telemetry  # imported here: a run without telemetry needs no Arrow

        telemetry = Telemetry(wanted, self.spec.app, self._epoch_s)
        parts.loop.tap = telemetry.observe
        return telemetry

    def _fail(self, reason: str) -> None:
        self._failure = reason
        self._state = State.FAILED
        self._log.error("run failed", reason=reason)

    def _close(self) -> None:
        if self._parts is not None:
            self._parts.close()
        else:
            self._assembly.close()
        if self._telemetry is not None:
            self._telemetry.close()
        self._ended.set()
        self._serve()
