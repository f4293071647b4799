"""``POST /apps/{app}/items``: push one item or many per request, as JSON, bytes or an array."""

import io
import json
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Depends, Query, Request, Response

from service.api import problems
from service.api.deps import KnownQuery, ThisDaemon, documented, expect_json, item_body
from service.api.guard import media_type, read_aside
from service.api.strict_json import JsonRefusedError, parse_json
from service.schemas.refusals import BadValueError
from service.schemas.results import Accepted, AcceptedMany

router = APIRouter(tags=["apps"], dependencies=[KnownQuery])
LINES, BYTES, ARRAY = "application/x-ndjson", "application/octet-stream", "application/x-npy"
Many = Annotated[bool, Query(description="The body is an array of items, not one item.")]


@dataclass(frozen=True, slots=True)
class Pushed:
    """The items of a request body."""

    items: tuple[Any, ...]
    many: bool


async def pushed(request: Request, many: Many = False) -> Pushed:
    """Return the items of a body. Raises: BadValueError for a bad body; HTTPException (415) for another media type."""
    kind, body = media_type(request.headers), await request.body()
    if not body:
        raise BadValueError("the body is empty; send the item as JSON")
    if kind == LINES:
        return Pushed(await read_aside(_lines, body), many=True)
    if kind in (BYTES, ARRAY) and many:
        raise BadValueError(f"a body of type {kind} is one item; send many as a JSON array, or as {LINES}")
    if kind == BYTES:
        return Pushed((body,), many=False)
    if kind == ARRAY:
        return Pushed((_array(body),), many=False)
    await expect_json(request)
    value = await read_aside(json.loads, body)
    if not many:
        return Pushed((value,), many=False)
    if not isinstance(value, list) or not value:
        raise BadValueError("with many=true the body must be an array of at least one item")
    return Pushed(tuple(value), many=True)


def _lines(body: bytes) -> tuple[Any, ...]:
    lines = [(number, line) for number, line in enumerate(body.splitlines(), 1) if line.strip()]
    if not lines:
        raise BadValueError("the body has no line with an item")
    return tuple(_line(number, line) for number, line in lines)


def _line(number: int, line: bytes) -> Any:
    try:
        return parse_json(line)
    except JsonRefusedError as error:
        raise BadValueError(f"line {number}: {error}") from error


def _array(body: bytes) -> Any:
    """Read a NumPy array; pickles and archives are refused."""
    try:
        return np.lib.format.read_array(io.BytesIO(body), allow_pickle=False)
    except Exception as error:  # its header may be malformed, or claim more numbers than fit into memory
        raise BadValueError(f"the body is not an array in NumPy's format npy: {error}") from error


@router.post(
    "/apps/{app}/items",
    status_code=202,
    openapi_extra=item_body(),
    responses={202: {"model": Accepted | AcceptedMany}, **documented(404, 409, 415, 429, 503)},
)
def push(app: str, daemon: ThisDaemon, body: Annotated[Pushed, Depends(pushed)]) -> Response:
    """Push items into an app whose source is push: one item (the body itself), or many, as an array with ``many=true``
    or as JSON lines (``application/x-ndjson``). If one of many is refused, those before it are accepted: the refusal
    lists their ``serials``. A body has at most 1 MiB, or ``recompose serve --max-item-bytes``."""
    taken = daemon.apps.push(app, body.items)
    if not body.many:
        return problems.Body(Accepted(serial=taken.serial, run=taken.run), 202)
    if taken.refusal is None:
        return problems.Body(AcceptedMany(serials=taken.serials, run=taken.run), 202)
    which = f"item {len(taken.serials) + 1} of {len(body.items)}"
    return problems.cut_short(taken.refusal, f"{which}: {taken.refusal}", taken)
