"""The page at ``/`` and what it is made of: files of the package, served as they are."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse
from starlette.exceptions import HTTPException

from service.api.docs import problems as documented

router = APIRouter(tags=["dashboard"])
FOLDER = Path(__file__).parents[1] / "dashboard"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


@router.get("/", response_class=HTMLResponse, responses=documented())
def page(request: Request) -> Response:
    """The dashboard. The page itself holds no data and needs no token; what it shows it asks of this API."""
    return _file("index.html", request)


@router.get("/dashboard/{name}", include_in_schema=False)
def asset(name: str, request: Request) -> Response:
    return _file(name, request)


def _file(name: str, request: Request) -> Response:
    found = _files().get(name)
    if found is None:
        raise HTTPException(404)
    body, tag = found
    headers = {**HEADERS, "ETag": tag}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers, media_type=TYPES[Path(name).suffix])


@cache
def _files() -> dict[str, tuple[bytes, str]]:
    """Content and entity tag of every file, read once: some 100 KB."""
    bodies = {path.name: path.read_bytes() for path in FOLDER.iterdir() if path.suffix in TYPES}
    return {name: (body, f'"{hashlib.sha256(body).hexdigest()[:20]}"') for name, body in bodies.items()}
