"""``/compositions``: what can be chosen; added as YAML, removed by name."""

from __future__ import annotations

from fastapi import APIRouter, Response

from service.api import problems
from service.api.deps import Supervised, YamlText
from service.api.docs import Responses
from service.api.docs import problems as documented
from service.api.models import Choice

router = APIRouter(tags=["compositions"])
CHOICES: Responses = {200: {"model": list[Choice]}}


@router.get("/compositions", responses={**CHOICES, **documented(503)})
def all_compositions(supervisor: Supervised) -> Response:
    """The compositions of all apps."""
    return problems.Body([each for name in supervisor.names() for each in supervisor.compositions(name)])


@router.get("/compositions/{app}", responses={**CHOICES, **documented(404, 503)})
def compositions(app: str, supervisor: Supervised) -> Response:
    """What can be chosen for an app, with worker counts, and predictions where there is a profile."""
    return problems.Body(supervisor.compositions(app))


@router.post("/compositions", responses={**CHOICES, **documented(415, 503)})
def add_compositions(text: YamlText, supervisor: Supervised) -> Response:
    """Adds or replaces compositions of an app, live. A faulty document is refused whole, every fault by its path."""
    return problems.Body(supervisor.add_compositions(text))


@router.delete("/compositions/{app}/{name}", status_code=204, responses={**documented(404, 409, 503)})
def remove_composition(app: str, name: str, supervisor: Supervised) -> Response:
    """Removes a composition; 409 when it is active or the only one."""
    supervisor.remove_composition(app, name)
    return Response(status_code=204)
