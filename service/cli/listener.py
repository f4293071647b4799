"""How the daemon listens: a socket that answers at once, and an end to every wait that a client could cause."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from typing import Any

import structlog
import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from compositions.errors import RecomposeError
from runtime.housekeeping import short_turns
from service.api.problems import problem

GRACE_S = 5
"""Requests under way at shutdown get this long; the drain of the apps comes after, with its own limit."""
HEAD_S = 10.0
"""From the first byte of a connection, or of its next request, to the end of the headers."""
MAX_HEAD_BYTES = 64 * 1024
MAX_CONNECTIONS = 500
"""Streams of the dashboard included. Below the 1,024 open files that a process may have by default, most of which are
then still there for state, workers and telemetry."""
log = structlog.get_logger()


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises: RecomposeError when the address is taken or not ours."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio sets TCP_NODELAY on what is accepted here. Without, the second write of an answer
    # (its body) waits for the acknowledgement of the first: 40 ms on every kept-alive connection.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((host, port))
        listener.listen()
    except OSError as error:
        listener.close()
        why = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        raise RecomposeError(f"cannot listen on {host}:{port}: {why}; give another --port") from error
    return listener


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's HTTP, with a limit of connections, and of the time and the size that a request's headers may take."""

    _head_due: asyncio.TimerHandle | None = None
    _head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        super().connection_made(transport)
        self._await_head()
        if len(self.connections) > MAX_CONNECTIONS:
            self._refuse(503, f"{MAX_CONNECTIONS} connections are open already; close one or try again later")

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._head_due is None:
            return
        self._head_bytes += len(data)
        if self._head_bytes > MAX_HEAD_BYTES:
            self._refuse(431, f"the headers of the request are larger than {MAX_HEAD_BYTES} bytes; send less")

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_is_there()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._await_head()

    def on_headers_complete(self) -> None:
        self._head_is_there()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "this is not a request of HTTP/1.1; its line, its headers or its body cannot be read")

    def _await_head(self) -> None:
        if self._head_due is None:
            self._head_due = self.loop.call_later(HEAD_S, self._head_late)

    def _head_is_there(self) -> None:
        if self._head_due is not None:
            self._head_due.cancel()
        self._head_due, self._head_bytes = None, 0

    def _head_late(self) -> None:
        self._refuse(408, f"the headers of the request took longer than {HEAD_S:g} s; send them at once")

    def _refuse(self, status: int, detail: str) -> None:
        """Answers before there is a request, and ends the connection; into an answer under way it says nothing."""
        if self.transport.is_closing():
            return
        self._head_is_there()
        if self._may_answer():
            answer = problem(status, detail, headers={"Connection": "close"})
            head = b"".join(b"%b: %b\r\n" % header for header in answer.raw_headers)
            self.transport.write(STATUS_LINE[status] + head + b"\r\n" + bytes(answer.body))
        self.transport.close()

    def _may_answer(self) -> bool:
        """No answer is under way: nothing was asked, all is answered, or the only request is not whole yet."""
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            return True
        return cycle.more_body and not cycle.response_started and not self.pipeline


def serve_on(listener: socket.socket, app: Any) -> None:
    """Until a signal; uvicorn raises it again at its end, and exit code 0 needs that to do nothing."""
    short_turns()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    config = uvicorn.Config(
        app,
        http=BoundedProtocol,
        loop="uvloop",
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=GRACE_S,
    )
    server = uvicorn.Server(config)
    log.info("listening", address="{}:{}".format(*listener.getsockname()[:2]))
    server.run(sockets=[listener])
    if not server.started:
        raise RecomposeError("the service could not start; its log says why")
