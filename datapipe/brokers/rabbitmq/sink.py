"""A queue, or an exchange, of RabbitMQ, over ``pika``: ``amqp://HOST:5672/VHOST?queue=NAME`` or
``?exchange=NAME&routing_key=KEY``. Each result is a message: its body is JSON, empty if the item has failed;
``message_id`` is ``RUN-SERIAL``, with ``-PART`` if the item has several values, and headers are ``run``, ``epoch``,
``serial``, ``part`` and ``error``.

Messages are published persistent, in order. The broker confirms them; unconfirmed ones are published again. The broker
can neither report the messages that it has nor exclude an epoch: consumers recognize duplicates by the id.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from compositions.errors import RecomposeError
from datapipe.brokers.rabbitmq.calls import ANSWER_S, NOT_FOUND, OTHERWISE, TOO_LARGE, address_of, fault, library
from datapipe.sinks.port import Gather, Row, Sent, line_of

WHO = "sink rabbitmq"
FORM = "amqp://HOST:5672/VHOST?queue=NAME, or ?exchange=NAME&routing_key=KEY"
PERSISTENT = 2


class RabbitSink:
    """Raises: RecomposeError for a URL without a queue or exchange, or if the library is missing."""

    gather = Gather(500, 0.0)

    def __init__(self, url: str, run: str, epoch: int) -> None:
        self._address = address_of(url, WHO, (("queue",), ("exchange", "routing_key")), FORM)
        named = self._address.named
        self._exchange = named.get("exchange", "")
        self._key = named.get("queue") or named["routing_key"]
        self._address.parameters.heartbeat = 0  # I/O happens only during a write, which has its own time limit
        self._pika, self._run, self._epoch = library(WHO), run, epoch
        self._connection: Any = None
        self._channel: Any = None
        self._answers = 0
        """Number of answers from the broker."""
        self._lost: BaseException | None = None
        self._tag = 0
        """Delivery tag of the last published message."""
        self._under_way: dict[int, Row] = {}
        """Published rows without a confirmation, by delivery tag."""
        self._sent = Sent()

    def begin(self, next_serial: int, known: int) -> int:
        self._connect()
        self._sent.all_before(known)
        return known

    def write(self, until: int, rows: Sequence[Row]) -> None:
        try:
            if self._channel is None or not self._channel.is_open or self._lost is not None:
                self._connect()
            for row in self._sent.missing(rows):
                self._publish(row)
            while self._under_way:
                self._wait(partial(self._fewer_than, len(self._under_way)))
        except OSError as error:
            self._leave()
            raise OSError(f"{WHO} cannot be written: {error}") from error
        self._sent.all_before(until)

    def close(self) -> None:
        self._leave()

    def _connect(self) -> None:
        self._leave()
        called = {"on_open_callback": self._answered, "on_open_error_callback": self._gone}
        loop = {"on_close_callback": self._gone, "custom_ioloop": self._pika.adapters.select_connection.IOLoop()}
        self._connection = self._pika.SelectConnection(self._address.parameters, **called, **loop)
        self._wait(lambda: self._connection.is_open, 2 * ANSWER_S)
        try:
            self._open(passive=True)
        except LookupError as error:  # a wrong request closes the channel
            if self._exchange:
                raise RecomposeError(f"{WHO}: rabbitmq has no exchange {self._exchange!r}: {error}") from error
            self._lost = None
            self._open(passive=False)

    def _open(self, *, passive: bool) -> None:
        """Open a channel, and check the queue or exchange. Raises: LookupError if it does not exist."""
        self._tag, self._under_way = 0, {}
        self._channel = self._connection.channel(on_open_callback=self._answered)
        self._channel.add_on_close_callback(self._gone)
        self._channel.add_on_return_callback(self._returned)
        self._wait(lambda: self._channel.is_open)
        if self._exchange:
            self._ask(lambda answer: self._channel.exchange_declare(self._exchange, passive=True, callback=answer))
        else:
            how = {"passive": passive, "durable": True}
            self._ask(lambda answer: self._channel.queue_declare(self._key, callback=answer, **how))
        self._ask(lambda answer: self._channel.confirm_delivery(self._confirmed, callback=answer))

    def _publish(self, row: Row) -> None:
        told = {"run": self._run, "epoch": self._epoch, "serial": row.serial, "part": row.part}
        told["error"] = None if row.error is None else line_of(row.error)
        part = "" if row.part is None else f"-{row.part}"
        properties = self._pika.BasicProperties(
            content_type="application/json",
            delivery_mode=PERSISTENT,
            message_id=f"{self._run}-{row.serial}{part}",
            headers={name: value for name, value in told.items() if value is not None},
        )
        try:
            body = (row.value or "").encode()
            self._channel.basic_publish(self._exchange, self._key, body, properties, mandatory=True)
        except self._pika.exceptions.AMQPError as error:
            raise fault(WHO, error) from error
        self._tag += 1
        self._under_way[self._tag] = row

    def _ask(self, question: Callable[[Callable[[Any], None]], object]) -> None:
        before = self._answers
        question(self._answered)
        self._wait(lambda: self._answers > before)

    def _wait(self, what: Callable[[], object], wait_s: float = ANSWER_S) -> None:
        """Wait until ``what`` is true. Raises: the broker's error; OSError if it does not answer."""
        self._turn(lambda: what() or self._lost is not None, wait_s)
        if self._lost is not None:
            raise self._said(self._lost)
        if not what():
            raise OSError(f"{self._address.host} does not answer")

    def _turn(self, until: Callable[[], object], wait_s: float) -> None:
        """Run the connection until ``until`` is true or the time is over."""
        loop, until_s = self._connection.ioloop, time.monotonic() + wait_s
        timer = loop.call_later(wait_s, loop.stop)
        while not until() and time.monotonic() < until_s:
            loop.start()
        loop.remove_timeout(timer)

    def _fewer_than(self, count: int) -> bool:
        return len(self._under_way) < count

    def _said(self, error: BaseException) -> Exception:
        code = getattr(error, "reply_code", None)
        if isinstance(error, RecomposeError | OSError):
            return error
        if code == NOT_FOUND:
            return LookupError(getattr(error, "reply_text", ""))
        if code in (OTHERWISE, TOO_LARGE):
            return RecomposeError(f"{WHO} is refused: {getattr(error, 'reply_text', '')}")
        return fault(WHO, error)

    def _leave(self) -> None:
        if self._connection is None:
            return
        if self._connection.is_open:
            self._connection.close()
        self._turn(lambda: self._connection.is_closed, ANSWER_S)
        self._connection.ioloop.close()
        self._connection = self._channel = self._lost = None

    # --- called by the library --------------------------------------------------------------------------------------

    def _answered(self, *_: Any) -> None:
        self._answers += 1
        self._connection.ioloop.stop()

    def _gone(self, _: Any, error: BaseException) -> None:
        self._lost = self._lost or error
        self._connection.ioloop.stop()

    def _returned(self, _: Any, method: Any, __: Any, ___: Any) -> None:
        self._gone(_, RecomposeError(f"{WHO}: no queue is bound to key {self._key!r}: {method.reply_text}"))

    def _confirmed(self, frame: Any) -> None:
        """Take a confirmation of one message, or of all up to it."""
        last = frame.method.delivery_tag
        tags = [tag for tag in self._under_way if tag <= last] if frame.method.multiple else [last]
        rows = [self._under_way.pop(tag) for tag in tags if tag in self._under_way]
        if frame.method.NAME.endswith("Nack"):
            self._gone(None, OSError("the broker could not accept all messages"))
        else:
            for row in rows:
                self._sent.add(row)
        self._connection.ioloop.stop()
