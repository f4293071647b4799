"""A run under way in this program: its results, the buffer in which they wait, what it is doing, and its end."""

import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from html import escape
from types import TracebackType
from typing import Any, Self

from compositions.errors import RecomposeError
from profiler.slo import Slo
from service.cli.follow import ending, first_is_noted, progress
from service.runner.rpc.port import Patient
from service.runner.rpc.requests import PushMany, ReadStatus, ReadSummary, SetSlo, Start, Stop
from service.runner.runner import Runner
from service.runner.validation.resolution import Released
from service.schemas.results import Result, Summary
from service.schemas.status import Status

MOST = 20_000
"""Results of so many items may wait to be read; then the run waits for who reads."""


class Unread:
    """A bounded buffer: the run puts results in at one end and pauses while it is full; any thread takes them out."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._waiting: deque[Result] = deque()
        self._changed = threading.Condition()
        self._ended = self._unwanted = False

    # --- the run's end ----------------------------------------------------------------------------------------------

    @property
    def has_room(self) -> bool:
        return len(self._waiting) < self._most

    @property
    def failed(self) -> str | None:
        """Nothing can: it is memory."""
        return None

    def start(self) -> None:
        """There is nothing to open."""

    def take(self, results: Released) -> None:
        rows = list(results.results())
        with self._changed:
            if not self._unwanted:
                self._waiting.extend(rows)
                self._changed.notify_all()

    def finish(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    # --- the reader's end -------------------------------------------------------------------------------------------

    def next(self, timeout_s: float) -> Result | None:
        """The oldest one, which leaves; None when there was none in time."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._ended, timeout_s)
            return self._waiting.popleft() if self._waiting else None

    @property
    def over(self) -> bool:
        """True if no result is left and none will come."""
        return self._ended and not self._waiting

    def hold_all(self) -> None:
        """The run is to end: what it still has does not wait for who reads."""
        self._most = sys.maxsize

    def discard(self) -> None:
        """Nobody will read what is here and what is to come."""
        with self._changed:
            self._unwanted = True
            self._waiting.clear()


LOOK_S = 0.25
DRAIN_S = 30.0


class RunFailed(RecomposeError):  # noqa: N818 - says what happened
    """A run ended otherwise than it was asked to; the traceback of the first item that failed is in its notes."""


class LiveRun:
    """A run that has started. Its results come as they are made, in the order of the input.
    Iterate over it, or ``wait()``.

    A run that is left as a context is stopped. While results wait that nobody reads, the source does.
    """

    def __init__(self, runner: Runner, unread: Unread | None, *, show: bool) -> None:
        """``unread`` None: its results go elsewhere. ``show``: a progress bar while it is waited for."""
        self._runner, self._unread, self._show = runner, unread, show
        self._asked = Patient(runner)
        self._feeding: threading.Thread | None = None
        self._spoiled: BaseException | None = None
        runner.ask(Start())

    # --- results ----------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Result]:
        """Every result once, to the end of the run; leaving the loop early leaves the others for the next one. Ctrl-C
        stops the run when the loop asks for the next result, a second one at once.

        Raises: RunFailed at its end, as ``wait``; RecomposeError where results go to a sink.
        """
        if self._unread is None:
            raise RecomposeError(f"the results of {self._runner.spec.app!r} go to its sink; read them there")
        with self._ended_by_ctrl_c(), first_is_noted() as interrupted, self._progress() as look:
            for result in self._results(self._unread):
                if interrupted():
                    raise KeyboardInterrupt
                if result is not None:
                    yield result
                look()
        self.summary()

    def _results(self, unread: Unread) -> Iterator[Result | None]:
        """To the end of the run; None now and then where none comes."""
        while not unread.over:
            ended = self._runner.wait(0)
            result = unread.next(0.0 if ended else LOOK_S)
            if result is None and ended:  # it failed before it began
                return
            yield result

    def feed(self, sink: Callable[[Result], object]) -> None:
        """Calls ``sink`` with each result, in a thread of its own; what it raises ends the run, and ``wait`` tells."""
        unread, self._unread = self._unread, None
        assert unread is not None, "results go to one place"
        self._feeding = threading.Thread(target=self._drain_into, args=(unread, sink), name="sink", daemon=True)
        self._feeding.start()

    def _drain_into(self, unread: Unread, sink: Callable[[Result], object]) -> None:
        try:
            for result in self._results(unread):
                if result is not None:
                    sink(result)
        except BaseException as error:  # the user's own code, whatever it raises
            self._spoiled = error
            unread.discard()
            self._runner.ask(Stop(drain=False))

    # --- what it is doing -------------------------------------------------------------------------------------------

    @property
    def status(self) -> Status:
        """Return the status, with the fields of ``GET /status/{app}``."""
        return self._asked.ask(ReadStatus())

    def set_slo(self, slo: Slo | None) -> None:
        """Another objective, from now on; None: none. ``recompose.objective`` makes one of a text."""
        self._runner.ask(SetSlo(slo))

    def push(self, value: Any) -> int:
        """An item for a run with ``source="push"``; its serial number. Raises: RecomposeError when it is refused."""
        return self._runner.ask(PushMany((value,))).serial

    def __repr__(self) -> str:
        status = self.status
        return f"<run of {status.app!r}: {status.state}, {status.items.delivered:,} items out>"

    def _repr_html_(self) -> str:
        return html(self.status)

    # --- its end ----------------------------------------------------------------------------------------------------

    def stop(self, *, drain: bool = True, timeout_s: float = DRAIN_S) -> Summary:
        """Takes nothing more in; what was accepted is delivered first, unless ``drain`` is false.

        Results that wait can still be read. Raises: RunFailed, as ``wait``.
        """
        self._end(drain, timeout_s)
        return self.summary()

    def _end(self, drain: bool, timeout_s: float) -> None:
        if self._unread is not None:
            self._unread.hold_all()
        self._runner.ask(Stop(drain=drain, timeout_s=timeout_s))
        if self._feeding is not None:
            self._feeding.join(timeout_s)

    def wait(self) -> Summary:
        """Wait for the end. Results that nobody has read, or will read, are dropped. Ctrl-C stops the run. Raises:
        RunFailed when the run failed, when every item did, or when its sink did."""
        if self._unread is not None:
            self._unread.discard()
        with self._ended_by_ctrl_c(), self._progress() as look:
            while not self._runner.wait(LOOK_S) or (self._feeding is not None and self._feeding.is_alive()):
                look()
        return self.summary()

    @contextmanager
    def _ended_by_ctrl_c(self) -> Iterator[None]:
        """Deliver what was accepted, and say on stderr what became of it."""
        try:
            yield
        except KeyboardInterrupt:
            self._end(drain=True, timeout_s=DRAIN_S)
            items = self._asked.ask(ReadSummary()).items
            counts = ", ".join(f"{name} {count:,}" for name, count in dict(items or {}).items() if count)
            print(f"interrupted; items: {counts or 'none'}", file=sys.stderr)
            raise

    def summary(self) -> Summary:
        """Return the summary so far. Raises: RunFailed if it is one of a failure."""
        summary = self._asked.ask(ReadSummary())
        if self._spoiled is not None:
            raise RunFailed(f"the sink raised {type(self._spoiled).__name__}: {self._spoiled}") from self._spoiled
        if told := ending(summary, interrupted=False, fail_on_slo=False):
            failed = RunFailed(told.message)
            failed.add_note(summary.first_error or summary.failure or "")
            raise failed
        return summary

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._end(drain=kind is None, timeout_s=DRAIN_S)

    def _progress(self) -> AbstractContextManager[Callable[[], None]]:
        return progress(not self._show, self._runner.spec.ending.items, lambda: self.status)


Row = tuple[str, str]


def html(status: Status) -> str:
    """Two tables: the run, and its stages."""
    from service.cli.render import number  # here: a script shows no tables

    caption = f"{status.app} · {status.state}"
    stages = [
        (each.name + (" (bottleneck)" if each.bottleneck else ""), number(each.service_time_ms, " ms"))
        for each in status.stages
    ]
    return _table(caption, _figures(status)) + _table("stages, service time", stages)


def _figures(status: Status) -> Iterable[Row]:
    from service.cli.render import number, slo_text

    composition, latency, items = status.composition, status.latency_ms, status.items
    yield "composition", f"{composition.notation}, {composition.workers} workers" if composition else "–"
    yield "in, out", f"{number(status.input_rate_per_s)}/s, {number(status.throughput_per_s)}/s"
    yield "latency", f"mean {number(latency.mean, ' ms')}, p95 {number(latency.p95, ' ms')}"
    yield "SLO", slo_text(status).plain
    counts = f"{items.delivered:,} out of {items.accepted:,}, {items.failed:,} failed"
    yield "items", f"{counts}; {status.changes.switches} switches"
    for what, text in (("held up", status.health.held_up), ("failure", status.health.failure)):
        if text:
            yield what, text


def _table(caption: str, rows: Iterable[Row]) -> str:
    body = "".join(f"<tr><th scope='row'>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in rows)
    return f"<table><caption>{escape(caption)}</caption><tbody>{body}</tbody></table>"
