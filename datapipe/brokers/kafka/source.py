"""A Kafka topic, over ``confluent-kafka``: ``kafka://HOST:9092/TOPIC``. A message's value is the item.

The app reads all partitions of the topic. They are assigned statically, not balanced by the broker, as their offsets
are stored with the run and no other consumer may move them. Partitions that are added later are noticed.
"""

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from compositions.errors import RecomposeError
from compositions.wording import without_user
from datapipe.brokers.opening import library, parts_of
from datapipe.sources.fed import Message
from datapipe.sources.portions import Position

PARTITIONS_EVERY_S = 5.0
ANSWER_S = 5.0
GROUP = "recompose"
_message = partial(tuple.__new__, Message)
"""Makes a message in a third of the time of a call of the class."""


class KafkaFeed:
    """``settings``: of librdkafka; with a ``group.id`` the offsets of what is done are told to the broker, for whoever
    watches the lag. Raises: RecomposeError for a URL without a topic, settings that it refuses, or where the library is
    missing."""

    def __init__(self, url: str, settings: Mapping[str, Any]) -> None:
        parts = parts_of(url, "source kafka", "kafka://HOST:9092/TOPIC", one_port=False)
        self._topic = parts.path.strip("/")
        if "@" in parts.netloc:
            give = "give kafka://HOST:9092/TOPIC, and sasl.username and sasl.password as options"
            raise RecomposeError(f"the path of source kafka has a user in it; {give}")
        if not parts.netloc or not self._topic:
            raise RecomposeError(f"{without_user(url)!r} names no broker and topic; give kafka://HOST:9092/TOPIC")
        self._kafka = library("confluent_kafka", "source kafka", "confluent-kafka", "kafka")
        self._tells = "group.id" in settings
        own = {"enable.metrics.push": False, "enable.auto.commit": False, "group.id": GROUP}
        place = {"bootstrap.servers": parts.netloc, "auto.offset.reset": "error"}
        try:
            self._consumer = self._kafka.Consumer({**place, **own, **settings})
        except self._kafka.KafkaException as error:
            raise RecomposeError(f"source kafka refuses its options: {error}") from error
        self._assigned: set[int] = set()
        self._names: dict[int, str] = {}
        """Names of the partitions in positions."""
        self._positions: Mapping[str, Position] = {}
        """Start positions of partitions that have not been assigned yet."""
        self._look_at_s = 0.0
        self.ended = False

    def seek(self, positions: Mapping[str, Position]) -> None:
        self._assigned, self._positions = set(), dict(positions)
        self._consumer.unassign()
        self._assign()

    def poll(self, most: int, wait_s: float) -> Sequence[Message]:
        if time.monotonic() >= self._look_at_s:
            self._assign()
        found: list[Message] = []
        for message in self._consumer.consume(most, wait_s):
            if message.error() is None:
                partition = self._names[message.partition()]
                found.append(_message((partition, message.offset() + 1, message.value() or b"null")))
            elif message.error().code() == self._kafka.KafkaError._AUTO_OFFSET_RESET:
                raise RecomposeError(f"kafka no longer has the next messages: {message.error().str()}; start a new run")
            elif message.error().fatal():
                raise RecomposeError(f"kafka reports a fatal error: {message.error().str()}")
            elif not found:
                raise OSError(f"kafka does not answer: {message.error().str()}")
        return found

    def commit(self, positions: Mapping[str, Position]) -> None:
        if self._tells:
            try:
                places = [self._place(int(partition), offset) for partition, offset in positions.items()]
                self._consumer.commit(offsets=places, asynchronous=True)
            except self._kafka.KafkaException as error:
                raise OSError(f"kafka did not store the offsets of processed messages: {error}") from error

    def close(self) -> None:
        self._consumer.close()

    def _assign(self) -> None:
        """Assign partitions that are not assigned yet."""
        try:
            topic = self._consumer.list_topics(self._topic, timeout=ANSWER_S).topics[self._topic]
            if topic.error is not None:
                raise OSError(f"kafka has no topic {self._topic!r} at present: {topic.error.str()}")
            new, begin = sorted(set(topic.partitions) - self._assigned), self._kafka.OFFSET_BEGINNING
            if new:
                places = [self._place(each, self._positions.get(str(each), begin)) for each in new]
                self._consumer.incremental_assign(places)
        except self._kafka.KafkaException as error:
            raise OSError(f"kafka does not answer: {error}") from error
        self._assigned |= set(new)
        self._names |= {each: str(each) for each in new}
        self._look_at_s = time.monotonic() + PARTITIONS_EVERY_S

    def _place(self, partition: int, offset: Position) -> Any:
        return self._kafka.TopicPartition(self._topic, partition, offset)
