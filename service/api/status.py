"""``/status``, ``/decisions``, ``/results``, ``/history``, ``/traces``, ``/runs``: present and past of the apps."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from time import time
from typing import Annotated

import anyio
import structlog
from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import AwareDatetime, BeforeValidator
from sse_starlette.sse import EventSourceResponse

from service.api import problems
from service.api.deps import KnownQuery, Responses, ThisDaemon, answers, documented
from service.api.problems import json_text
from service.daemon.past import between, compared, known_runs, slowest_traces, trace_of
from service.runner.rpc.requests import ReadResults
from service.runner.telemetry.record import KEPT_S
from service.schemas.base import time_text
from service.schemas.decisions import KINDS, Decision, Entry, EntryKind
from service.schemas.results import OwingRun, Result
from service.schemas.runs import KnownRun, RunFigures, Trace
from service.schemas.status import Rates, Sample, Status

PERIOD_S = 0.25
log = structlog.get_logger()


class Broadcaster:
    """Sends statuses to watchers. ``read`` blocks, so it runs in a thread. A slow watcher skips statuses."""

    def __init__(self, read: Callable[[str], object], period_s: float = PERIOD_S) -> None:
        self._read, self._period_s = read, period_s
        self._readings: dict[str, asyncio.Task[str | None]] = {}
        """By app: the reading for which all its watchers wait, or the last one."""
        self._due_s: dict[str, float] = {}
        self._closed = False

    async def watch(self, app: str, ending: Callable[[], bool] = lambda: False) -> AsyncGenerator[str, None]:
        """Yield the status of ``app`` as JSON text, until ``close``, or until ``ending`` is true."""
        while not (self._closed or ending()):
            reading = self._readings.get(app)
            if reading is None or reading.done():
                self._readings[app] = reading = asyncio.create_task(self._text(app))
            await asyncio.wait([reading])
            if not reading.cancelled() and (text := reading.result()) is not None:
                yield text

    async def _text(self, app: str) -> str | None:
        """Read the status when the next one is due; return None if it cannot be read."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(self._due_s.get(app, 0.0) - loop.time(), 0))
        self._due_s[app] = loop.time() + self._period_s
        try:
            return await asyncio.to_thread(lambda: json_text(self._read(app)))
        except Exception as error:  # the next turn tries again; the watchdog takes care of the runner
            log.warning("status not sent in the event stream; trying again", app=app, error=str(error))
            return None

    async def close(self) -> None:
        """End all watchers."""
        self._closed = True
        for reading in self._readings.values():
            reading.cancel()


router = APIRouter(tags=["observation"], dependencies=[KnownQuery])
GRACE_S = 2.0
"""At shutdown, time in which a stream may end after its next status, before its connection is cut."""
Limit = Annotated[int, Query(ge=1, le=1000, description="Maximum number of entries.")]
Kinds = Annotated[list[EntryKind] | None, Query(description="Only entries of this kind; may be given several times.")]


def _no_number(text: object) -> object:
    """Refuse numbers, which Pydantic would read as seconds since 1970; the API never writes times that way."""
    if isinstance(text, str) and "T" not in text.upper():
        raise ValueError(f"{text[:40]!r} is not a time such as 2026-11-20T10:00:00Z")
    return text


_NO_NUMBER = BeforeValidator(_no_number)
Before = Annotated[AwareDatetime | None, _NO_NUMBER, Query(description="Only entries that ended before this time.")]
From = Annotated[AwareDatetime | None, _NO_NUMBER, Query(alias="from", description="Start of the period.")]
To = Annotated[AwareDatetime | None, _NO_NUMBER, Query(description="End of the period (default: now).")]
Number = Annotated[int, Path(ge=1, le=2**53, description="The decision's `id`.")]
After = Annotated[int, Query(ge=-1, le=2**53, description="Only greater serial numbers (default: all retained).")]
OfRun = Annotated[str, Query(max_length=100, description="Run of `after`; the results of others are gone.")]
Serial = Annotated[int | None, Query(ge=0, le=2**53, description="Only the item with this serial number.")]
Few = Annotated[int, Query(ge=1, le=100, description="Maximum number of entries.")]
Last = Annotated[int, Query(ge=1, le=KEPT_S, description="Length of the period, in seconds before now.")]
Most = Annotated[int, Query(ge=2, le=1000, description="Maximum number of samples of each app.")]
EVENTS: Responses = {200: {"description": "One status every 0.25 s.", "content": {"text/event-stream": {}}}}


@router.get("/status", responses=answers(list[Status]))
def statuses(daemon: ThisDaemon) -> Response:
    """Return the status of every registered app; the last one if its runner does not answer within a second."""
    return problems.Body(daemon.observation.statuses())


@router.get("/status/{app}", responses=answers(Status, 404))
def status(app: str, daemon: ThisDaemon) -> Response:
    """Return the status of one app. Values that were not measured are null."""
    return problems.Body(daemon.observation.status(app))


@router.get("/status/{app}/stream", response_class=EventSourceResponse, responses={**EVENTS, **documented(404)})
async def stream(app: str, daemon: ThisDaemon, request: Request) -> Response:
    """Send the status as server-sent events, four per second."""
    await run_in_threadpool(daemon.observation.status, app)
    return _events(app, request)


@router.get("/stream", response_class=EventSourceResponse, responses={**EVENTS, **documented()})
async def stream_of_all(request: Request) -> Response:
    """Send the status of all apps, as `GET /status` returns it, as server-sent events, four per second."""
    return _events("", request)


def _events(app: str, request: Request) -> Response:
    ending = anyio.Event()
    statuses = request.app.state.broadcaster.watch(app, ending.is_set)
    return EventSourceResponse(statuses, shutdown_event=ending, shutdown_grace_period=GRACE_S)


@router.get("/history/{app}", responses=answers(list[Sample], 404, 503))
def history(app: str, daemon: ThisDaemon, last_s: Last = 300, from_: From = None, to: To = None) -> Response:
    """Return samples of an app, oldest first. With `from` (and `to`): samples of all runs in this period that have
    telemetry, thinned out to some thousand. Without: one sample per second of the present run, for the last `last_s`
    seconds, an hour at most."""
    if from_ is not None:
        until_s = time() if to is None else to.timestamp()
        return problems.Body(between(daemon.observation.history, daemon.telemetry, app, from_.timestamp(), until_s))
    return problems.Body(daemon.observation.history(app, last_s))


@router.get("/rates", responses=answers(list[Rates]))
def rates(daemon: ThisDaemon, last_s: Last = 300, most: Most = 100) -> Response:
    """Return the recent rates of all apps in columns: the figures of `GET /history/{app}`, as far as runners remember
    them, thinned out to `most` samples per app. If an app's runner does not answer within a second, its columns are
    empty."""
    return problems.Body(daemon.observation.rates(last_s, most))


@router.get("/traces/{app}", responses=answers(list[Trace], 404))
def item_traces(
    app: str, daemon: ThisDaemon, serial: Serial = None, run: OfRun | None = None, slowest: Few = 10, last_s: Last = 300
) -> Response:
    """Return where single items waited and were processed, from telemetry, some ten seconds after their delivery: the
    item with `serial` (of `run`, else of the latest run that has it), or the `slowest` of the last `last_s` seconds."""
    daemon.observation.status(app)
    if serial is not None:
        return problems.Body(trace_of(daemon.telemetry, app, serial, run))
    return problems.Body(slowest_traces(daemon.telemetry, app, last_s, slowest))


@router.get("/decisions/{app}", responses=answers(list[Entry], 404))
def decisions(app: str, daemon: ThisDaemon, kind: Kinds = None, before: Before = None, limit: Limit = 100) -> Response:
    """Return every decision, every series of "no change" with its reason, and every change of the bundle size, newest
    first. For older entries, call it with `before` set to the last `at`, until the answer is empty."""
    until = None if before is None else time_text(before.timestamp())
    return problems.Body(daemon.observation.decisions(app, limit, kind or KINDS, until))


@router.get("/decisions/{app}/{number}", responses=answers(Decision, 404))
def decision(app: str, number: Number, daemon: ThisDaemon) -> Response:
    """Return one decision by its `id`; the last thousand are retained."""
    return problems.Body(daemon.observation.decision(app, number))


@router.get("/results/{app}", responses=answers(list[Result], 404, 410, 503))
def results(
    app: str, daemon: ThisDaemon, run: OfRun | None = None, after: After | None = None, limit: Limit = 100
) -> Response:
    """Return delivered results in order, of the present or the last run, from a bounded window. Continue with the `run`
    and the `serial` of the last result. If results are gone, the answer says so instead of skipping them."""
    return problems.Body(daemon.observation.results(app, ReadResults(after, limit, run)))


MOST = 4
Asked = Annotated[
    list[Annotated[str, Query(max_length=100)]] | None,
    Query(max_length=MOST, description="Run; may be given several times (default: the two latest)."),
]


@router.get("/runs/{app}", responses=answers(list[KnownRun], 404))
def runs(app: str, daemon: ThisDaemon) -> Response:
    """Return the latest fifty runs that have telemetry, latest first; a run appears ten seconds after its start."""
    daemon.observation.status(app)
    return problems.Body(known_runs(daemon.telemetry, app))


@router.get("/owing", responses=answers(list[OwingRun]))
def owing(daemon: ThisDaemon) -> Response:
    """Return the durable runs that hold undelivered data, with their journals: running, retried, and stopped ones. A
    start of the same app, source, sink and options continues a stopped run."""
    return problems.Body(daemon.apps.owing.all())


@router.get("/comparison/{app}", responses=answers(list[RunFigures], 404))
def comparison(app: str, daemon: ThisDaemon, run: Asked = None) -> Response:
    """Return figures and timeline of each `run`: objective, latency, rates, workers, CPU time per item."""
    daemon.observation.status(app)
    return problems.Body(compared(daemon.telemetry, app, run or []))
