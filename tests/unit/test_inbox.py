"""A source that acknowledges what is stored: what no broker does on demand."""

import math
from itertools import count
from threading import Thread
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from apps.contract import App
from compositions.model import Stage
from datapipe.brokers.rabbitmq import source as rabbitmq
from datapipe.brokers.rabbitmq.calls import Address
from datapipe.sources.inbox import Inbox, Letter

PATIENCE_S = 30.0


class Numbers(App):
    name = "numbers"
    stages = (Stage("s"),)


def test_who_stops_while_messages_are_taken_is_not_kept_waiting_for_them() -> None:
    letters = [Letter("here", b"%d" % number, number) for number in range(3)]
    box, times = MagicMock(**{"poll.return_value": letters}), count()

    def closes_at_the_second() -> float:
        if (now := next(times)) == 1:
            source.close()
        return float(now)

    source, found = Inbox(Numbers(), box, closes_at_the_second), list[Any]()
    reader = Thread(target=lambda: found.append(source.read(10, math.inf)), daemon=True)
    reader.start()
    reader.join(PATIENCE_S)
    assert found == [None], "reading ends, and nothing was taken"
    assert not box.acknowledge.called


class Channel:
    """Of a broker, which waits for an answer to what it has sent."""

    def __init__(self) -> None:
        self.unanswered: set[int] = set()

    def basic_ack(self, tag: int, multiple: bool = False) -> None:
        self.unanswered -= set(range(tag + 1)) if multiple else {tag}


def test_of_a_queue_what_is_known_again_is_acknowledged_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where another consumer gave back what is before it in the queue."""
    errors = SimpleNamespace(AMQPError=LookupError, ChannelClosedByBroker=LookupError)
    monkeypatch.setattr(rabbitmq, "library", lambda _: SimpleNamespace(exceptions=errors))
    box = rabbitmq.QueueBox(Address("127.0.0.1", None, {"queue": "numbers"}), 10)
    box._line._channel, box._line._connection = channel, _ = Channel(), MagicMock()

    def sends(tag: int, name: str, *, redelivered: bool) -> None:
        channel.unanswered.add(tag)
        delivered = SimpleNamespace(delivery_tag=tag, redelivered=redelivered)
        box._line._message(None, delivered, SimpleNamespace(message_id=name, headers=None), name.encode())

    sends(1, "b", redelivered=False)
    box.acknowledge(box.poll(10, 0.0))
    sends(2, "a", redelivered=True)
    sends(3, "b", redelivered=True)
    letters = box.poll(10, 0.0)
    assert [letter.body for letter in letters] == [b"a"]
    assert channel.unanswered == {2}, "it is not stored yet"
    box.acknowledge(letters)
    assert channel.unanswered == set()
