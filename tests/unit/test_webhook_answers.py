"""A webhook's answer, a sink's and an alert's: its status counts, whatever else the server sends and however slowly."""

import resource
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from itertools import repeat
from socketserver import ThreadingTCPServer

import httpx
import pytest

from compositions.errors import RecomposeError
from datapipe.sinks import webhook
from datapipe.sinks.port import MOST, Row, line_of
from service.daemon import alerts as alerting
from service.schemas.base import utc_now
from service.schemas.slo import Alert

Serve = Callable[[socket.socket], None]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
MANY = 400
"""Megabytes of an answer that nobody needs."""
WELL = b"HTTP/1.1 200 OK\r\n"


@pytest.fixture
def server() -> Iterator[Callable[[Serve], str]]:
    """Answer each connection's first request as asked. Gives the URL."""
    made: list[ThreadingTCPServer] = []

    def begin(serve: Serve) -> str:
        def handle(connection: socket.socket, *_: object) -> None:
            connection.settimeout(20.0)
            with suppress(ConnectionError, TimeoutError):
                read_request(connection)
                serve(connection)

        made.append(ThreadingTCPServer(("127.0.0.1", 0), handle))  # type: ignore[arg-type]
        threading.Thread(target=made[-1].serve_forever, args=(0.01,), daemon=True).start()
        return f"http://127.0.0.1:{made[-1].server_address[1]}/"

    yield begin
    for each in made:
        each.shutdown()
        each.server_close()


def read_request(connection: socket.socket) -> None:
    """To its end: to close a connection with something unread resets it, and an answer on its way may be lost."""
    with connection.makefile("rb") as request:
        head = list(iter(request.readline, b"\r\n"))
        lengths = [line.split(b":")[1] for line in head if line.lower().startswith(b"content-length")]
        request.read(int(lengths[0]))


def sending(head: bytes, parts: Iterable[bytes] = (), pause_s: float = 0.0) -> Serve:
    def serve(connection: socket.socket) -> None:
        connection.sendall(head)
        for part in parts:
            connection.sendall(part)
            time.sleep(pause_s)

    return serve


STATUS_GIVEN = {
    "no gzip": sending(WELL + b"Connection: close\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nok"),
    "large": sending(WELL + f"Content-Length: {MANY << 20}\r\n\r\n".encode(), [bytes(1 << 20)] * MANY),
    "endless": sending(WELL + b"\r\n", repeat(bytes(1 << 20))),
    "dripping body": sending(WELL + b"Content-Length: 1000\r\n\r\n", [b"x"] * 1000, 0.1),
    "cut": sending(WELL + b"Content-Length: 1000\r\n\r\nx"),
}
NO_STATUS = {
    "dripping head": sending(WELL, [b"X-1: x\r\n"] * 1000, 0.1),
    "early hints": sending(b"", [b"HTTP/1.1 103 Early Hints\r\n\r\n"] * 1000, 0.1),
}
REFUSING = sending(b"HTTP/1.1 404 Not Found\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nno")
SERVED = {**STATUS_GIVEN, **NO_STATUS, "refusing": REFUSING}


def peak_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


@pytest.mark.parametrize("serve", STATUS_GIVEN.values(), ids=STATUS_GIVEN)
def test_a_sink_leaves_the_body(serve: Serve, server: Callable[[Serve], str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "ANSWER_S", 1.0)
    before = peak_mb()
    with closing(webhook.Webhook(server(serve), "r", 1)) as sink:
        sink.begin(0, 0)
        for serial in range(2):
            sink.write(serial + 1, [Row(serial, None, "1", None)])
    assert peak_mb() - before < MANY / 4


@pytest.mark.parametrize("serve", [*NO_STATUS.values(), REFUSING], ids=[*NO_STATUS, "refusing"])
def test_no_status_in_time_and_a_refusal_that_cannot_be_decoded_are_errors(
    serve: Serve, server: Callable[[Serve], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook, "ANSWER_S", 0.5)
    error, why = OSError, "webhook 127.0.0.1 does not answer: no status within 0.5 s"
    if serve is REFUSING:
        error, why = RecomposeError, "answers item 0 with 404"
    with closing(webhook.Webhook(server(serve), "r", 1)) as sink:
        sink.begin(0, 0)
        with pytest.raises(error, match=why):
            sink.write(1, [Row(0, None, "1", None)])


@pytest.mark.parametrize("serve", SERVED.values(), ids=SERVED)
def test_alerts_are_posted_alike(serve: Serve, server: Callable[[Serve], str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alerting, "PATIENCE_S", 0.5)
    before = peak_mb()
    posts = alerting.Webhook(waits_s=())
    alert = Alert(app="a", about="backlog", raised=True, told="much", at=utc_now())
    expected = {REFUSING: "the webhook answered 404"}
    none = "no answer from the webhook (ReadTimeout)" if serve in NO_STATUS.values() else None
    assert posts._delivered(server(serve), alert) == expected.get(serve, none)
    assert peak_mb() - before < MANY / 4


def test_connections_are_used_again_while_answers_are_short(server: Callable[[Serve], str]) -> None:
    """One connection for two items: only what is too long to be read costs one."""
    connections: list[socket.socket] = []

    def keeping(connection: socket.socket) -> None:
        connections.append(connection)
        connection.sendall(OK)
        read_request(connection)
        connection.sendall(OK)

    posts = webhook.Posts(5.0)
    url = httpx.URL(server(keeping))
    assert [posts.post(url, {}) for _ in range(2)] == [200, 200]
    posts.close()
    assert len(connections) == 1


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("it broke", "it broke"),
        ("Traceback\n  File 'ä.py'\r\nValueError:\tx\n", "Traceback File 'ä.py' ValueError: x"),
        ("\n", " "),
        ("a\0b\x7f\ud800\ufffe", r"a\x00b\x7f\ud800\ufffe"),
        ("x" * 9000 + "the end", "x" * (MOST // 2) + " ... " + "x" * (MOST // 2 - 7) + "the end"),
    ],
)
def test_a_header_is_one_line_that_can_be_printed_and_is_not_too_long(text: str, line: str) -> None:
    assert line_of(text) == line
    assert line.isprintable()
