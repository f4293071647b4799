"""What the hub makes of the order in which answers come over ZeroMQ, which forgets what was on a broken connection."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from runtime.transport.hub import EncryptedLink
from runtime.transport.wire import Kind, Message


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


def test_answers_in_the_order_asked_are_delivered_of_whatever_kind() -> None:
    made, came = link(Message(Kind.READY))
    for kind, task_id in ((Kind.PARTLY, 1), (Kind.FAILED, 2), (Kind.DONE, 3)):
        made.came(Message(kind, task_id))
    assert [message.task_id for message in came] == [0, 1, 2, 3]


def test_one_that_is_passed_over_was_lost() -> None:
    made, _ = link(Message(Kind.READY))
    with pytest.raises(OSError, match="task 1 was lost on its way: the answer to 2 came first"):
        made.came(Message(Kind.DONE, 2))


def test_a_worker_with_several_tasks_at_once_answers_in_any_order() -> None:
    made, came = link(Message(Kind.READY, items=0))
    for task_id in (3, 1, 2):
        made.came(Message(Kind.DONE, task_id))
    assert [message.task_id for message in came] == [0, 3, 1, 2]
