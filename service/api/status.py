"""``/status``, ``/decisions``, ``/results``, ``/history``, ``/traces``, ``/runs``: the apps now, and their past."""

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
    """``read`` blocks and runs in a thread. A slow watcher misses statuses, it never delays the others."""

    def __init__(self, read: Callable[[str], object], period_s: float = PERIOD_S) -> None:
        self._read, self._period_s = read, period_s
        self._readings: dict[str, asyncio.Task[str | None]] = {}
        """By app: the reading that all its watchers wait for, or the last one."""
        self._due_s: dict[str, float] = {}
        self._closed = False

    async def watch(self, app: str, ending: Callable[[], bool] = lambda: False) -> AsyncGenerator[str, None]:
        """Statuses of ``app`` as JSON text, until ``close``, or until ``ending`` at the next one."""
        while not (self._closed or ending()):
            reading = self._readings.get(app)
            if reading is None or reading.done():
                self._readings[app] = reading = asyncio.create_task(self._text(app))
            await asyncio.wait([reading])
            if not reading.cancelled() and (text := reading.result()) is not None:
                yield text

    async def _text(self, app: str) -> str | None:
        """Return what is read when the next status is due; None if it cannot be read."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(self._due_s.get(app, 0.0) - loop.time(), 0))
        self._due_s[app] = loop.time() + self._period_s
        try:
            return await asyncio.to_thread(lambda: json_text(self._read(app)))
        except Exception as error:  # the next turn asks again; the watchdog deals with the runner
            log.warning("status could not be read for the event stream", app=app, error=str(error))
            return None

    async def close(self) -> None:
        """Lets every watcher end."""
        self._closed = True
        for reading in self._readings.values():
            reading.cancel()


router = APIRouter(tags=["observation"], dependencies=[KnownQuery])
GRACE_S = 2.0
"""At shutdown a stream ends by itself after its next status; only then its connection is cut."""
Limit = Annotated[int, Query(ge=1, le=1000, description="Maximum number of entries.")]
Kinds = Annotated[list[EntryKind] | None, Query(description="Only entries of this kind; may be given several times.")]


def _no_number(text: object) -> object:
    """Pydantic would take a number for seconds since 1970, which the API writes nowhere."""
    if isinstance(text, str) and "T" not in text.upper():
        raise ValueError(f"{text[:40]!r} is not a time such as 2026-11-20T10:00:00Z")
    return text


_NO_NUMBER = BeforeValidator(_no_number)
Before = Annotated[AwareDatetime | None, _NO_NUMBER, Query(description="Only what ended before this time.")]
From = Annotated[AwareDatetime | None, _NO_NUMBER, Query(alias="from", description="Since this time.")]
To = Annotated[AwareDatetime | None, _NO_NUMBER, Query(description="Until this time; none: until now.")]
Number = Annotated[int, Path(ge=1, le=2**53, description="The decision's `id`.")]
After = Annotated[int, Query(ge=-1, le=2**53, description="Only serial numbers above this one; none: from the oldest.")]
OfRun = Annotated[str, Query(max_length=100, description="The run in which `after` was read; any other is gone.")]
Serial = Annotated[int | None, Query(ge=0, le=2**53, description="Only the item with this serial number.")]
Few = Annotated[int, Query(ge=1, le=100, description="Maximum number of entries.")]
Last = Annotated[int, Query(ge=1, le=KEPT_S, description="Seconds back from now.")]
Most = Annotated[int, Query(ge=2, le=1000, description="Samples of each app, at most.")]
EVENTS: Responses = {200: {"description": "One status each quarter of a second.", "content": {"text/event-stream": {}}}}


@router.get("/status", responses=answers(list[Status]))
def statuses(daemon: ThisDaemon) -> Response:
    """Everything about every registered app; where a runner does not answer within a second, its last words."""
    return problems.Body(daemon.observation.statuses())


@router.get("/status/{app}", responses=answers(Status, 404))
def status(app: str, daemon: ThisDaemon) -> Response:
    """Everything about one app. What is not measured is null."""
    return problems.Body(daemon.observation.status(app))


@router.get("/status/{app}/stream", response_class=EventSourceResponse, responses={**EVENTS, **documented(404)})
async def stream(app: str, daemon: ThisDaemon, request: Request) -> Response:
    """The status as server-sent events, four per second."""
    await run_in_threadpool(daemon.observation.status, app)
    return _events(app, request)


@router.get("/stream", response_class=EventSourceResponse, responses={**EVENTS, **documented()})
async def stream_of_all(request: Request) -> Response:
    """Each event is what ``GET /status`` answers, four per second: all apps through one connection."""
    return _events("", request)


def _events(app: str, request: Request) -> Response:
    ending = anyio.Event()
    statuses = request.app.state.broadcaster.watch(app, ending.is_set)
    return EventSourceResponse(statuses, shutdown_event=ending, shutdown_grace_period=GRACE_S)


@router.get("/history/{app}", responses=answers(list[Sample], 404, 503))
def history(app: str, daemon: ThisDaemon, last_s: Last = 300, from_: From = None, to: To = None) -> Response:
    """Oldest first. With `from` (and `to`): of all runs between these times, as far as telemetry is kept; some thousand
    samples at most, so that of a long range there is one now and then. Else one a second of the last `last_s` seconds
    of the present run, an hour at most."""
    if from_ is not None:
        until_s = time() if to is None else to.timestamp()
        return problems.Body(between(daemon.observation.history, daemon.telemetry, app, from_.timestamp(), until_s))
    return problems.Body(daemon.observation.history(app, last_s))


@router.get("/rates", responses=answers(list[Rates]))
def rates(daemon: ThisDaemon, last_s: Last = 300, most: Most = 100) -> Response:
    """Return the recent rates of all apps, in columns: what `GET /history/{app}` has of them, as far as runners
    remember it, thinned out to `most` samples an app. The columns of an app whose runner does not answer within a
    second are empty."""
    return problems.Body(daemon.observation.rates(last_s, most))


@router.get("/traces/{app}", responses=answers(list[Trace], 404))
def item_traces(
    app: str, daemon: ThisDaemon, serial: Serial = None, run: OfRun | None = None, slowest: Few = 10, last_s: Last = 300
) -> Response:
    """Return where single items waited and were processed, from telemetry, some ten seconds after they left: the one
    with `serial` (of `run`, else of the latest run that has it), or the `slowest` of the last `last_s` seconds."""
    daemon.observation.status(app)
    if serial is not None:
        return problems.Body(trace_of(daemon.telemetry, app, serial, run))
    return problems.Body(slowest_traces(daemon.telemetry, app, last_s, slowest))


@router.get("/decisions/{app}", responses=answers(list[Entry], 404))
def decisions(app: str, daemon: ThisDaemon, kind: Kinds = None, before: Before = None, limit: Limit = 100) -> Response:
    """Newest first: every decision, every "no change" with its reason, collapsed into runs, and every change of how
    many items travel together. Read on with `before` as the `at` of the last one, until there is none."""
    until = None if before is None else time_text(before.timestamp())
    return problems.Body(daemon.observation.decisions(app, limit, kind or KINDS, until))


@router.get("/decisions/{app}/{number}", responses=answers(Decision, 404))
def decision(app: str, number: Number, daemon: ThisDaemon) -> Response:
    """Return one decision by its `id`; the last thousand are kept."""
    return problems.Body(daemon.observation.decision(app, number))


@router.get("/results/{app}", responses=answers(list[Result], 404, 410, 503))
def results(
    app: str, daemon: ThisDaemon, run: OfRun | None = None, after: After | None = None, limit: Limit = 100
) -> Response:
    """Delivered results in order, of the present or the last run, from a bounded window; read on with the `run` and the
    `serial` of the last one. What cannot be had any more is told, never left out."""
    return problems.Body(daemon.observation.results(app, ReadResults(after, limit, run)))


MOST = 4
Asked = Annotated[
    list[Annotated[str, Query(max_length=100)]] | None,
    Query(max_length=MOST, description="A run; may be given several times. None: the two latest."),
]


@router.get("/runs/{app}", responses=answers(list[KnownRun], 404))
def runs(app: str, daemon: ThisDaemon) -> Response:
    """The latest first, fifty at most, as far as telemetry is kept; a run is there some ten seconds after it began."""
    daemon.observation.status(app)
    return problems.Body(known_runs(daemon.telemetry, app))


@router.get("/owing", responses=answers(list[OwingRun]))
def owing(daemon: ThisDaemon) -> Response:
    """Return the durable runs that hold undelivered data, with their journals: running, retried, and stopped ones. A
    start of the same app, source, sink and options continues a stopped run."""
    return problems.Body(daemon.apps.owing.all())


@router.get("/comparison/{app}", responses=answers(list[RunFigures], 404))
def comparison(app: str, daemon: ThisDaemon, run: Asked = None) -> Response:
    """Return the figures and the timeline of each `run`: objective met or not, latency, rates, workers, CPU an item."""
    daemon.observation.status(app)
    return problems.Body(compared(daemon.telemetry, app, run or []))
