"""Check sender, origin, size and form of every request, in plain ASGI, so that a refusal precedes reading the body."""

import asyncio
import hmac
import ipaddress
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from compositions.wording import figure
from service.api.problems import problem
from service.api.strict_json import JsonRefusedError, parse_json, parse_without_items
from service.daemon.tokens import Audit, Role, Token, Tokens
from service.schemas.results import FieldError

T = TypeVar("T")
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
OPEN_PATHS = ("/healthz", "/readyz", "/")
OPEN_FOLDER = "/dashboard/"
"""The page and its scripts contain no data, so they need no token; the page requests data with the token."""
MAX_BODY_BYTES = 1024 * 1024
PARSED_AT_ONCE_BYTES = 16 * 1024
LARGER_ITEMS = ", or in several requests; recompose serve --max-item-bytes allows more"
USER = "recompose.user"
"""Key in a request's scope: a function that returns the id of the local user who sent the request, or None."""
BODY_S = 60.0
"""Maximum time to receive a body of any size, in seconds; slower clients send it in parts."""


@dataclass(frozen=True, slots=True)
class Access:
    """The access rules. Without a token only this machine's ``users`` may use the service."""

    token: str | None = None
    users: frozenset[int] | None = None
    """Ids of the users who may use the service without a token; None: anyone who can connect, for tests."""
    max_body_bytes: int = MAX_BODY_BYTES
    max_item_bytes: int = MAX_BODY_BYTES
    """Maximum size of an item pushed with ``POST /apps/{app}/items``, in bytes."""
    body_s: float = BODY_S
    named: Tokens | None = None
    """Named tokens, each with a role; ``token`` itself allows everything."""
    audit: Audit | None = None


class Guard:
    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        sender = self._sender(scope, headers)
        if isinstance(sender, Response):
            await sender(scope, receive, send)
        elif not sender.role.may(scope["method"], scope["path"]):
            refused = problem(403, f"token {sender.name!r} has the role {sender.role}, which may not make this change")
            await refused(scope, receive, self._recorded(sender, scope, b"", send))
        else:
            await self._pass_on(sender, scope, headers, receive, send)

    async def _pass_on(self, sender: Token, scope: Scope, headers: Headers, receive: Receive, send: Send) -> None:
        body = await self._read(scope, receive, headers)
        refused = body if isinstance(body, Response) else await _checked(body, headers, _pushes(scope))
        content = body if isinstance(body, bytes) else b""
        answer = self._app if refused is None else refused
        await answer(scope, _replay(content, receive), self._recorded(sender, scope, content, send))

    def _sender(self, scope: Scope, headers: Headers) -> Token | Response:
        """Return the sender of an acceptable request, else the refusal."""
        path, token = scope["path"], self._access.token
        is_open = path in OPEN_PATHS or path.startswith(OPEN_FOLDER)
        given = _bearer(headers)
        if given is not None and token is not None and hmac.compare_digest(given, token.encode()):
            return Token("RECOMPOSE_TOKEN", Role.ADMIN)
        if given is not None and self._access.named is not None:
            found = self._access.named.holder(given.decode("latin-1"))
            if found is not None:
                return found
        if token is not None:
            return Token("anyone", Role.VIEWER) if is_open else _without_token()
        user = scope[USER]() if USER in scope else None
        stranger = None if is_open else _check_user(user, self._access.users)
        refused = stranger or _check_host(headers) or _check_origin(scope["method"], headers)
        return refused or Token("unknown" if user is None else f"user {user}", Role.ADMIN)

    def _recorded(self, sender: Token, scope: Scope, body: bytes, send: Send) -> Send:
        """Return ``send``, extended to log the status of a change; pushed items are not logged."""
        audit = self._access.audit
        if audit is None or scope["method"] in SAFE_METHODS or _pushes(scope):
            return send

        async def recorded(message: Message) -> None:
            if message["type"] == "http.response.start":
                audit.record(sender, scope["method"], scope["path"], message["status"], body)
            await send(message)

        return recorded

    async def _read(self, scope: Scope, receive: Receive, headers: Headers) -> bytes | Response:
        try:
            async with asyncio.timeout(self._access.body_s):
                if _pushes(scope):
                    return await _read(receive, headers, self._access.max_item_bytes, LARGER_ITEMS)
                return await _read(receive, headers, self._access.max_body_bytes, "")
        except TimeoutError:
            detail = f"the body of the request took longer than {figure(self._access.body_s, 6)} s; send it at once"
            return problem(408, detail, headers={"Connection": "close"})


def _pushes(scope: Scope) -> bool:
    return bool(scope["path"].startswith("/apps/") and scope["path"].endswith("/items"))


def is_loopback(host: str) -> bool:
    """Return whether a host name or address means this machine and nothing else."""
    with suppress(ValueError):
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    return False


def _bearer(headers: Headers) -> bytes | None:
    scheme, _, value = headers.get("authorization", "").partition(" ")
    return value.strip().encode("latin-1", "replace") if scheme.lower() == "bearer" else None


def _without_token() -> Response:
    detail = "the token is missing or wrong; send Authorization: Bearer with the token the service was started with"
    return problem(401, detail, headers={"WWW-Authenticate": 'Bearer realm="recompose"'})


def own_users() -> frozenset[int]:
    """Return the ids of the users with the same rights as this process: its own and root's."""
    return frozenset({os.geteuid(), 0})


def _check_user(user: int | None, users: frozenset[int] | None) -> Response | None:
    if users is None or user in users:
        return None
    who = "a sender whose user is not known" if user is None else f"user {user} of this machine"
    accepted = "without a token only the user who started the service is accepted; start it with RECOMPOSE_TOKEN"
    return problem(403, f"{who} is refused: {accepted} and send that", headers={"Connection": "close"})


def _check_host(headers: Headers) -> Response | None:
    """Refuse host names that a web page could have pointed here (DNS rebinding)."""
    host, *others = headers.getlist("host") or [""]
    if others:
        return problem(400, "the request has several Host headers; send one")
    name, _, port = host.rpartition(":")
    if is_loopback(name if name and port.isdecimal() else host):
        return None
    return problem(403, f"host {host[:80]!r} is not accepted without a token; use localhost or 127.0.0.1")


def _check_origin(method: str, headers: Headers) -> Response | None:
    """Refuse changes that a web page of another origin sends through the user's browser."""
    origin = headers.get("origin")
    if method in SAFE_METHODS or origin is None or origin.partition("://")[2] == headers.get("host"):
        return None
    return problem(403, f"changes from the origin {origin[:80]!r} are not accepted; only from the service's own pages")


async def _read(receive: Receive, headers: Headers, limit: int, advice: str) -> bytes | Response:
    """Return the body, or refuse it with 413 as soon as it is known to be too large, also without Content-Length."""
    too_large = f"the body is larger than {limit:,} bytes; send at most that much{advice}"
    announced = headers.get("content-length", "0")
    if announced.isdecimal() and int(announced[:20]) > limit:
        return problem(413, too_large, headers={"Connection": "close"})
    chunks, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return problem(400, "the connection ended before the body did")
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
        if size > limit:
            return problem(413, too_large, headers={"Connection": "close"})
        more = message.get("more_body", False)
    return b"".join(chunks)


async def read_aside(read: Callable[[bytes], T], body: bytes) -> T:
    """Return ``read(body)``; a large body is read in a thread, so that other requests need not wait."""
    return await run_in_threadpool(read, body) if len(body) > PARSED_AT_ONCE_BYTES else read(body)


async def _checked(body: bytes, headers: Headers, has_items: bool) -> Response | None:
    if not body or not is_json(headers):
        return None
    try:
        await read_aside(parse_json if has_items else parse_without_items, body)
    except JsonRefusedError as error:
        return problem(422, str(error), errors=[FieldError(loc=["body"], msg=str(error))])
    return None


def media_type(headers: Headers) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def is_json(headers: Headers) -> bool:
    return media_type(headers) == "application/json"


def _replay(body: bytes, receive: Receive) -> Receive:
    """Pass the body on in one message, and after it the messages that follow, such as a disconnect."""
    messages: Iterator[Message] = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def replayed() -> Message:
        return next(messages, None) or await receive()

    return replayed
