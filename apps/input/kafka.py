"""A Kafka topic, over ``confluent-kafka``: ``kafka://HOST:9092/TOPIC``. A message's value is the item.

All partitions of the topic are this app's: they are assigned, not shared out by the broker, as their offsets are kept
with the run and nobody else may move them. Partitions that are added later are noticed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from apps.input.fed import Message, without_user
from apps.input.positions import Position
from compositions.errors import RecomposeError

PARTITIONS_EVERY_S = 5.0
ANSWER_S = 5.0
GROUP = "recompose"


class KafkaFeed:
    """``settings``: of librdkafka; with a ``group.id`` the offsets of what is done are told to the broker, for whoever
    watches the lag. Raises: RecomposeError for a URL without a topic, settings that it refuses, or where the library is
    missing."""

    def __init__(self, url: str, settings: Mapping[str, Any]) -> None:
        parts = urlsplit(url)
        self._topic = parts.path.strip("/")
        if not parts.netloc or not self._topic:
            raise RecomposeError(f"{without_user(url)!r} names no broker and topic; give kafka://HOST:9092/TOPIC")
        try:
            import confluent_kafka
        except ModuleNotFoundError as error:
            raise RecomposeError("source kafka needs confluent-kafka: pip install 'recompose[kafka]'") from error
        self._kafka: Any = confluent_kafka
        self._tells = "group.id" in settings
        own = {"bootstrap.servers": parts.netloc, "enable.auto.commit": False, "group.id": GROUP}
        try:
            self._consumer = confluent_kafka.Consumer({"auto.offset.reset": "earliest", **own, **settings})
        except confluent_kafka.KafkaException as error:
            raise RecomposeError(f"source kafka refuses its options: {error}") from error
        self._assigned: set[int] = set()
        self._look_at_s = 0.0
        self.ended = False

    def seek(self, positions: Mapping[str, Position]) -> None:
        self._assigned = set()
        self._consumer.unassign()
        self._assign(positions)

    def poll(self, most: int, wait_s: float) -> Sequence[Message]:
        if time.monotonic() >= self._look_at_s:
            self._assign({})
        messages = self._consumer.consume(most, wait_s)
        found = []
        for message in messages:
            if message.error() is None:
                found.append(Message(str(message.partition()), message.offset() + 1, message.value() or b"null"))
            elif message.error().fatal():
                raise RecomposeError(f"kafka: {message.error().str()}")
            elif not found:
                raise OSError(f"kafka does not answer: {message.error().str()}")
        return found

    def commit(self, positions: Mapping[str, Position]) -> None:
        if self._tells:
            self._consumer.commit(offsets=[self._place(int(p), o) for p, o in positions.items()], asynchronous=True)

    def close(self) -> None:
        self._consumer.close()

    def _assign(self, positions: Mapping[str, Position]) -> None:
        """Partitions that are not assigned yet."""
        try:
            topic = self._consumer.list_topics(self._topic, timeout=ANSWER_S).topics[self._topic]
        except self._kafka.KafkaException as error:
            raise OSError(f"kafka does not answer: {error}") from error
        new = sorted(set(topic.partitions) - self._assigned)
        begin = self._kafka.OFFSET_BEGINNING
        if new:
            self._consumer.incremental_assign([self._place(each, positions.get(str(each), begin)) for each in new])
        self._assigned |= set(new)
        self._look_at_s = time.monotonic() + PARTITIONS_EVERY_S

    def _place(self, partition: int, offset: Position) -> Any:
        return self._kafka.TopicPartition(self._topic, partition, offset)
