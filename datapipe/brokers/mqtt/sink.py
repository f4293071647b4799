"""A topic of MQTT 5, over ``paho-mqtt``: ``mqtt://HOST:1883/TOPIC``. Each result is a message: its payload is JSON,
empty if the item has failed; user properties are ``run``, ``epoch``, ``serial``, ``part`` and ``error``.

Messages are published with quality of service 1, in order; unacknowledged ones are published again. A broker can
neither report the messages that it has nor exclude an epoch: subscribers recognize duplicates by the properties.
"""

from collections.abc import Sequence
from typing import Any

from compositions.errors import RecomposeError
from datapipe.brokers.mqtt.calls import Line, Session, address_of
from datapipe.sinks.port import Gather, Row, Sent, line_of

WHO = "sink mqtt"
TEXT = b"\x01\x01"
"""Payload format indicator: UTF-8 (MQTT 5, 3.3.2.3.2)."""


class Packed:
    """Packed properties of a message, for the library, whose own class takes ten times as long to pack them."""

    __slots__ = ("_body",)

    def __init__(self, body: bytes) -> None:
        self._body = body

    def pack(self) -> bytes:
        return length_of(len(self._body)) + self._body


def length_of(count: int) -> bytes:
    """Encode a variable byte integer (MQTT 5, 1.5.5)."""
    digits = bytearray()
    while count > 127:
        digits.append(count & 127 | 128)
        count >>= 7
    return bytes((*digits, count))


def user_property(name: str, value: object) -> bytes:
    """Encode a user property: two strings (MQTT 5, 3.3.2.3.7)."""
    key, text = name.encode(), line_of(str(value)).encode()
    return b"\x26%b%b%b%b" % (len(key).to_bytes(2, "big"), key, len(text).to_bytes(2, "big"), text)


class MqttSink:
    """Raises: RecomposeError for a URL without a topic or with wildcards, or if the library is missing."""

    gather = Gather(500, 0.0)

    def __init__(self, url: str, run: str, epoch: int) -> None:
        address = address_of(url, WHO)
        if {"+", "#"} & set(address.topic):
            raise RecomposeError(f"{WHO} cannot write to {address.topic!r}: only readers may have + and # in a topic")
        self._topic, self._line = address.topic, Line(address, WHO)
        self._run, self._epoch = run, epoch
        self._head = TEXT + user_property("run", run) + user_property("epoch", epoch)
        """The packed properties that all messages share."""
        self._sent = Sent()
        self._under_way: dict[int, Row] = {}
        """Published rows without an acknowledgement, by packet identifier, in order."""
        self._refused: OSError | RecomposeError | None = None

    def begin(self, next_serial: int, known: int) -> int:
        self._connect()
        self._sent.all_before(known)
        return known

    def write(self, until: int, rows: Sequence[Row]) -> None:
        if not self._line.is_up:
            self._connect()
        try:
            for row in self._sent.missing(rows):
                self._publish(row)
            while self._under_way:
                self._one_less()
        except OSError as error:
            raise OSError(f"{WHO} cannot be written: {error}") from error
        self._sent.all_before(until)

    def close(self) -> None:
        self._line.close()

    def _connect(self) -> None:
        self._under_way.clear()
        self._refused = None
        self._line.connect(Session(f"recompose-{self._run}-{self._epoch}-sink", 0, 1), self._set_up)

    def _publish(self, row: Row) -> None:
        while len(self._under_way) >= self._line.most_in_flight:
            self._one_less()
        said = self._line.client.publish(self._topic, row.value or "", qos=1, properties=self._told(row))
        if said.rc != 0:
            self._line.move(0.0)
            raise OSError("the connection was lost")
        self._under_way[said.mid] = row

    def _one_less(self) -> None:
        """Wait until one more message is acknowledged. Raises: the error if the broker refuses one."""
        before = len(self._under_way)
        self._line.wait(lambda: len(self._under_way) < before or self._refused)
        if self._refused is not None:
            raise self._refused

    def _told(self, row: Row) -> Packed:
        body = self._head + user_property("serial", row.serial)
        if row.part is not None:
            body += user_property("part", row.part)
        return Packed(body if row.error is None else body + user_property("error", row.error))

    # --- called by the library --------------------------------------------------------------------------------------

    def _set_up(self, client: Any) -> None:
        client.on_publish = self._published

    def _published(self, _: Any, __: Any, packet: int, reason: Any, ___: Any) -> None:
        if reason.is_failure:
            self._refused = self._refused or self._line.fault(f"the broker refuses topic {self._topic!r}", reason)
        elif self._refused is None and (row := self._under_way.pop(packet, None)) is not None:
            self._sent.add(row)
