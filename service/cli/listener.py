"""The daemon's HTTP listener: a socket that accepts at once, and limits to all waits that a client could cause."""

import asyncio
import ipaddress
import signal
import socket
import struct
import sys
from collections.abc import MutableMapping
from typing import Any, Literal, cast

import structlog
import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from compositions.errors import RecomposeError
from runtime.housekeeping import short_turns
from service.api.guard import USER
from service.api.problems import problem

GRACE_S = 5
"""Time in which requests may end at shutdown, in seconds; then the drain of the apps begins, with its own limit."""
HEAD_S = 10.0
"""Maximum time from the first byte of a connection, or of its next request, to the end of the headers."""
MAX_HEAD_BYTES = 64 * 1024
MAX_CONNECTIONS = 500
"""Maximum number of connections, including streams of the dashboard; a process may open 1,024 files by default."""
log = structlog.get_logger()


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket. Raises: RecomposeError if the address is taken or not of this machine."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        why = str(error.strerror).partition(" (while attempting")[0]
        raise RecomposeError(f"cannot listen on {host}:{port}: {why}; give another --port") from error
    # With the protocol named, asyncio sets TCP_NODELAY on accepted connections. Without, the second write of an answer
    # (its body) waits for the acknowledgement of the first: 40 ms on every kept-alive connection.
    return socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, listener.detach())


ESTABLISHED_OR_HALF_CLOSED = {1, 4, 5}
"""States of a TCP connection whose other end still belongs to a process: established, FIN_WAIT1, FIN_WAIT2."""
NOBODY = 65534
"""The kernel's id for all users of another user namespace."""
SOCK_DIAG, BY_FAMILY, REQUEST = 4, 20, 1
"""Constants of ``linux/sock_diag.h`` and ``linux/netlink.h``: the family, the message, the flag."""
DIAG_WAIT_S = 1.0
End = tuple[str, int]
"""Address and port of one end of a connection."""


def user_behind(client: End, server: End) -> int | None:
    """Return the id of the local user at the ``client`` end of a connection to ``server``; None if unknown: on another
    machine or namespace, a closed connection (the kernel then shows user 0), or not on Linux."""
    found = _asked(client, server) or _in_tables(client, server)
    if found is None:
        return None
    state, user, inode = found
    return user if state in ESTABLISHED_OR_HALF_CLOSED and inode and user != NOBODY else None


def _asked(client: End, server: End) -> tuple[int, int, int] | None:
    """Return state, user and inode of the client's socket by ``inet_diag`` (man 7 sock_diag), in constant time."""
    addresses = [ipaddress.ip_address(host.partition("%")[0]).packed for host in (client[0], server[0])]
    family = socket.AF_INET if len(addresses[0]) == 4 else socket.AF_INET6
    ends = struct.pack("!HH", client[1], server[1]) + b"".join(each.ljust(16, b"\0") for each in addresses)
    any_cookie = struct.pack("=III", 0, 2**32 - 1, 2**32 - 1)
    request = struct.pack("=BBBBI", family, socket.IPPROTO_TCP, 0, 0, 2**32 - 1) + ends + any_cookie
    head = struct.pack("=IHHII", 16 + len(request), BY_FAMILY, REQUEST, 1, 0)
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, SOCK_DIAG) as kernel:
            kernel.settimeout(DIAG_WAIT_S)
            kernel.send(head + request)
            answer = kernel.recv(4096)
        kind, state = struct.unpack_from("=4xH", answer)[0], answer[17]
        user, inode = struct.unpack_from("=II", answer, 80)
    except (OSError, AttributeError, IndexError, struct.error):  # not Linux, or this kernel does not answer it
        return None
    return (state, user, inode) if kind == BY_FAMILY else None


def _in_tables(client: End, server: End) -> tuple[int, int, int] | None:
    """Return the same from ``/proc/net/tcp`` and ``tcp6``, in time that grows with the number of connections."""
    for table, size in (("tcp", 4), ("tcp6", 16)):
        wanted = (_in_table(*client, size), _in_table(*server, size))
        try:
            with open(f"/proc/net/{table}", encoding="ascii") as rows:
                for fields in map(str.split, rows):
                    if (fields[1], fields[2]) == wanted:
                        return int(fields[3], 16), int(fields[7]), int(fields[9])
        except OSError:
            continue
    return None


def _in_table(host: str, port: int, size: int) -> str:
    """Return an address as in these tables: words of 32 bits in the machine's byte order; IPv4 within IPv6."""
    packed = ipaddress.ip_address(host.partition("%")[0]).packed
    if size == 16 and len(packed) == 4:
        packed = bytes(10) + b"\xff\xff" + packed
    words = (packed[start : start + 4] for start in range(0, len(packed), 4))
    return "".join(f"{int.from_bytes(word, sys.byteorder):08X}" for word in words) + f":{port:04X}"


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with limits for connections and headers; ``USER`` in a scope names the connected user."""

    _head_due: asyncio.TimerHandle | None = None
    _head_bytes = 0
    _user: int | Literal["unasked"] | None = "unasked"

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
        cast(MutableMapping[str, object], self.scope)[USER] = self.user
        self._await_head()

    def on_headers_complete(self) -> None:
        self._head_is_there()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "this is not a request of HTTP/1.1; its line, its headers or its body cannot be read")

    def user(self) -> int | None:
        """Return the id of this connection's user, or None if unknown; it is looked up once."""
        if self._user == "unasked":
            client, (host, port) = self.client, self.server or ("", None)
            self._user = user_behind(client, (host, port)) if client and port is not None else None
        return self._user

    def _await_head(self) -> None:
        if self._head_due is None:
            late = f"the headers of the request took longer than {HEAD_S:g} s; send them at once"
            self._head_due = self.loop.call_later(HEAD_S, self._refuse, 408, late)

    def _head_is_there(self) -> None:
        if self._head_due is not None:
            self._head_due.cancel()
        self._head_due, self._head_bytes = None, 0

    def _refuse(self, status: int, detail: str) -> None:
        """Answer without a request, and end the connection; while another answer is under way, only end it."""
        if self.transport.is_closing():
            return
        self._head_is_there()
        if self._may_answer():
            answer = problem(status, detail, headers={"Connection": "close"})
            head = b"".join(b"%b: %b\r\n" % header for header in answer.raw_headers)
            self.transport.write(STATUS_LINE[status] + head + b"\r\n" + bytes(answer.body))
        self.transport.close()

    def _may_answer(self) -> bool:
        """Return whether no answer is under way: no request, all answered, or the only request is not complete."""
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            return True
        return cycle.more_body and not cycle.response_started and not self.pipeline


def serve_on(listener: socket.socket, app: Any) -> None:
    """Serve until a signal. uvicorn raises the signal again at its end; a handler without effect gives exit code 0."""
    short_turns()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    config = uvicorn.Config(
        app,
        http=BoundedProtocol,
        ws="none",  # the service has no WebSockets; uvicorn would log a refused handshake with its query
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
