"""``/metrics``, ``/healthz``, ``/readyz`` and the page at ``/``."""

from __future__ import annotations

from html import escape

from fastapi import APIRouter, Response
from fastapi.responses import HTMLResponse, PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST

from service import metrics
from service.api import problems
from service.api.deps import Supervised
from service.api.docs import Responses
from service.api.docs import problems as documented
from service.refusals import UnavailableError

router = APIRouter(tags=["operation"])
TEXT: Responses = {
    200: {"description": "Prometheus text format.", "content": {"text/plain": {"schema": {"type": "string"}}}}
}

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Recompose</title>
<style>body{{font:16px system-ui;margin:3rem auto;max-width:50rem}}td,th{{padding:.2rem 1.5rem .2rem 0;text-align:left}}
</style></head><body><h1>Recompose</h1>
<table><tr><th>app</th><th>state</th><th>composition</th><th>SLO</th></tr>
{rows}
</table><p><a href="/docs">API</a> · <a href="/metrics">metrics</a></p></body></html>
"""


@router.get("/metrics", response_class=PlainTextResponse, responses={**TEXT, **documented()})
def prometheus(supervisor: Supervised) -> Response:
    """Metrics for Prometheus; their names are a contract (``service/metrics.py`` explains each)."""
    return Response(metrics.exposition(supervisor.statuses), media_type=CONTENT_TYPE_LATEST)


@router.get("/healthz", responses=documented())
def alive() -> Response:
    """The process answers. Needs no token."""
    return problems.Body({"status": "alive"})


@router.get("/readyz", responses=documented(503))
def ready(supervisor: Supervised) -> Response:
    """Ray answers, and the apps that were running are restored."""
    missing = supervisor.readiness()
    if missing is not None:
        raise UnavailableError(f"not ready: {missing}")
    return problems.Body({"status": "ready"})


@router.get("/", response_class=HTMLResponse, responses=documented())
def page(supervisor: Supervised) -> Response:
    """A page for people: the apps and their states."""
    rows = "\n".join(_row(status) for status in supervisor.statuses())
    return HTMLResponse(PAGE.format(rows=rows))


def _row(status: dict[str, object]) -> str:
    composition = status["composition"]
    notation = composition["notation"] if isinstance(composition, dict) else "–"
    name = escape(str(status["app"]))
    link = f'<a href="/status/{name}">{name}</a>'
    cells = (str(status["state"]), str(notation), str(status["slo_status"]))
    return f"<tr><td>{link}</td>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
