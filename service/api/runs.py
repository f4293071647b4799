"""``/runs`` and ``/comparison``: what an app's runs came to, from telemetry."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from service.api import problems
from service.api.deps import ThisDaemon
from service.api.docs import problems as documented
from service.bodies.runs import KnownRun, RunFigures
from service.daemon.past_runs import compared, known_runs

router = APIRouter()
MOST = 4
Asked = Annotated[
    list[Annotated[str, Query(max_length=100)]] | None,
    Query(max_length=MOST, description="A run; may be given several times. None: the two latest."),
]


@router.get("/runs/{app}", responses={200: {"model": list[KnownRun]}, **documented(404)})
def runs(app: str, daemon: ThisDaemon) -> Response:
    """The latest first, fifty at most, as far as telemetry is kept; a run is there some ten seconds after it began."""
    daemon.observation.status(app)
    return problems.Body(known_runs(daemon.telemetry, app))


@router.get("/comparison/{app}", responses={200: {"model": list[RunFigures]}, **documented(404)})
def comparison(app: str, daemon: ThisDaemon, run: Asked = None) -> Response:
    """What each `run` came to and its course, one beside the other: whether its objective was met, latency, rates,
    workers, CPU an item."""
    daemon.observation.status(app)
    return problems.Body(compared(daemon.telemetry, app, run or []))
