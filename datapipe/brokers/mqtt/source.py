"""Topics of MQTT 5, over ``paho-mqtt``: ``mqtt://HOST:1883/TOPIC``, wildcards too. A message's payload is the item.

Messages are read with quality of service 1, in a persistent session, and acknowledged when they are stored. Quality 2
would be no better: the library acknowledges such a message before it passes it on.
"""

import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import structlog

from compositions.errors import RecomposeError
from datapipe.brokers.mqtt.calls import Line, Session, address_of
from datapipe.sources.fed import check_options, whole
from datapipe.sources.inbox import Letter

OPTIONS = ("client_id", "session_s", "prefetch")
SESSION_S = 86_400
PREFETCH = 512
MOST_SESSION_S, MOST_PREFETCH = 2**32 - 1, 65_535
"""Limits of the protocol."""
MOST_UNANSWERED = 10_000
"""Maximum number of waiting QoS 0 messages; more are dropped, as no broker holds such messages back."""
WHO = "source mqtt"
log = structlog.get_logger()


class MqttBox:
    """Options. ``client_id``: the session's client id (default: from the app's name). ``session_s``: time for which the
    broker keeps messages without a connection, in seconds. ``prefetch``: maximum of unacknowledged messages.

    Raises: RecomposeError for a URL without a topic, an unknown option, or where the library is missing.
    """

    def __init__(self, url: str, options: Mapping[str, Any], app: str) -> None:
        address = address_of(url, WHO)
        check_options(WHO, options, OPTIONS)
        self._session_s = whole(WHO, options, "session_s", SESSION_S, MOST_SESSION_S)
        self._prefetch = whole(WHO, options, "prefetch", PREFETCH, MOST_PREFETCH)
        self._client_id = options.get("client_id", f"recompose-{app}")
        if not isinstance(self._client_id, str) or not self._client_id:
            raise RecomposeError(f"option client_id of {WHO} is {self._client_id!r}; give a name that is unique")
        self._topic, self._line = address.topic, Line(address, WHO)
        self._came: deque[Letter] = deque()
        self._connections = 0
        self._granted: Any = None
        """The broker's answer to the subscription."""
        self._answered: dict[int, int] = {}
        """Stored messages by packet identifier, each with a hash, the latest last: after a broken connection, it is
        unknown whether their acknowledgements arrived."""
        self._recycles = False
        """True if the broker has reused an identifier as soon as it was acknowledged."""
        self._drops = False

    def open(self) -> None:
        from paho.mqtt.subscribeoptions import SubscribeOptions

        self._came.clear()
        self._connections += 1
        self._granted = None
        session = Session(self._client_id, self._session_s, self._prefetch)
        self._line.connect(session, self._set_up)
        if not self._line.session_present:
            self._answered.clear()
        topic = (self._topic, SubscribeOptions(qos=1, retainHandling=SubscribeOptions.RETAIN_SEND_IF_NEW_SUB))
        try:
            self._line.client.subscribe([topic])
        except ValueError as error:
            raise RecomposeError(f"{WHO} cannot read topic {self._topic!r}: {error}") from error
        self._line.wait(lambda: self._granted is not None)
        granted: Any = self._granted
        if granted.is_failure:
            raise self._line.fault(f"the broker refuses topic {self._topic!r}", granted)
        if granted.value == 0:
            log.warning("the broker grants QoS 0 only: messages in flight may be lost", source="mqtt")

    def poll(self, most: int, wait_s: float) -> Sequence[Letter]:
        until_s = time.monotonic() + wait_s
        self._line.move(0.0 if self._came else wait_s)
        while most and not self._came and (left_s := until_s - time.monotonic()) > 0:
            self._line.move(left_s)  # the last packet was another one
        before = 0
        while before < len(self._came) < most:
            before = len(self._came)
            self._line.move(0.0)
        return [self._came.popleft() for _ in range(min(most, len(self._came)))]

    def acknowledge(self, letters: Sequence[Letter]) -> None:
        for letter in letters:
            if letter.receipt is not None:
                self._answer(*letter.receipt)
        while len(self._answered) > self._prefetch:
            del self._answered[next(iter(self._answered))]

    def refuse(self, letter: Letter) -> None:
        self.acknowledge([letter])

    def close(self) -> None:
        self._line.close()

    # --- called by the library --------------------------------------------------------------------------------------

    def _set_up(self, client: Any) -> None:
        client.on_message, client.on_subscribe = self._message, self._subscribed

    def _subscribed(self, _: Any, __: Any, ___: Any, reasons: Sequence[Any], ____: Any) -> None:
        self._granted = reasons[0]

    def _message(self, _: Any, __: Any, message: Any) -> None:
        if message.qos == 0:
            self._take_unanswered(message)
            return
        packet, told_by = message.mid, hash((message.topic, message.payload))
        before = self._answered.pop(packet, None)
        if message.dup and before == told_by and not self._recycles:
            self._answer(self._connections, packet, told_by)
            return
        self._recycles |= before is not None and not message.dup
        self._came.append(Letter(message.topic, message.payload, (self._connections, packet, told_by)))

    def _take_unanswered(self, message: Any) -> None:
        dropped, self._drops = self._drops, len(self._came) >= MOST_UNANSWERED
        if not self._drops:
            self._came.append(Letter(message.topic, message.payload, None))
        elif not dropped:
            log.warning("QoS 0 messages arrive faster than the app accepts them; messages were dropped", source="mqtt")

    def _answer(self, connection: int, packet: int, told_by: int) -> None:
        self._answered[packet] = told_by
        if connection == self._connections and self._line.is_up:
            self._line.client.ack(packet, 1)
