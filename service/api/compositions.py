"""``/compositions``: list compositions, add them as YAML, remove them by name."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Response

from compositions.document.apart import LARGE_BYTES
from compositions.document.safe_yaml import Positions
from compositions.errors import CompositionError
from compositions.rules import MAX_REPLICAS
from service.api import problems
from service.api.deps import KnownQuery, ThisDaemon, YamlText, answers, documented
from service.runner.rpc.requests import ReadWhatIf
from service.schemas.compositions import Choice, WhatIf
from service.schemas.refusals import NotFoundError

router = APIRouter(tags=["compositions"], dependencies=[KnownQuery])
Cores = Annotated[int | None, Query(ge=1, le=4096, description="Cores for the workers (default: the app's).")]
Replicas = Annotated[int | None, Query(ge=1, le=MAX_REPLICAS, description="Replicas of every parallel group.")]
Rate = Annotated[float | None, Query(gt=0, le=1e6, allow_inf_nan=False, description="Input rate in items/s.")]
SHOWN = 1000
"""Maximum number of compositions in the answer to a document; GET returns the others, page by page."""
MARKED = 100
"""Maximum number of faults for which the line is determined."""
Limit = Annotated[int, Query(ge=1, le=1000, description="Maximum number of compositions.")]
AfterName = Annotated[str | None, Query(max_length=200, description="Only names listed after this name.")]
AfterBoth = Annotated[str | None, Query(max_length=300, description="Only names listed after APP/NAME.")]


@router.get("/compositions", responses=answers(list[Choice], 404, 503))
def all_compositions(daemon: ThisDaemon, limit: Limit = 1000, after: AfterBoth = None) -> Response:
    """List the compositions of all apps, a page at a time."""
    every = [each for name in daemon.registered() for each in daemon.compositions.of(name)]
    return problems.Body(_page(every, [f"{each.app}/{each.name}" for each in every], limit, after))


@router.get("/compositions/{app}", responses=answers(list[Choice], 404, 503))
def compositions(app: str, daemon: ThisDaemon, limit: Limit = 1000, after: AfterName = None) -> Response:
    """List the compositions of an app, a page at a time, with worker counts and, if there is a profile, predictions."""
    every = daemon.compositions.of(app)
    return problems.Body(_page(every, [each.name for each in every], limit, after))


def _page(choices: Sequence[Choice], names: Sequence[str], limit: int, after: str | None) -> Sequence[Choice]:
    """Return a page. Raises: NotFoundError if no composition has the name after which the page begins."""
    if after is not None and after not in names:
        raise NotFoundError(f"after = {after!r}: there is no such composition; give the last name of the previous page")
    first = 0 if after is None else names.index(after) + 1
    return choices[first : first + limit]


@router.post("/compositions", responses=answers(list[Choice], 409, 415, 503, 507))
def add_compositions(text: YamlText, daemon: ThisDaemon) -> Response:
    """Add or replace compositions of an app, also while it runs. A faulty document is refused as a whole; the refusal
    lists every fault with its path and, for a document of up to 64 KiB, its ``line``."""
    try:
        return problems.Body(daemon.compositions.add(text)[:SHOWN])
    except CompositionError as error:
        marked = error.faults[:MARKED] if len(text) <= LARGE_BYTES else ()
        positions = Positions(text)
        places = {fault: positions.line_of(fault) for fault in marked}
        return problems.refused(error, places)


@router.delete("/compositions/{app}/{name}", status_code=204, responses=documented(404, 409, 503, 507))
def remove_composition(app: str, name: str, daemon: ThisDaemon) -> Response:
    """Remove a composition; the answer is 409 if it is active or the only one."""
    daemon.compositions.remove(app, name)
    return Response(status_code=204)


@router.get("/what-if/{app}", tags=["what-if"], responses=answers(WhatIf, 404, 409, 503))
def what_if(
    app: str, daemon: ThisDaemon, cores: Cores = None, replicas: Replicas = None, rate_per_s: Rate = None
) -> Response:
    """Predict all compositions with other cores, replicas or input rate from the app's profile, and choose one."""
    return problems.Body(daemon.compositions.what_if(app, ReadWhatIf(cores, replicas, rate_per_s)))
