"""Dependencies of the routes: the daemon's core, and request bodies of the right media type."""

from __future__ import annotations

from typing import Annotated, cast

from fastapi import Depends, Request
from starlette.exceptions import HTTPException

from compositions.errors import shown
from compositions.wording import did_you_mean
from service.api.guard import is_json, media_type
from service.daemon.daemon import Daemon
from service.schemas.refusals import BadValueError

YAML_TYPES = ("application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml")


async def get_daemon(request: Request) -> Daemon:
    # async, though it awaits nothing: FastAPI gives what is not to a thread, at each request
    return cast(Daemon, request.app.state.daemon)


async def expect_json(request: Request) -> None:
    """Refuses a body that does not call itself JSON, with 415."""
    if await request.body() and not is_json(request.headers):
        raise unsupported(request, "application/json")


async def yaml_text(request: Request) -> bytes:
    if media_type(request.headers) not in YAML_TYPES:
        raise unsupported(request, YAML_TYPES[0])
    return await request.body()


def unsupported(request: Request, accepted: str) -> HTTPException:
    given = media_type(request.headers) or "none"
    return HTTPException(415, f"media type {given[:80]!r} is not accepted here; send {accepted}")


async def known_query(request: Request) -> None:
    """Refuse query parameters that the route does not know: ignoring them would answer another question.

    Raises: BadValueError.
    """
    asked = request.query_params.keys()
    if not asked:
        return
    operation = request.app.openapi()["paths"][request.scope["route"].path_format][request.method.lower()]
    taken = {each["name"] for each in operation.get("parameters", ()) if each["in"] == "query"}
    for name in sorted(asked - taken):
        accepted = did_you_mean(name, taken) or f"; accepted are {', '.join(sorted(taken)) or 'none'}"
        raise BadValueError(f"unknown query parameter {shown(name)}{accepted}")


ThisDaemon = Annotated[Daemon, Depends(get_daemon)]
YamlText = Annotated[bytes, Depends(yaml_text)]
ExpectJson = Depends(expect_json)
KnownQuery = Depends(known_query)
