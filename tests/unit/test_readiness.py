"""One poll over many descriptors, by ``epoll`` and where there is none."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator

import pytest

from runtime.transport.connection import WRITE, Readiness


@pytest.fixture(params=["as it is here", "without epoll"])
def readiness(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Readiness]:
    if request.param == "without epoll":
        monkeypatch.delattr(select, "epoll", raising=False)
    made = Readiness()
    yield made
    made.close()
    made.close()


def test_handlers_are_called_for_what_is_ready_and_no_other(readiness: Readiness) -> None:
    called: list[str] = []
    (left, right), (other, silent) = socket.socketpair(), socket.socketpair()
    with left, right, other, silent:
        readiness.watch(right.fileno(), lambda mask: called.append("right"))
        readiness.watch(silent.fileno(), lambda mask: called.append("silent"))
        readiness.serve(0.0)
        assert called == []
        left.send(b"x")
        readiness.serve(None)
        assert called == ["right"]
        readiness.forget(right.fileno())
        readiness.forget(right.fileno())
        readiness.serve(0.001)
        assert called == ["right"]


def test_room_to_write_is_told_while_it_is_wanted(readiness: Readiness) -> None:
    masks: list[int] = []
    left, right = socket.socketpair()
    with left, right:
        readiness.watch(left.fileno(), masks.append)
        readiness.watch_writing(left.fileno(), True)
        readiness.serve(None)
        readiness.watch_writing(left.fileno(), False)
        readiness.serve(0.0)
        assert masks == [WRITE]


def test_a_wait_longer_than_the_system_knows_ends_when_something_comes(readiness: Readiness) -> None:
    called: list[int] = []
    left, right = socket.socketpair()
    with left, right:
        readiness.watch(right.fileno(), called.append)
        left.send(b"x")
        readiness.serve(1e12)
        assert len(called) == 1
