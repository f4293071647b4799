"""From one Kafka topic to another: ours against a plain loop over ``confluent-kafka``, in the same run.

``python -m benchmarks.kafka_to_kafka [--items N] [--broker HOST:PORT]``. Each message is JSON, gets a field, and is
written to another topic. The plain loop consumes, changes and produces in one thread; it keeps no offsets and has no
transactions. Ours has the source, bundles of 512, a stage and the sink, whose writes are transactions; its start and
end are in its rate. CPU time is that of all threads of this process, librdkafka's among them. Without a broker both
use librdkafka's mock cluster, in a process of its own, which keeps the newest 5 MB of a partition alone.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from apps import registry
from apps.contract import App
from benchmarks.harness import metadata
from compositions.model import Stage
from service.bodies.spec import BatchingSpec, RunSpec, SinkSpec, SourceSpec
from service.running.asking.requests import ReadStatus, Start
from service.running.run_id import new_run
from service.running.runner import Runner

BUNDLE = 512
PATIENCE_S = 300.0
KINDS: dict[str, dict[str, Any]] = {
    "ours": {},
    "ours, exactly-once": {"durability": "exactly-once"},
}


class Cost(NamedTuple):
    """Of one round, in seconds."""

    took_s: float
    cpu_s: float


def cost_of(round_: Callable[[], float]) -> Cost:
    before_s = time.process_time()
    took_s = round_()
    return Cost(took_s, time.process_time() - before_s)


def changed(value: dict[str, Any]) -> dict[str, Any]:
    return {**value, "double": 2 * value["n"]}


class Doubled(App):
    """What the plain loop does."""

    name = "doubled"
    stages = (Stage("change"),)

    def from_json(self, value: Any) -> Any:
        return value

    def change(self, value: Any) -> Any:
        return changed(value)


def mock_cluster(told: Connection) -> None:
    """Lives until it is told to end."""
    import confluent_kafka

    producer = confluent_kafka.Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "none"})
    broker = next(iter(producer.list_topics(timeout=10).brokers.values()))
    told.send(f"{broker.host}:{broker.port}")
    told.recv()


@contextmanager
def broker_of(given: str | None) -> Iterator[str]:
    if given is not None:
        yield given
        return
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=mock_cluster, args=(theirs,))
    server.start()
    try:
        yield ours.recv()
    finally:
        ours.send("end")
        server.join()


def fill(broker: str, topic: str, items: int) -> None:
    import confluent_kafka

    producer = confluent_kafka.Producer({"bootstrap.servers": broker, "linger.ms": 20})
    for number in range(items):
        producer.produce(topic, json.dumps({"n": number, "name": f"item {number}"}).encode(), partition=0)
        if number % 10_000 == 0:
            producer.flush()
    assert producer.flush(60) == 0
    place = confluent_kafka.TopicPartition(topic, 0)
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker, "group.id": "look"})
    oldest, _ = consumer.get_watermark_offsets(place, 60)
    consumer.close()
    if oldest:  # else all would wait for them for ever
        raise SystemExit(f"the broker keeps no more than the last {items - oldest} of {items} items; give --items less")


def plain(broker: str, source: str, topic: str, items: int) -> float:
    import confluent_kafka

    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker, "group.id": "plain", "enable.auto.commit": False})
    producer = confluent_kafka.Producer({"bootstrap.servers": broker})
    began_s = time.monotonic()
    consumer.assign([confluent_kafka.TopicPartition(source, 0, confluent_kafka.OFFSET_BEGINNING)])
    done = 0
    while done < items:
        for message in consumer.consume(BUNDLE, 1.0):
            assert message.error() is None, message.error()
            body = json.dumps(changed(json.loads(message.value()))).encode()
            while True:
                try:
                    producer.produce(topic, body, partition=0)
                    break
                except BufferError:
                    producer.poll(0.01)
            done += 1
        producer.poll(0)
    assert producer.flush(60) == 0
    took_s = time.monotonic() - began_s
    consumer.close()
    return took_s


def ours(broker: str, source: str, topic: str, items: int, pool: Any, how: dict[str, Any]) -> float:
    with TemporaryDirectory() as folder:
        spec = RunSpec(
            app="doubled",
            run=new_run(),
            source=SourceSpec(kind="kafka", path=f"kafka://{broker}/{source}"),
            sink=SinkSpec(kind="kafka", path=f"kafka://{broker}/{topic}"),
            batching=BatchingSpec(items=BUNDLE),
            items=items,
            journals=folder,
            pool=pool,
            **how,
        )
        runner = Runner(spec)
        began_s = time.monotonic()
        runner.ask(Start())
        assert runner.wait(PATIENCE_S), runner.ask(ReadStatus())
        took_s = time.monotonic() - began_s
        status = runner.ask(ReadStatus())
        assert (status.failure, status.items.delivered) == (None, items), status
        return took_s


def main(args: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--broker", help="HOST:PORT; none: librdkafka's mock cluster")
    parser.add_argument("--pool", choices=("local", "ray"), default="local")
    asked = parser.parse_args(args)
    registry.create = lambda *_: Doubled()  # type: ignore[assignment]  # the app of this measurement alone
    measured: dict[str, list[Cost]] = {kind: [] for kind in ("plain", *KINDS)}
    print(json.dumps(metadata()))
    with broker_of(asked.broker) as broker:
        name = new_run()
        fill(broker, f"in-{name}", asked.items)
        for number in range(asked.rounds):
            given = broker, f"in-{name}"
            topics = {kind: f"{kind.split()[-1]}-{name}-{number}" for kind in measured}
            measured["plain"].append(cost_of(partial(plain, *given, topics["plain"], asked.items)))
            for kind, how in KINDS.items():
                round_ = partial(ours, *given, topics[kind], asked.items, asked.pool, how)
                measured[kind].append(cost_of(round_))
    for kind, costs in measured.items():
        share = statistics.median(a.took_s / b.took_s for a, b in zip(measured["plain"], costs, strict=True))
        rate = asked.items / statistics.median(each.took_s for each in costs)
        cpu_us = statistics.median(each.cpu_s for each in costs) / asked.items * 1e6
        print(f"{kind:20} {rate:9,.0f} items/s, {share:5.2f} of plain; {cpu_us:5.1f} µs of CPU an item")


if __name__ == "__main__":
    main()
