"""Errors as RFC 9457 problem details, each a sentence."""

import json
import math
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.routing import Match

from apps.registry import UnknownApp
from compositions.errors import Fault, RecomposeError
from datapipe.sources.push import BufferFull, SourceClosed
from service.runner.rpc.requests import Taken
from service.schemas import refusals
from service.schemas.base import json_of, plain
from service.schemas.refusals import ConflictError, DiskFullError, NotFoundError, ResultsGoneError, UnavailableError
from service.schemas.results import FieldError, Problem, ResultsGone, ValidationProblem

MEDIA_TYPE = "application/problem+json"
log = structlog.get_logger()


class Body(JSONResponse):
    def render(self, content: object) -> bytes:
        return json_text(content).encode()


def json_text(content: object) -> str:
    """Return a body as JSON that all parsers read: ASCII (lone surrogates escaped), NaN and infinities as null."""
    try:
        return json_of(content)
    except ValueError:  # the body has a lone surrogate, which Pydantic does not write
        return json.dumps(_finite(plain(content)), separators=(",", ":"))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(each) for key, each in value.items()}
    return [_finite(each) for each in value] if isinstance(value, list | tuple) else value


def problem(
    status: int, detail: str, *, errors: Sequence[FieldError] | None = None, headers: Mapping[str, str] | None = None
) -> Response:
    about = _about(status, detail)
    body = about if errors is None else ValidationProblem(errors=list(errors), **dict(about))
    return Body(body, status, headers=dict(headers or {}), media_type=MEDIA_TYPE)


def cut_short(error: RecomposeError, detail: str, taken: Taken) -> Response:
    """Return the refusal of one of many pushed items; it names the items that were accepted before."""
    status = status_of(error)
    body = _about(status, detail).model_copy(update={"serials": taken.serials, "run": taken.run})
    return Body(body, status, headers=_retry_after(status), media_type=MEDIA_TYPE)


def _about(status: int, detail: str) -> Problem:
    return Problem(type="about:blank", title=HTTPStatus(status).phrase, status=status, detail=detail)


STATUSES: Mapping[type[Exception], int] = {
    **{NotFoundError: 404, UnknownApp: 404, ConflictError: 409, SourceClosed: 409, ResultsGoneError: 410},
    **{BufferFull: 429, DiskFullError: 507, UnavailableError: 503},
}
"""HTTP statuses of refusals; the first class that matches counts."""


def status_of(error: RecomposeError) -> int:
    """Return the HTTP status of a refusal; a refusal without its own status is a bad value."""
    return next((status for kind, status in STATUSES.items() if isinstance(error, kind)), 422)


def refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, RecomposeError)
    status = status_of(error)
    if isinstance(error, ResultsGoneError):
        about = plain(_about(status, str(error)))
        kept = ResultsGone(run=error.run, from_=error.first, to=error.last, **about)
        return Body(kept, status, media_type=MEDIA_TYPE)
    return problem(status, str(error), headers=_retry_after(status)) if status != 422 else refused(error)


def _retry_after(status: int) -> dict[str, str]:
    """Return the seconds after which the same request may succeed, if it may."""
    return {"Retry-After": "1"} if status in (429, 503) else {}


def refused(error: RecomposeError, lines: Mapping[Fault, int | None] | None = None) -> Response:
    """Return 422 with every fault of ``error``, and with their ``lines`` if known."""
    faults: Sequence[Fault] = error.faults or (Fault("", str(error)),)
    return problem(422, str(error), errors=[_of_fault(each, lines or {}) for each in faults])


def _of_fault(fault: Fault, lines: Mapping[Fault, int | None]) -> FieldError:
    line = {"line": lines[fault]} if fault in lines else {}
    return FieldError(loc=["body", fault.path] if fault.path else ["body"], msg=fault.message, **line)


def invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    found = error.errors()
    errors = [FieldError(loc=refusals.place(each), msg=refusals.message(each)) for each in found]
    return problem(422, "; ".join(refusals.sentence(each) for each in found[:5]), errors=errors)


def http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    detail, headers = str(error.detail), dict(error.headers or {})
    if error.status_code == 404:
        detail = f"there is nothing at {request.url.path[: refusals.SHOWN]!r}; /docs lists what there is"
    elif error.status_code == 405:
        headers["Allow"] = ", ".join(sorted(_methods(request)))
        detail = f"{request.method} is not accepted here; accepted is {headers['Allow']}"
    return problem(error.status_code, detail, headers=headers)


def _methods(request: Request) -> set[str]:
    """Return the methods of all routes at this path; the router itself names those of the first route only."""
    found: set[str] = set()
    for route in request.app.state.routes:
        if route.matches(request.scope)[0] is not Match.NONE:
            found |= getattr(route, "methods", None) or set()
    return found


def internal(request: Request, error: Exception) -> Response:
    log.error("request failed: internal error", path=request.url.path, method=request.method, error=repr(error))
    return problem(500, "the service failed on this request; its log says more")


def install(app: FastAPI) -> None:
    app.add_exception_handler(RecomposeError, refusal)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http_error)
    app.add_exception_handler(Exception, internal)
