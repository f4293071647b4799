"""A Kafka topic as a sink and as a source, against librdkafka's mock cluster: what that can show. It keeps no offsets
of transactions and shuts nobody out; for that the contract of sinks has a broker."""

import gc
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from compositions.errors import RecomposeError
from datapipe.brokers.kafka import sink as to_kafka
from datapipe.brokers.kafka.sink import KafkaSink
from datapipe.brokers.kafka.source import KafkaFeed
from datapipe.sink_kinds import KINDS, Opening
from datapipe.sinks.port import Row

kafka = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed; it is in extra kafka")


@pytest.fixture
def broker() -> Iterator[str]:
    producer = kafka.Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "none"})
    found = next(iter(producer.list_topics(timeout=10).brokers.values()))
    yield f"{found.host}:{found.port}"
    del producer
    gc.collect()


@pytest.fixture
def sink(broker: str) -> Iterator[KafkaSink]:
    made = KafkaSink(f"kafka://{broker}/results", "r", 1, {})
    assert made.begin(0, 0) == 0
    yield made
    made.close()


def messages(broker: str, count: int) -> list[Any]:
    consumer = kafka.Consumer({"bootstrap.servers": broker, "group.id": "reader", "auto.offset.reset": "earliest"})
    consumer.assign([kafka.TopicPartition("results", each, kafka.OFFSET_BEGINNING) for each in range(4)])
    found: list[Any] = []
    while len(found) < count:
        found += consumer.consume(count, 1.0)
    consumer.close()
    return found


def fails(sink: KafkaSink, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    error = kafka.KafkaException(kafka.KafkaError(code))
    monkeypatch.setattr(sink, "_commit", MagicMock(side_effect=error))


def test_results_of_a_run_are_in_one_partition_in_order_with_what_they_are(broker: str, sink: KafkaSink) -> None:
    rows = [Row(0, None, '"ä"', None), Row(1, 0, "1", None), Row(1, 1, "2", None), Row(2, None, None, "it broke")]
    sink.write(3, rows)
    sink.write(3, rows)
    found = messages(broker, 4)
    assert [each.value() for each in found] == ['"ä"'.encode(), b"1", b"2", None]
    assert {each.key() for each in found} == {b"r"}
    assert len({each.partition() for each in found}) == 1
    assert dict(found[2].headers()) == {"run": b"r", "serial": b"1", "part": b"1"}
    assert dict(found[3].headers()) == {"run": b"r", "serial": b"2", "error": b"it broke"}


def test_more_than_the_librarys_queue_takes_goes_out_in_order(broker: str) -> None:
    small = KafkaSink(f"kafka://{broker}/results", "r", 1, {"queue.buffering.max.kbytes": 4, "linger.ms": 0})
    small.begin(0, 0)
    small.write(20, [Row(serial, None, f"{serial}".rjust(1000), None) for serial in range(20)])
    small.close()
    assert [int(each.value()) for each in messages(broker, 20)] == list(range(20))


def test_a_write_that_failed_is_looked_up_before_the_next_try(sink: KafkaSink, monkeypatch: pytest.MonkeyPatch) -> None:
    fails(sink, monkeypatch, kafka.KafkaError._TIMED_OUT)
    with pytest.raises(OSError, match="sink kafka cannot be written"):
        sink.write(2, [Row(0, None, "1", None), Row(1, None, "1", None)])
    committed: list[int] = []
    monkeypatch.setattr(sink, "_look", lambda: 2)  # it was done, and its answer was lost
    monkeypatch.setattr(sink, "_commit", lambda until, rows: committed.append(until))
    sink.write(2, [Row(0, None, "1", None), Row(1, None, "1", None)])
    sink.write(3, [Row(2, None, "1", None)])
    assert committed == [3]


@pytest.mark.parametrize("code", ["TOPIC_AUTHORIZATION_FAILED", "MSG_SIZE_TOO_LARGE"])
def test_a_broker_that_never_takes_it_ends_the_run(sink: KafkaSink, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    fails(sink, monkeypatch, getattr(kafka.KafkaError, code))
    with pytest.raises(RecomposeError, match="sink kafka cannot be written"):
        sink.write(1, [Row(0, None, "1", None)])


def test_who_is_shut_out_looks_whether_another_epoch_goes_on(sink: KafkaSink, monkeypatch: pytest.MonkeyPatch) -> None:
    fails(sink, monkeypatch, kafka.KafkaError._FENCED)
    with pytest.raises(OSError, match="sink kafka cannot be written"):  # by itself: it took too long
        sink.write(1, [Row(0, None, "1", None)])
    mark = kafka.TopicPartition("results", 0, 5, metadata="2")
    marks = SimpleNamespace(committed=lambda *_: [mark], close=sink._marks.close)
    monkeypatch.setattr(sink, "_marks", marks)
    with pytest.raises(RecomposeError, match="another runner has taken over run r; this one may not write any"):
        sink.write(1, [Row(0, None, "1", None)])


def test_a_broker_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(to_kafka, "ANSWER_S", 0.2)
    sink = KafkaSink("kafka://127.0.0.1:1/results", "r", 1, {"log_level": 0})
    with pytest.raises(OSError, match="sink kafka cannot be written"):
        sink.begin(0, 0)
    sink.close()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"transactional.id": "mine"}, "option 'transactional.id' is set by sink kafka itself"),
        ({"no.such": 1}, "sink kafka refuses its options"),
    ],
)
def test_options_that_do_not_go_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(RecomposeError, match=said):
        KINDS["kafka"].open(Opening("kafka://h:9092/a", "r", 1, options))


def test_options_that_do_not_go_with_transactions_end_the_run() -> None:
    sink = KafkaSink("kafka://127.0.0.1:1/results", "r", 1, {"log_level": 0, "acks": "1"})
    with pytest.raises(RecomposeError, match="`acks` must be set to `all`"):
        sink.begin(0, 0)
    sink.close()


# --- a topic as a source: what a broker that is not well leads to -----------------------------------------------------


@pytest.fixture
def feed(broker: str) -> Iterator[KafkaFeed]:
    producer = kafka.Producer({"bootstrap.servers": broker})
    producer.produce("numbers", b"0", partition=0)
    assert producer.flush(10) == 0
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
    with pytest.raises(OSError, match="has no topic 'numbers' at present"):
        feed.seek({})


def test_a_position_that_is_gone_is_told(feed: KafkaFeed) -> None:
    feed.seek({"0": 99})
    with pytest.raises(RecomposeError, match="no longer has the next messages"):
        [feed.poll(1, 0.2) for _ in range(50)]
