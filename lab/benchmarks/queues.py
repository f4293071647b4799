"""Move messages from one topic of Kafka to another: ours against a plain loop over its library, in the same run.

    python -m lab.benchmarks.queues [--kafka HOST:PORT|mock] [--items N]

Each message is JSON, gets a field, and is written to another topic. The plain loop has one thread; it keeps no offsets
and has no transactions. Ours has the source, a stage and the sink, in bundles of 512; its start and end are in its
rate. CPU time is that of all threads of this process, librdkafka's among them.

Let the broker keep as many messages as there are items. ``mock`` takes librdkafka's mock cluster, in a process of its
own, which keeps the newest 5 MB of a partition.
"""

from __future__ import annotations

import json
import multiprocessing
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from tempfile import TemporaryDirectory
from typing import Annotated, Any

from apps import registry
from apps.contract import App
from compositions.model import Stage
from lab.benchmarks.harness import Rounds, Rows, main
from lab.experiments.runs import to_the_end
from service.schemas.spec import BatchingSpec, RunSpec, SinkSpec, SourceSpec, new_run

BUNDLE = 512
PATIENCE_S = 300.0
KINDS: dict[str, dict[str, Any]] = {
    "ours": {},
    "ours, restart": {"durability": "restart"},
    "ours, exactly-once": {"durability": "exactly-once"},
}


def changed(value: dict[str, Any]) -> dict[str, Any]:
    return {**value, "double": 2 * value["n"]}


class Doubled(App):
    """Change each value as the plain loop does."""

    name = "doubled"
    stages = (Stage("change"),)

    def from_json(self, value: Any) -> Any:
        return value

    def change(self, value: Any) -> Any:
        return changed(value)


def bodies(items: int) -> list[bytes]:
    return [json.dumps({"n": number, "name": f"item {number}"}).encode() for number in range(items)]


class Kafka:
    def __init__(self, address: str) -> None:
        self._address = address

    def path(self, place: str) -> str:
        return f"kafka://{self._address}/{place}"

    def _consumer(self) -> Any:
        import confluent_kafka

        return confluent_kafka.Consumer(
            {"bootstrap.servers": self._address, "group.id": "plain", "enable.auto.commit": False}
        )

    def _producer(self, **more: Any) -> Any:
        import confluent_kafka

        return confluent_kafka.Producer({"bootstrap.servers": self._address, **more})

    def fill(self, place: str, items: int) -> None:
        import confluent_kafka

        producer = self._producer(**{"linger.ms": 20})
        for number, body in enumerate(bodies(items)):
            producer.produce(place, body, partition=0)
            if number % 10_000 == 0:
                producer.flush()
        assert producer.flush(60) == 0
        consumer = self._consumer()
        oldest, _ = consumer.get_watermark_offsets(confluent_kafka.TopicPartition(place, 0), 60)
        consumer.close()
        if oldest:  # else all would wait for them for ever
            raise SystemExit(f"the broker keeps the last {items - oldest} of {items} items; give --items less")

    def plain(self, source: str, sink: str, items: int) -> float:
        import confluent_kafka

        consumer, producer = self._consumer(), self._producer()
        began_s = time.monotonic()
        consumer.assign([confluent_kafka.TopicPartition(source, 0, confluent_kafka.OFFSET_BEGINNING)])
        done = 0
        while done < items:
            for message in consumer.consume(BUNDLE, 1.0):
                assert message.error() is None, message.error()
                body = json.dumps(changed(json.loads(message.value()))).encode()
                while True:
                    try:
                        producer.produce(sink, body, partition=0)
                        break
                    except BufferError:
                        producer.poll(0.01)
                done += 1
            producer.poll(0)
        assert producer.flush(60) == 0
        took_s = time.monotonic() - began_s
        consumer.close()
        return took_s


def mock_cluster(told: Connection) -> None:
    """Live until told to end."""
    import confluent_kafka

    producer = confluent_kafka.Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "none"})
    broker = next(iter(producer.list_topics(timeout=10).brokers.values()))
    told.send(f"{broker.host}:{broker.port}")
    told.recv()


@contextmanager
def kafka_at(address: str) -> Iterator[str]:
    """Yield the address of a broker; ``mock`` starts one."""
    if address != "mock":
        yield address
        return
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=mock_cluster, args=(theirs,))
    server.start()
    try:
        yield ours.recv()
    finally:
        ours.send("end")
        server.join()


def ours(broker: Kafka, source: str, sink: str, items: int, how: dict[str, Any]) -> float:
    with TemporaryDirectory() as folder:
        spec = RunSpec(
            app="doubled", run=new_run(), batching=BatchingSpec(items=BUNDLE), items=items, journals=folder,
            source=SourceSpec(kind="kafka", path=broker.path(source)),
            sink=SinkSpec(kind="kafka", path=broker.path(sink)),
            pool="local", **how,
        )  # fmt: skip
        ended = to_the_end(spec, PATIENCE_S)
        assert ended.status.items.delivered == items, ended.status
        return ended.wall_s


def measure(
    kafka: Annotated[str, "HOST:PORT, or mock"] = "mock",
    items: int = 20_000,
    rounds: Rounds = 3,
) -> Iterator[Rows]:
    registry.create = lambda *_: Doubled()  # type: ignore[assignment]  # the app of this measurement alone
    with kafka_at(kafka) as address:
        yield compared(Kafka(address), items, rounds)


def compared(broker: Kafka, items: int, rounds: int) -> Rows:
    """Let the plain loop and our kinds of durability take turns."""
    took: dict[str, list[float]] = {kind: [] for kind in ("plain", *KINDS)}
    cpu: dict[str, list[float]] = {kind: [] for kind in took}
    for _ in range(rounds):
        for kind in took:
            source, sink = (f"{way}-{new_run()}" for way in ("in", "out"))
            broker.fill(source, items)
            given, before_s = (source, sink, items), time.process_time()
            took[kind].append(ours(broker, *given, KINDS[kind]) if kind in KINDS else broker.plain(*given))
            cpu[kind].append(time.process_time() - before_s)
    return Rows(f"Kafka to Kafka, {items} items, medians", [
        {
            "kind": kind, "items/s": items / statistics.median(each),
            "of plain": statistics.median(a / b for a, b in zip(took["plain"], each, strict=True)),
            "µs of CPU per item": statistics.median(cpu[kind]) / items * 1e6,
        } for kind, each in took.items()
    ])  # fmt: skip


if __name__ == "__main__":
    main(measure)
