"""What the routes get by dependency: the daemon's core, and bodies in the right form."""

from __future__ import annotations

from typing import Annotated, cast

from fastapi import Depends, Request
from starlette.exceptions import HTTPException

from service.api.guard import is_json, media_type
from service.daemon.daemon import Daemon

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


ThisDaemon = Annotated[Daemon, Depends(get_daemon)]
YamlText = Annotated[bytes, Depends(yaml_text)]
ExpectJson = Depends(expect_json)
