"""A source that acknowledges what is stored: what no broker does on demand."""

import math
from collections.abc import Sequence
from itertools import count
from threading import Thread
from typing import Any, NamedTuple

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


class Three:
    """A box of three letters."""

    def __init__(self) -> None:
        self.acknowledged: list[Letter] = []

    def open(self) -> None: ...

    def poll(self, most: int, wait_s: float) -> Sequence[Letter]:
        return [Letter("here", b"%d" % number, number) for number in range(3)]

    def acknowledge(self, letters: Sequence[Letter]) -> None:
        self.acknowledged += letters

    def refuse(self, letter: Letter) -> None: ...

    def close(self) -> None: ...


def test_who_stops_while_messages_are_taken_is_not_kept_waiting_for_them() -> None:
    box, times = Three(), count()

    def closes_at_the_second() -> float:
        if (now := next(times)) == 1:
            source.close()
        return float(now)

    source, found = Inbox(Numbers(), box, closes_at_the_second), list[Any]()
    reader = Thread(target=lambda: found.append(source.read(10, math.inf)), daemon=True)
    reader.start()
    reader.join(PATIENCE_S)
    assert found == [None], "reading ends, and nothing was taken"
    assert box.acknowledged == []


class Delivered(NamedTuple):
    delivery_tag: int
    redelivered: bool


class Properties(NamedTuple):
    message_id: str
    headers: None = None


class Channel:
    """Of a broker, which waits for an answer to what it has sent."""

    def __init__(self) -> None:
        self.unanswered: set[int] = set()

    def basic_ack(self, tag: int, multiple: bool = False) -> None:
        self.unanswered -= set(range(tag + 1)) if multiple else {tag}


class Connection:
    def process_data_events(self, time_limit: float) -> None: ...


class Library:
    class exceptions:  # noqa: N801 - as the library calls them
        AMQPError = ChannelClosedByBroker = LookupError


def test_of_a_queue_what_is_known_again_is_acknowledged_without_what_came_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As where another consumer gave back what is before it in the queue."""
    monkeypatch.setattr(rabbitmq, "library", lambda _: Library)
    box = rabbitmq.QueueBox(Address("127.0.0.1", None, {"queue": "numbers"}), 10)
    box._line._channel, box._line._connection = channel, _ = Channel(), Connection()

    def sends(tag: int, name: str, *, redelivered: bool) -> None:
        channel.unanswered.add(tag)
        box._line._message(None, Delivered(tag, redelivered), Properties(name), name.encode())

    sends(1, "b", redelivered=False)
    box.acknowledge(box.poll(10, 0.0))
    sends(2, "a", redelivered=True)
    sends(3, "b", redelivered=True)
    letters = box.poll(10, 0.0)
    assert [letter.body for letter in letters] == [b"a"]
    assert channel.unanswered == {2}, "it is not stored yet"
    box.acknowledge(letters)
    assert channel.unanswered == set()
