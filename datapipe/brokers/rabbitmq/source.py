"""Queues and streams of RabbitMQ, over ``pika``: ``amqp://HOST:5672/VHOST?queue=NAME`` or ``?stream=NAME``. A message's
body is the item.

A queue deletes a message when it is acknowledged, which happens once it is stored (``Inbox``). A stream keeps and
numbers messages, so it has positions like a topic's partition (``Fed``).
"""

import hashlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import structlog

from compositions.errors import RecomposeError
from datapipe.brokers.rabbitmq.calls import NOT_FOUND, OTHERWISE, Address, address_of, fault, library
from datapipe.sources.fed import Message, goes_on, whole
from datapipe.sources.inbox import Letter
from datapipe.sources.portions import Position

WHO = "source rabbitmq"
FORM = "amqp://HOST:5672/VHOST?queue=NAME, or ?stream=NAME"
PREFETCH = 512
MOST_PREFETCH = 65_535
OFFSET = "x-stream-offset"
log = structlog.get_logger()


def opened(url: str, options: Mapping[str, Any]) -> "QueueBox | StreamFeed":
    """Open a queue or a stream. Raises: RecomposeError for a bad URL, an unknown option, or a missing library."""
    address = address_of(url, WHO, (("queue",), ("stream",)), FORM)
    takes = ("prefetch", "on_gap") if "stream" in address.named else ("prefetch",)
    if strange := sorted(set(options) - set(takes)):
        has = " and ".join(takes)
        raise RecomposeError(f"{WHO} has no option {strange[0]!r} for a {next(iter(address.named))}; it has {has}")
    prefetch = whole(WHO, options, "prefetch", PREFETCH, MOST_PREFETCH)
    if "queue" in address.named:
        return QueueBox(address, prefetch)
    return StreamFeed(address, prefetch, goes_on=goes_on(WHO, options))


class Consuming:
    """A connection that consumes; it does I/O only when its owner calls. Methods raise as those of ``Feed``."""

    def __init__(self, address: Address, prefetch: int, name: str) -> None:
        self._address, self._prefetch, self._name = address, prefetch, name
        self._errors = library(WHO).exceptions
        self._connection: Any = None
        self._channel: Any = None
        self._cancelled = False
        self.came: deque[tuple[Any, Any, bytes]] = deque()
        """Received messages: delivery data, properties and body."""

    def open(self, arguments: Mapping[str, Any]) -> None:
        self.close()
        self.came.clear()
        self._cancelled = False
        self._asked(lambda: self._begin(arguments))

    def move(self, wait_s: float) -> None:
        self._asked(lambda: self._connection.process_data_events(time_limit=wait_s))
        if self._cancelled:
            raise OSError(f"{WHO}: {self._name!r} was deleted, or has moved")

    def taken(self, most: int, wait_s: float) -> list[tuple[Any, Any, bytes]]:
        self.move(0.0 if self.came else wait_s)
        return [self.came.popleft() for _ in range(min(most, len(self.came)))]

    def acknowledge(self, tag: int, *, alone: bool = False) -> None:
        """Acknowledge this message and all before it that are unanswered; ``alone``: these may not be stored yet."""
        self._asked(lambda: self._channel.basic_ack(tag, multiple=not alone))

    def refuse(self, tag: int) -> None:
        """Reject a message, which the broker moves to the queue's dead-letter exchange, if any."""
        self._asked(lambda: self._channel.basic_reject(tag, requeue=False))

    def close(self) -> None:
        if self._connection is not None and self._connection.is_open:
            with suppress(self._errors.AMQPError):  # already closed
                self._connection.close()
        self._connection = None

    def _begin(self, arguments: Mapping[str, Any]) -> None:
        self._connection = library(WHO).BlockingConnection(self._address.parameters)
        self._channel = self._connection.channel()
        self._channel.queue_declare(self._name, passive=True)
        self._channel.basic_qos(prefetch_count=self._prefetch)
        self._channel.add_on_cancel_callback(self._was_cancelled)
        try:
            self._channel.basic_consume(self._name, self._message, arguments=dict(arguments))
        except self._errors.ChannelClosedByBroker as error:
            if error.reply_code == OTHERWISE:  # the kind of queue has no such argument
                raise RecomposeError(f"{WHO} cannot read {self._name!r}: {error.reply_text}") from error
            raise

    def _asked(self, question: Callable[[], Any]) -> None:
        try:
            question()
        except self._errors.ChannelClosedByBroker as error:
            if error.reply_code == NOT_FOUND:
                raise OSError(f"rabbitmq has no {self._name!r} at present: {error.reply_text}") from error
            raise fault(WHO, error) from error
        except (self._errors.AMQPError, OSError) as error:
            raise fault(WHO, error) from error

    # --- called by the library --------------------------------------------------------------------------------------

    def _message(self, _: Any, delivered: Any, properties: Any, body: bytes) -> None:
        self.came.append((delivered, properties, body))

    def _was_cancelled(self, _: Any) -> None:
        self._cancelled = True


_Known = tuple[str, bytes]


def _known(message_id: str | None, body: bytes) -> _Known | None:
    """Return the key of a message that may be redelivered: its id and, as ids may be reused, its content."""
    return (message_id, hashlib.blake2b(body, digest_size=16).digest()) if message_id else None


class QueueBox:
    """A queue as a box; other consumers of the queue get a part of its messages."""

    def __init__(self, address: Address, prefetch: int) -> None:
        self._name = address.named["queue"]
        self._line = Consuming(address, prefetch, self._name)
        self._stored: deque[_Known] = deque(maxlen=prefetch)
        """The messages stored last. After a broken connection it is unknown whether their acknowledgements arrived."""

    def open(self) -> None:
        self._line.open({})

    def poll(self, most: int, wait_s: float) -> Sequence[Letter]:
        letters = []
        for delivered, properties, body in self._line.taken(most, wait_s):
            if OFFSET in (properties.headers or {}):
                raise RecomposeError(f"{WHO}: {self._name!r} is a stream; give ?stream={self._name}")
            known = _known(properties.message_id, body)
            if delivered.redelivered and known is not None and known in self._stored:
                self._line.acknowledge(delivered.delivery_tag, alone=True)
            else:
                letters.append(Letter(self._name, body, (delivered.delivery_tag, known)))
        return letters

    def acknowledge(self, letters: Sequence[Letter]) -> None:
        self._stored.extend(letter.receipt[1] for letter in letters if letter.receipt[1])
        self._line.acknowledge(letters[-1].receipt[0])

    def refuse(self, letter: Letter) -> None:
        self._line.refuse(letter.receipt[0])

    def close(self) -> None:
        self._line.close()


class StreamFeed:
    """A stream as one partition; its position is the offset of the next message."""

    def __init__(self, address: Address, prefetch: int, *, goes_on: bool) -> None:
        self._name = address.named["stream"]
        self._line = Consuming(address, prefetch, self._name)
        self._goes_on = goes_on
        self._next: int | None = None
        """Offset of the next message; None: the first that comes."""
        self.ended = False

    def seek(self, positions: Mapping[str, Position]) -> None:
        position = positions.get(self._name)
        self._next = None if position is None else int(str(position))
        self._line.open({OFFSET: "first" if self._next is None else self._next})

    def poll(self, most: int, wait_s: float) -> Sequence[Message]:
        found = []
        for delivered, properties, body in self._line.taken(most, wait_s):
            offset = (properties.headers or {}).get(OFFSET)
            if offset is None:
                raise RecomposeError(f"{WHO}: {self._name!r} is no stream; give ?queue={self._name}")
            self._look_for_gap(offset)
            self._next = offset + 1
            found.append(Message(self._name, offset + 1, body))
            last = delivered.delivery_tag
        if found:
            self._line.acknowledge(last)  # this deletes nothing in a stream, but makes it continue sending
        return found

    def commit(self, positions: Mapping[str, Position]) -> None:
        """Do nothing, as the stream's own limits decide what it keeps."""

    def close(self) -> None:
        self._line.close()

    def _look_for_gap(self, offset: int) -> None:
        """Check that a message's offset is the next one. Raises: RecomposeError if unread messages are gone."""
        if self._next is None or offset == self._next:
            return
        if offset < self._next:
            now = f"stream {self._name!r} of rabbitmq was created again, without message {self._next}"
            raise RecomposeError(f"{now}; start a new run")
        gone = f"stream {self._name!r} has dropped {self._next} to {offset - 1}, which were not read"
        if not self._goes_on:
            cure = "start a new run, or set on_gap=go-on"
            raise RecomposeError(f"rabbitmq no longer has the next messages: {gone}; {cure}")
        log.warning("messages were dropped before they were read", source="rabbitmq", what=gone)
