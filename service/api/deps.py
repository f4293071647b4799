"""Parts that routes share: the daemon, request bodies of the right media type, additions to the OpenAPI document."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, cast

from fastapi import Depends, Request, params
from fastapi.dependencies.utils import get_flat_params
from starlette.exceptions import HTTPException

from compositions.dynamic import SCHEDULER_NAMES
from compositions.errors import shown
from compositions.model import Stage
from compositions.rules import MAX_REPLICAS
from compositions.wording import did_you_mean
from service.api.guard import is_json, media_type
from service.api.problems import MEDIA_TYPE
from service.daemon.daemon import Daemon
from service.schemas.refusals import BadValueError
from service.schemas.results import Problem, ResultsGone, ValidationProblem

YAML_TYPES = ("application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml")


async def get_daemon(request: Request) -> Daemon:
    # declared async although it awaits nothing: FastAPI would run a plain function in a thread at each request
    return cast(Daemon, request.app.state.daemon)


async def expect_json(request: Request) -> None:
    """Refuse a body whose media type is not JSON, with 415."""
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
    """Refuse unknown query parameters, as an answer that ignores them would be wrong. Raises: BadValueError."""
    asked = request.query_params.keys()
    if not asked:
        return
    # not read from the OpenAPI document: generating it takes a second, in which no other request is answered
    parameters = get_flat_params(request.scope["route"].dependant)
    taken = {each.alias for each in parameters if isinstance(each.field_info, params.Query)}
    for name in sorted(asked - taken):
        accepted = did_you_mean(name, taken) or f"; accepted are {', '.join(sorted(taken)) or 'none'}"
        raise BadValueError(f"unknown query parameter {shown(name)}{accepted}")


ThisDaemon = Annotated[Daemon, Depends(get_daemon)]
YamlText = Annotated[bytes, Depends(yaml_text)]
ExpectJson = Depends(expect_json)
KnownQuery = Depends(known_query)
WHEN = {
    400: "the request is not HTTP that can be read",
    401: "the token is missing or wrong",
    403: "a host, an origin, or a token's role that is not accepted",
    404: "no such app",
    409: "not in the present state of the app",
    410: "the results asked for are gone: too old, or of another run; the answer says what is kept",
    413: "the body is too large",
    415: "a media type that is not accepted",
    422: "a value that is not accepted",
    429: "the input buffer is full; Retry-After says when to try again",
    503: "the runner does not answer now; Retry-After says when to try again",
    507: "there is no room on the disk of the state; nothing was changed",
}
MODELS: dict[int, type[Problem]] = {410: ResultsGone, 422: ValidationProblem}
"""Models of the problems that have additional fields."""
ALWAYS = (400, 401, 403, 413, 422)
Json = dict[str, Any]
_REFERENCE = re.compile(r"#/components/schemas/(\w+)")
Responses = dict[int | str, Json]


def documented(*statuses: int) -> Responses:
    """Document the problems that a route may answer, in addition to those that any request may meet."""
    return {status: _problem(status) for status in sorted({*ALWAYS, *statuses})}


def answers(model: object, *statuses: int) -> Responses:
    """Document an answer of this ``model``, and the problems."""
    return {200: {"model": model}, **documented(*statuses)}


def _problem(status: int) -> Json:
    model = MODELS.get(status, Problem).__name__
    content = {MEDIA_TYPE: {"schema": {"$ref": f"#/components/schemas/{model}"}}}
    headers = {"Retry-After": {"schema": {"type": "integer"}}} if status in (429, 503) else {}
    return {"description": WHEN[status], "content": content} | ({"headers": headers} if headers else {})


def add_schemas(document: Json) -> None:
    """Add the schemas that ``documented`` refers to."""
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    models: tuple[type[Problem], ...] = (Problem, *MODELS.values())
    for model in models:
        schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas.update(schema.pop("$defs", {}))
        schemas[model.__name__] = schema


def remove_unused(document: Json) -> None:
    """Remove schemas without a reference: topics of a body, whose fields stand in the body itself."""
    schemas = document["components"]["schemas"]
    texts = {name: json.dumps(schema) for name, schema in schemas.items()}
    used, found = set[str](), set(_REFERENCE.findall(json.dumps(document["paths"])))
    while new := found - used:
        used |= new
        found = {name for each in new for name in _REFERENCE.findall(texts[each])}
    for name in schemas.keys() - used:
        del schemas[name]


def add_security(document: Json) -> None:
    """Document that every call except the probes needs the token."""
    document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    document["security"] = [{"token": []}]
    for probe in ("/healthz", "/readyz"):
        document["paths"][probe]["get"]["security"] = []


def item_body() -> Json:
    """Document the body: any JSON value, JSON lines, bytes or an array; the app defines what it accepts."""
    value = {"schema": {"description": "The item: any JSON value that the app accepts; or an array of items."}}
    lines = {"schema": {"description": "An item a line, each any JSON value."}}
    binary: Json = {"schema": {}}  # the form in which OpenAPI 3.1 describes non-JSON content
    kinds = {"application/json": value, "application/x-ndjson": lines}
    kinds |= {"application/octet-stream": binary, "application/x-npy": binary}
    return {"requestBody": {"required": True, "content": kinds}}


def yaml_body(apps: Mapping[str, Sequence[Stage]]) -> Json:
    """Document a compositions file in YAML, with the apps that are registered here."""
    text: Json = {"type": "string", "minLength": 1, "maxLength": 100}
    count = {"type": "integer", "minimum": 1, "maximum": MAX_REPLICAS}
    group = _object({"stages": {"type": "array", "items": text, "minItems": 1}, "replicas": count}, "stages")
    groups = {"type": "array", "items": group, "minItems": 1}
    composition = _object({"name": text, "notation": text, "groups": groups}, "name")
    composition["oneOf"] = [{"required": ["notation"]}, {"required": ["groups"]}]
    workers = {"type": "array", "items": count, "minItems": 1}
    schedulers = {"type": "array", "items": {"enum": list(SCHEDULER_NAMES)}}
    document = {
        "app": {"type": "string", "enum": sorted(apps)},
        "defaults": _object({"replicas": count}),
        "compositions": {"type": "array", "items": composition},
        "generate": _object({"max_workers": count, "replicas": workers, "dyn": schedulers}, "max_workers"),
    }
    schema = _object(document, "app")
    some = {"required": ["compositions"], "properties": {"compositions": {"minItems": 1}}}
    schema["anyOf"] = [some, {"required": ["generate"]}]
    return {"required": True, "content": {"application/yaml": {"schema": schema}}}


def _object(properties: Json, *required: str) -> Json:
    """Return the schema of an object with exactly these fields."""
    needed = {"required": [*required]} if required else {}
    return {"type": "object", "additionalProperties": False, **needed, "properties": properties}
