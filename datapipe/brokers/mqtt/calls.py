"""Calls that source and sink of MQTT share: a connection over ``paho-mqtt`` that does I/O only when its owner asks.

Without the library's own thread no locks are needed. Without its automatic reconnects, the owner knows which messages
were lost with a connection.
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import unquote

from compositions.errors import RecomposeError
from datapipe.brokers.opening import library, parts_of

ANSWER_S = 5.0
KEEPALIVE_S = 30
PORTS = {"mqtt": 1883, "mqtts": 8883}
NEVER = frozenset({130, 132, 133, 134, 135, 138, 140, 143, 144, 149, 153, 155})
"""Reason codes (MQTT 5, 2.4) that a retry would get again: protocol, name, password, rights, topic, size."""
TAKEN_OVER = 142


class Address(NamedTuple):
    host: str
    port: int
    user: str | None
    password: str | None
    secure: bool
    topic: str


def address_of(url: str, who: str) -> Address:
    """``mqtt://[USER:PASSWORD@]HOST[:PORT]/TOPIC``, ``mqtts`` over TLS. A ``#`` in it is MQTT's, not a fragment.
    ``who``: of sentences. Raises: RecomposeError."""
    form = "mqtt://HOST:1883/TOPIC"
    parts = parts_of(url.replace("#", "%23"), who, form)
    topic = unquote(parts.path[1:])
    if parts.scheme not in PORTS or not parts.hostname or not topic:
        raise RecomposeError(f"the path of {who} names no broker and topic; give {form}")
    if parts.query:
        name = parts.query.partition("=")[0]
        raise RecomposeError(f"the path of {who} has a parameter {name!r}; none is accepted")
    user, password = (None if each is None else unquote(each) for each in (parts.username, parts.password))
    return Address(parts.hostname, parts.port or PORTS[parts.scheme], user, password, parts.scheme == "mqtts", topic)


class Session(NamedTuple):
    client_id: str
    kept_s: int
    """Time for which the broker keeps the session without a connection; 0: not at all."""
    most_waiting: int
    """Maximum number of unacknowledged messages from the broker."""


class Line:
    """A connection. Each method raises OSError if the broker does not answer now, RecomposeError if it never will."""

    def __init__(self, address: Address, who: str) -> None:
        self._address, self._who = address, who
        self._mqtt = library("paho.mqtt.client", who, "paho-mqtt", "mqtt")
        self._lost: OSError | RecomposeError | None = None
        self.session_present = False
        """True if the broker still had the session."""
        self.most_in_flight = 65_535
        """Maximum number of messages that the broker has not acknowledged."""
        self.client: Any = None

    def connect(self, session: Session, set_up: Callable[[Any], None]) -> None:
        """Connect. ``set_up`` is called with the client before it connects."""
        from paho.mqtt.packettypes import PacketTypes
        from paho.mqtt.properties import Properties

        self.close()
        how = {"protocol": self._mqtt.MQTTv5, "manual_ack": True, "reconnect_on_failure": False}
        self.client = self._mqtt.Client(self._mqtt.CallbackAPIVersion.VERSION2, session.client_id, **how)
        if self._address.user is not None:
            self.client.username_pw_set(self._address.user, self._address.password)
        if self._address.secure:
            self.client.tls_set()
        self.client.connect_timeout = ANSWER_S
        self.client.max_inflight_messages_set(0)  # no limit: the owner observes the broker's
        self.client.on_connect, self.client.on_disconnect = self._connected, self._disconnected
        set_up(self.client)
        asked = Properties(PacketTypes.CONNECT)
        asked.SessionExpiryInterval, asked.ReceiveMaximum = session.kept_s, session.most_waiting
        self._lost, self._is_up = None, False
        where = self._address.host, self._address.port, KEEPALIVE_S
        try:
            self.client.connect(*where, clean_start=session.kept_s == 0, properties=asked)
        except OSError as error:
            raise OSError(f"{self._who} cannot connect to {self._address.host}: {error}") from error
        self.wait(lambda: self._is_up)

    def wait(self, what: Callable[[], object]) -> None:
        """Wait until ``what`` is true. Raises: as all methods; OSError also after ``ANSWER_S``."""
        until_s = time.monotonic() + ANSWER_S
        while not what():
            self.move(until_s - time.monotonic())
            if time.monotonic() >= until_s and not what():
                raise OSError(f"{self._who}: {self._address.host} does not answer")

    def move(self, wait_s: float) -> None:
        """Receive one packet, if one comes within ``wait_s``, and send waiting data."""
        if self._lost is None:
            self.client.loop(max(0.0, wait_s))
        if self._lost is not None:
            raise self._lost

    @property
    def is_up(self) -> bool:
        return self.client is not None and self._lost is None and bool(self.client.is_connected())

    def close(self) -> None:
        if self.client is not None:
            self.client.on_disconnect = None
            self.client.disconnect()
            self.client = None

    def fault(self, what: str, reason: Any) -> OSError | RecomposeError:
        """Return the error for a reason code that means a refusal."""
        return (RecomposeError if reason.value in NEVER else OSError)(f"{self._who}: {what}: {reason}")

    # --- called by the library --------------------------------------------------------------------------------------

    def _connected(self, _: Any, __: Any, flags: Any, reason: Any, told: Any) -> None:
        if reason.is_failure:
            self._lost = self.fault(f"{self._address.host} refuses the connection", reason)
            return
        self._is_up, self.session_present = True, bool(flags.session_present)
        self.most_in_flight = getattr(told, "ReceiveMaximum", 65_535)

    def _disconnected(self, _: Any, __: Any, ___: Any, reason: Any, ____: Any) -> None:
        if self._lost is None and reason.value == TAKEN_OVER:
            self._lost = RecomposeError(f"{self._who}: another client with its client_id has taken over its session")
        elif self._lost is None:
            self._lost = self.fault(f"{self._address.host} has ended the connection", reason)
