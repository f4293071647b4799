"""The transport between hub and workers, without a hub: readiness, broken connections."""

import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from runtime.transport.connection import Readiness
from runtime.transport.hub import EncryptedLink
from runtime.transport.wire import Kind, Message


@pytest.fixture
def readiness() -> Iterator[Readiness]:
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
        for limit_s in (None, 1e12):  # the latter is longer than the system knows
            readiness.serve(limit_s)
        assert called == ["right"] * 2
        for _ in range(2):
            readiness.forget(right.fileno())
        readiness.serve(0.001)
        assert called == ["right"] * 2


# What the hub makes of the order in which answers come over ZeroMQ, which forgets what was on a broken connection.


def link(ready: Message) -> tuple[EncryptedLink, list[Message]]:
    """One that has sent tasks 1, 2 and 3, and what it delivers."""
    came: list[Message] = []

    def deliver(received: tuple[str, Message]) -> None:
        assert received[0] == "w1"
        came.append(received[1])

    made = EncryptedLink(cast(Any, SimpleNamespace()), "w1", lambda _: None, deliver, lambda message: message)
    made.came(ready)
    for task_id in (1, 2, 3):
        made.send([Message(Kind.TASK, task_id)])
    return made, came


def test_one_that_is_passed_over_was_lost() -> None:
    made, _ = link(Message(Kind.READY))
    with pytest.raises(OSError, match="task 1 was lost on its way: the answer to 2 came first"):
        made.came(Message(Kind.DONE, 2))


def test_a_worker_with_several_tasks_at_once_answers_in_any_order() -> None:
    made, came = link(Message(Kind.READY, items=0))
    for task_id in (3, 1, 2):
        made.came(Message(Kind.DONE, task_id))
    assert [message.task_id for message in came] == [0, 3, 1, 2]
