"""Check how the daemon listens, on a real socket: what it answers at once, what waits for nothing, how many at once."""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from service.api.guard import USER, Access, Guard
from service.cli import listener

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[bytes]]


async def _answers(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


def talked(*talks: Talk, app: Any = _answers) -> list[bytes]:
    """What each of ``talks`` brought home, one after the other, each over a connection of its own that stays open."""

    async def all_of_them() -> list[bytes]:
        config = uvicorn.Config(app, log_config=None, access_log=False)
        config.load()
        state = ServerState()
        with listener.listen("127.0.0.1", 0) as listening:
            loop = asyncio.get_running_loop()
            server = await loop.create_server(lambda: listener.BoundedProtocol(config, state, {}), sock=listening.dup())
            connections = [await asyncio.open_connection(*listening.getsockname()) for _ in talks]
            found = [await talk(*connection) for talk, connection in zip(talks, connections, strict=True)]
            for _, writer in connections:
                writer.close()
            server.close()
            await server.wait_closed()
        return found

    return asyncio.run(all_of_them())


ASK = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
HALF_A_HEAD = b"GET / HTTP/1.1\r\nHost: loc"
POST = b"POST / HTTP/1.1\r\nHost: localhost\r\n"


async def _asks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    writer.write(ASK)
    return await reader.readuntil(b"\r\n\r\n") + await reader.readexactly(2)


def sends(data: bytes, first: Talk | None = None) -> Talk:
    """Return a talk that sends this, and nothing more, behind the talk that comes ``first``."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        if first is not None:
            assert (await first(reader, writer)).startswith(b"HTTP/1.1 200 ")
        writer.write(data)
        return await reader.read()

    return talk


async def _waits(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    return b""


def test_what_is_accepted_sends_at_once() -> None:
    """Without TCP_NODELAY every answer on a kept-alive connection waited 40 ms for the peer's acknowledgement."""

    found: list[int] = []

    async def looks(scope: Any, receive: Any, send: Any) -> None:
        accepted = scope[USER].__self__.transport.get_extra_info("socket")
        found.append(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        await _answers(scope, receive, send)

    talked(_asks, app=looks)
    assert found == [1]


SLOW = b"the headers of the request took longer than 0.01 s; send them at once"


@pytest.mark.parametrize(
    ("talk", "limits", "status", "told"),
    [
        (sends(HALF_A_HEAD), {"HEAD_S": 0.01}, 408, SLOW),
        (sends(b""), {"HEAD_S": 0.01}, 408, SLOW),
        (sends(HALF_A_HEAD, first=_asks), {"HEAD_S": 0.01}, 408, SLOW),
        (sends(HALF_A_HEAD + b"x" * 100), {"MAX_HEAD_BYTES": 100}, 431, b"are larger than 100 bytes; send less"),
        (sends(b"hello there\r\n\r\n"), {}, 400, b"this is not a request of HTTP/1.1"),
    ],
    ids=["half a head", "nothing", "half a second head", "more head than allowed", "no HTTP"],
)
def test_headers_that_do_not_come_or_are_none_are_refused_in_a_sentence(
    talk: Talk, limits: dict[str, float], status: int, told: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in limits.items():
        monkeypatch.setattr(listener, name, value)
    answer = talked(talk)[0]
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert b"application/problem+json" in answer
    assert told in answer


def test_a_body_that_cannot_be_read_is_told_so() -> None:
    async def waits_for_the_body(scope: Any, receive: Any, send: Any) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    answer = talked(sends(POST + b"Transfer-Encoding: chunked\r\n\r\nZZ\r\n"), app=waits_for_the_body)[0]
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"its body cannot be read" in answer


def test_a_refusal_is_not_written_into_an_answer_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answers_half(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]})
        await send({"type": "http.response.body", "body": b"ok", "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass

    monkeypatch.setattr(listener, "HEAD_S", 0.01)
    answer = talked(sends(ASK + b"GET / HT"), app=answers_half)[0]
    assert answer.endswith(b"\r\n\r\nok")
    assert b"408" not in answer


def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    half = sends(POST + b"Content-Length: 10\r\n\r\nhalf")
    answer = talked(half, app=Guard(_answers, Access(body_s=0.01)))[0]
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"the body of the request took longer than 0.01 s" in answer


def test_a_connection_too_many_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "MAX_CONNECTIONS", 2)
    first, second, third = talked(_waits, _asks, sends(b""))
    assert first == b""
    assert second.startswith(b"HTTP/1.1 200 ")
    assert third.startswith(b"HTTP/1.1 503 ")
    assert b"2 connections are open already; close one or try again later" in third


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "::ffff:127.0.0.1"])
@pytest.mark.parametrize("asked", ["the kernel", "its tables"])
def test_the_user_behind_a_connection_is_known(address: str, asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one who speaks IPv4 through a socket of IPv6."""
    if asked == "its tables":
        monkeypatch.setattr(listener, "SOCK_DIAG", 31)  # a family that there is not: the kernel takes no question
    here = address.removeprefix("::ffff:")
    with listener.listen(here, 0) as listening:
        port = listening.getsockname()[1]
        with socket.create_connection((address, port)) as client:
            ends = (here, client.getsockname()[1]), (here, port)
            assert listener.user_behind(*ends) == os.geteuid()
            client.shutdown(socket.SHUT_WR)
            assert listener.user_behind(*ends) == os.geteuid(), "it still reads"
        assert listener.user_behind(*ends) is None, "the kernel shows user 0 now, who is not there"


def test_a_user_of_another_namespace_is_nobody_in_particular(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "_asked", lambda *ends: (1, listener.NOBODY, 7))
    assert listener.user_behind(("127.0.0.1", 1), ("127.0.0.1", 2)) is None


def test_without_a_token_only_the_users_that_may_are_let_in() -> None:
    own, others = frozenset({os.geteuid()}), frozenset({os.geteuid() + 1})
    asks = sends(b"GET /status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert talked(asks, app=Guard(_answers, Access(users=own)))[0].startswith(b"HTTP/1.1 200")
    answer = talked(asks, app=Guard(_answers, Access(users=others)))[0]
    assert answer.startswith(b"HTTP/1.1 403")
    assert f"user {os.geteuid()} of this machine is refused".encode() in answer
    assert b"RECOMPOSE_TOKEN" in answer
    assert talked(_asks, app=Guard(_answers, Access(users=others)))[0].startswith(b"HTTP/1.1 200"), "the page is open"
