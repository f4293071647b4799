"""``/metrics``, ``/logs``, ``/healthz`` and ``/readyz``."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST

from service.api import problems
from service.api.deps import ThisDaemon
from service.api.docs import Responses
from service.api.docs import problems as documented
from service.api.exposition import exposition
from service.bodies.health import Health
from service.bodies.logs import LogLine
from service.bodies.refusals import UnavailableError
from service.logs import Recent

Said = Recent
"""What the service has logged, as who puts the routes together gives it."""
router = APIRouter(tags=["operation"])
After = Annotated[int, Query(ge=0, description="Lines with a higher id.")]
Limit = Annotated[int, Query(ge=1, le=2000)]
TEXT: Responses = {
    200: {"description": "Prometheus text format.", "content": {"text/plain": {"schema": {"type": "string"}}}}
}


@router.get("/metrics", response_class=PlainTextResponse, responses={**TEXT, **documented()})
def prometheus(daemon: ThisDaemon) -> Response:
    """Metrics for Prometheus; their names are a contract (``service/api/metrics.py`` explains each)."""
    return Response(exposition(daemon.observation.statuses), media_type=CONTENT_TYPE_LATEST)


@router.get("/logs", responses={200: {"model": list[LogLine]}, **documented(404)})
def logs(
    request: Request, daemon: ThisDaemon, app: str | None = None, after: After = 0, limit: Limit = 100
) -> Response:
    """The latest lines of the service's log, oldest first: of all, or what is about one app and what it printed."""
    if app is not None:
        daemon.observation.status(app)
    recent: Recent = request.app.state.recent
    return problems.Body([LogLine.of(line) for line in recent.read(app, after, limit)])


@router.get("/healthz", responses={200: {"model": Health}, **documented()})
async def alive() -> Response:
    """The process answers. Needs no token. Answered by the event loop itself, however busy the threads are."""
    return problems.Body(Health(status="alive"))


@router.get("/readyz", responses={200: {"model": Health}, **documented(503)})
def ready(daemon: ThisDaemon) -> Response:
    """Ray answers, and the apps that were running are restored."""
    missing = daemon.readiness()
    if missing is not None:
        raise UnavailableError(f"not ready: {missing}")
    return problems.Body(Health(status="ready"))
