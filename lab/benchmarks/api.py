"""Measure the REST API over loopback: time of a request and requests per second, from 1 to 100 clients.

The daemon is a separate process that contains its runner; an app of empty stages accepts the pushed items. Clients are
threads with plain sockets, so that the service is measured, not a library. "Kept alive": a client sends all its
requests over one connection; "new": it opens a connection for each request.

    python -m lab.benchmarks.api [--quick] [--rounds 3] [--ray] [--json]
"""

from __future__ import annotations

import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from lab.benchmarks.daemon import daemon
from lab.benchmarks.harness import Rounds, Table, at_least, at_most, main

CLIENTS = (1, 10, 100)
KEPT, NEW = "kept alive", "new connection"
FIRST = f"1 client, {KEPT}"
P50_MS, RATE_PER_S = 3.0, 1000.0
APP = """
from apps.contract import App, Stage

class Sink(App):
    name = "sink"
    stages = (Stage("s1"), Stage("s2"), Stage("s3"), Stage("s4"))

    def s1(self, value):
        return value

    s2 = s3 = s4 = s1
"""
START = {"source": {"kind": "push"}, "overload": "shed"}


@dataclass(frozen=True)
class Request:
    """A request that every client sends repeatedly."""

    name: str
    wire: bytes
    expected: bytes

    @classmethod
    def of(cls, line: str, expected: int, body: bytes = b"") -> Request:
        head = f"{line} HTTP/1.1\r\nHost: localhost\r\n"
        if body:
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        return cls(line, head.encode() + b"\r\n" + body, f"HTTP/1.1 {expected} ".encode())


PUSH = Request.of("POST /apps/sink/items", 202, b'{"serial":7}')
REQUESTS = (Request.of("GET /healthz", 200), Request.of("GET /status/sink", 200), PUSH)


class Client:
    """One connection; an answer is read to its end before the next request."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60.0)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, request: Request) -> None:
        """Send until accepted: after a full input buffer (429), it is sent again at once; that time counts too."""
        while (answer := self._exchange(request.wire)).startswith(b"HTTP/1.1 429 "):
            pass
        if not answer.startswith(request.expected):
            raise RuntimeError(f"{request.name} was answered {answer[:300]!r}")

    def _exchange(self, wire: bytes) -> bytes:
        self._socket.sendall(wire)
        answer = b""
        while (end := answer.find(b"\r\n\r\n")) < 0:
            answer += self._received()
        length = int(answer[:end].lower().split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
        while len(answer) < end + 4 + length:
            answer += self._received()
        return answer

    def _received(self) -> bytes:
        chunk = self._socket.recv(65536)
        if not chunk:
            raise RuntimeError("the service closed the connection")
        return chunk

    def close(self) -> None:
        self._socket.close()


def one_client(port: int, request: Request, count: int, kept: bool) -> list[float]:
    """Return the seconds of each of ``count`` requests."""
    taken_s = []
    client = Client(port) if kept else None
    for _ in range(count):
        began_s = time.perf_counter()
        used = client or Client(port)
        used.ask(request)
        taken_s.append(time.perf_counter() - began_s)
        if used is not client:
            used.close()
    if client is not None:
        client.close()
    return taken_s


def load(port: int, request: Request, clients: int, count: int, kept: bool) -> tuple[float, float, float]:
    """Return p50 and p99 in ms, and requests per second, of ``count`` requests shared by ``clients``."""
    found: list[list[float]] = []
    each = count // clients
    threads = [
        threading.Thread(target=lambda: found.append(one_client(port, request, each, kept))) for _ in range(clients)
    ]
    began_s = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rate = each * clients / (time.perf_counter() - began_s)
    taken_ms = sorted(1e3 * each for some in found for each in some)
    if len(taken_ms) != each * clients:
        raise SystemExit(f"{request.name}: {each * clients - len(taken_ms)} requests were not answered")
    return statistics.median(taken_ms), taken_ms[int(len(taken_ms) * 0.99)], rate


def tables_of(port: int, request: Request, count: int, rounds: int) -> list[Table]:
    """Return tables of p50, p99 and requests per second."""
    tables = [
        Table(f"{request.name}: p50", "ms", [at_most("one kept-alive connection", FIRST, P50_MS)]),
        Table(f"{request.name}: p99", "ms"),
        Table(f"{request.name}: rate", "requests/s"),
    ]
    if request is PUSH:
        tables[-1].goals = [at_least("one kept-alive connection", FIRST, RATE_PER_S)]
    for _ in range(rounds):
        found = {
            f"{clients} client{'s' * (clients > 1)}, {how}": load(port, request, clients, count, how == KEPT)
            for clients in CLIENTS
            for how in (KEPT, NEW)
        }
        for place, table in enumerate(tables):
            table.rounds.append({name: figures[place] for name, figures in found.items()})
    return tables


def measure(
    quick: Annotated[bool, "fewer requests, one round"] = False,
    rounds: Rounds = 3,
    ray: Annotated[bool, "run the runner in a Ray actor, as the service does"] = False,
) -> Iterator[Table]:
    rounds, count = (1, 300) if quick else (rounds, 1000)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "sink.py").write_text(APP)
        pool = "ray" if ray else "local"
        with daemon(Path(folder), "--apps", folder, "--pool", pool, "--no-telemetry") as running:
            running.send("POST", "/apps/sink/start", START)
            up: Callable[[], bool] = lambda: running.status("sink")["state"] in ("profiling", "stable", "trial")  # noqa: E731
            running.wait_for(up, 60.0, "the app to be up")
            for request in REQUESTS:
                yield from tables_of(running.port, request, count, rounds)


if __name__ == "__main__":
    main(measure)
