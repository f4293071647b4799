"""A Kafka topic as a source, against librdkafka's mock cluster: what a broker that is not well leads to."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from compositions.errors import RecomposeError
from datapipe.brokers.kafka.source import KafkaFeed

kafka = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed; it is in extra kafka")


@pytest.fixture
def broker() -> Iterator[str]:
    producer = kafka.Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "none"})
    found = next(iter(producer.list_topics(timeout=10).brokers.values()))
    producer.produce("numbers", b"0", partition=0)
    assert producer.flush(10) == 0
    yield f"{found.host}:{found.port}"
    del producer
    gc.collect()


@pytest.fixture
def feed(broker: str) -> Iterator[KafkaFeed]:
    made = KafkaFeed(f"kafka://{broker}/numbers", {})
    yield made
    made.close()


def seen(feed: KafkaFeed, monkeypatch: pytest.MonkeyPatch, partitions: list[int], error: Any = None) -> list[Any]:
    """What is assigned, where the broker tells of these partitions."""
    assigned: list[Any] = []
    topic = SimpleNamespace(partitions=dict.fromkeys(partitions), error=error)
    consumer = SimpleNamespace(
        list_topics=lambda *_, **__: SimpleNamespace(topics={"numbers": topic}),
        incremental_assign=assigned.extend,
        unassign=lambda: None,
        consume=lambda *_: [],
        close=feed._consumer.close,
    )
    monkeypatch.setattr(feed, "_consumer", consumer)
    return assigned


def test_a_partition_that_is_seen_later_goes_on_where_it_was(feed: KafkaFeed, monkeypatch: pytest.MonkeyPatch) -> None:
    seen(feed, monkeypatch, [0])
    feed.seek({"0": 3, "1": 5})
    feed._look_at_s = 0.0
    assigned = seen(feed, monkeypatch, [0, 1])
    feed.poll(1, 0.0)
    assert [(place.partition, place.offset) for place in assigned] == [(1, 5)]


def test_a_topic_that_is_not_there_is_told(feed: KafkaFeed, monkeypatch: pytest.MonkeyPatch) -> None:
    seen(feed, monkeypatch, [], kafka.KafkaError(kafka.KafkaError.UNKNOWN_TOPIC_OR_PART))
    with pytest.raises(OSError, match="does not have topic 'numbers' now"):
        feed.seek({})


def test_a_position_that_is_gone_is_told(feed: KafkaFeed) -> None:
    feed.seek({"0": 99})
    with pytest.raises(RecomposeError, match="no longer what comes next"):
        polled(feed, 50)


def polled(feed: KafkaFeed, times: int) -> None:
    for _ in range(times):
        feed.poll(1, 0.2)
