"""What the routes get by dependency: the daemon's core, and bodies in the right form."""

from __future__ import annotations

import json
from typing import Annotated, Any, cast

from fastapi import Depends, Request
from starlette.exceptions import HTTPException

from service.api.guard import is_json, media_type
from service.bodies.refusals import BadValueError
from service.daemon.daemon import Daemon

YAML_TYPES = ("application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml")


async def get_daemon(request: Request) -> Daemon:
    # async, though it awaits nothing: FastAPI gives what is not to a thread, at each request
    return cast(Daemon, request.app.state.daemon)


async def expect_json(request: Request) -> None:
    """Refuses a body that does not call itself JSON, with 415."""
    if await request.body() and not is_json(request.headers):
        raise _unsupported(request, "application/json")


async def yaml_text(request: Request) -> bytes:
    if media_type(request.headers) not in YAML_TYPES:
        raise _unsupported(request, YAML_TYPES[0])
    return await request.body()


async def pushed_value(request: Request) -> Any:
    """The body is the item itself; null is an item too."""
    await expect_json(request)
    body = await request.body()
    if not body:
        raise BadValueError("the body is empty; send the item as JSON")
    return json.loads(body)


def _unsupported(request: Request, accepted: str) -> HTTPException:
    given = media_type(request.headers) or "none"
    return HTTPException(415, f"media type {given[:80]!r} is not accepted here; send {accepted}")


ThisDaemon = Annotated[Daemon, Depends(get_daemon)]
YamlText = Annotated[bytes, Depends(yaml_text)]
PushedValue = Annotated[Any, Depends(pushed_value)]
ExpectJson = Depends(expect_json)
