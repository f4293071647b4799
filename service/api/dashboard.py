"""Serve the dashboard's page at ``/`` and its files."""

import hashlib
from functools import cache
from pathlib import Path

from fastapi import APIRouter, Request, Response
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse
from starlette.exceptions import HTTPException

from service.api.deps import documented

router = APIRouter(tags=["dashboard"])
FOLDER = Path(__file__).parents[1] / "dashboard"
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


@router.get("/", response_class=HTMLResponse, responses=documented())
async def page(request: Request) -> Response:
    """Return the dashboard. The page contains no data and needs no token; it requests data from this API."""
    return _file("index.html", request)


@router.get("/docs", include_in_schema=False)
async def api_page(request: Request) -> Response:
    """Return the page about this API: Swagger UI from a Python package, as the browser may have no internet access."""
    return get_swagger_ui_html(
        openapi_url="openapi.json",
        title=request.app.title,
        swagger_js_url="swagger/swagger-ui-bundle.js",
        swagger_css_url="swagger/swagger-ui.css",
        swagger_favicon_url="dashboard/icon.svg",
    )


@router.get("/dashboard/{name}", include_in_schema=False)
async def asset(name: str, request: Request) -> Response:
    return _file(name, request)


@router.get("/dashboard/{version}/{name}", include_in_schema=False)
async def versioned(version: str, name: str, request: Request) -> Response:
    """Serve a file of the page under its version, so that browsers may cache it."""
    if version != _version():
        raise HTTPException(404)
    return _file(name, request, "public, max-age=31536000, immutable")


def _file(name: str, request: Request, kept: str = "no-cache") -> Response:
    body = _bodies().get(name)
    if body is None:
        raise HTTPException(404)
    if name == "index.html":
        body = body.replace(b'"dashboard/', f'"dashboard/{_version()}/'.encode())
    tag = f'"{_digest(body)}"'
    headers = {**HEADERS, "ETag": tag, "Cache-Control": kept}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers, media_type=TYPES[Path(name).suffix])


@cache
def _bodies() -> dict[str, bytes]:
    """Read every file once, some 100 KB together."""
    return {path.name: path.read_bytes() for path in sorted(FOLDER.iterdir()) if path.suffix in TYPES}


@cache
def _version() -> str:
    return _digest(b"\0".join(part for name, body in _bodies().items() for part in (name.encode(), body)))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:20]
