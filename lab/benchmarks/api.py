"""The REST API: how long a request takes and how many a second there are, from 1 to 100 clients, over loopback.

The daemon is a process of its own with its runner in it; an app of empty stages takes what is pushed. Clients are
threads with plain sockets, so that what is measured is the service. Kept alive: a client sends all its requests over
one connection; new: a connection for each.

python -m lab.benchmarks.api [--quick] [--rounds 3] [--ray] [--json]
"""

from __future__ import annotations

import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.benchmarks.daemon import Daemon, daemon
from lab.benchmarks.harness import Goal, Table, options, report

CLIENTS = (1, 10, 100)
KEPT, NEW, LIMIT = "kept alive", "new connection", "limit"
APP = "from lab.benchmarks.workloads import Empty\n\n\nclass Sink(Empty):\n    name = 'sink'\n"
START = {"source": {"kind": "push"}, "overload": "shed"}


@dataclass(frozen=True)
class Request:
    """What every client sends, again and again."""

    name: str
    wire: bytes
    expected: bytes

    @classmethod
    def of(cls, name: str, line: str, expected: int, body: bytes = b"") -> Request:
        head = f"{line} HTTP/1.1\r\nHost: localhost\r\n"
        if body:
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        return cls(name, head.encode() + b"\r\n" + body, f"HTTP/1.1 {expected} ".encode())


HEALTH = Request.of("GET /healthz", "GET /healthz", 200)
STATUS = Request.of("GET /status/sink", "GET /status/sink", 200)
PUSH = Request.of("POST /apps/sink/items", "POST /apps/sink/items", 202, b'{"serial":7}')


class Client:
    """One connection; an answer is read to its end before the next request."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60.0)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, request: Request) -> None:
        """Sends until it is accepted: a full input buffer (429) is asked again at once, and that time counts too."""
        while (answer := self._exchange(request.wire)).startswith(b"HTTP/1.1 429 "):
            pass
        if not answer.startswith(request.expected):
            raise RuntimeError(f"{request.name} was answered {answer[:300]!r}")

    def _exchange(self, wire: bytes) -> bytes:
        self._socket.sendall(wire)
        answer = b""
        while (end := answer.find(b"\r\n\r\n")) < 0:
            answer += self._received()
        head = answer[:end].lower()
        length = int(head.split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
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
    """Seconds of each of ``count`` requests."""
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
    """p50 and p99 in ms, and requests a second, of ``count`` requests shared by ``clients``."""
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


def tables_of(port: int, request: Request, counts: Sequence[int], rounds: int) -> list[Table]:
    """A table a figure: p50, p99, requests a second."""
    first = f"1 client, {KEPT}"
    goals = {
        "p50": [Goal("one kept-alive connection", first, LIMIT, 1.0, True)],
        "p99": [],
        "rate": [Goal("one kept-alive connection", first, LIMIT, 1.0, False)] if request is PUSH else [],
    }
    limits = {"p50": 3.0, "p99": 0.0, "rate": 1000.0}
    units = {"p50": "ms", "p99": "ms", "rate": "requests/s"}
    tables = {name: Table(f"{request.name}: {name}", units[name], goals[name]) for name in units}
    for _ in range(rounds):
        rows: dict[str, dict[str, float]] = {name: {LIMIT: limits[name]} if goals[name] else {} for name in units}
        for clients, count in zip(CLIENTS, counts, strict=True):
            for how in (KEPT, NEW):
                figures = load(port, request, clients, count, how == KEPT)
                for name, figure in zip(units, figures, strict=True):
                    rows[name][f"{clients} client{'s' * (clients > 1)}, {how}"] = figure
        for name, table in tables.items():
            table.rounds.append(rows[name])
    return list(tables.values())


def start_sink(running: Daemon) -> None:
    running.send("POST", "/apps/sink/start", START)
    up: Callable[[], bool] = lambda: running.status("sink")["state"] in ("profiling", "stable", "trial")  # noqa: E731
    running.wait_for(up, 60.0, "the app to be up")


def measure(ray: bool, rounds: int, count: int) -> list[Table]:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "sink.py").write_text(APP)
        pool = "ray" if ray else "local"
        with daemon(Path(folder), "--apps", folder, "--pool", pool, "--no-telemetry") as running:
            start_sink(running)
            requests = (HEALTH, STATUS, PUSH)
            return [table for request in requests for table in tables_of(running.port, request, [count] * 3, rounds)]


def main() -> None:
    parser = options(__doc__, "fewer requests, one round", rounds=3)
    parser.add_argument("--ray", action="store_true", help="the runner in a Ray actor, as the service has it")
    given = parser.parse_args()
    rounds, count = (1, 300) if given.quick else (given.rounds, 1000)
    report(measure(given.ray, rounds, count), given.json)


if __name__ == "__main__":
    main()
