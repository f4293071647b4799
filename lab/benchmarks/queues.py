"""Move messages from one queue to another: ours against a plain loop over the broker's library, in the same run.

    python -m lab.benchmarks.queues --rabbitmq HOST:PORT | --mqtt HOST:PORT | --kafka HOST:PORT|mock [--items N]

Each message is JSON, gets a field, and is written to another queue or topic. The plain loop has one thread. It
acknowledges what it has written, and waits for no confirmation of it; with MQTT there is one more, ``acknowledged``,
which acknowledges a message when the broker has acknowledged its result, as ours does. With Kafka it keeps no offsets
and has no transactions. Ours has the source, a stage and the sink; its start and end are in its rate, and with Kafka
bundles of 512. CPU time is that of all threads of this process, librdkafka's among them.

Let the broker keep as many messages as there are items (mosquitto: ``max_queued_messages 0``). ``--kafka mock`` takes
librdkafka's mock cluster, in a process of its own, which keeps the newest 5 MB of a partition.
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


class Rabbit:
    kind, loops, bundle = "rabbitmq", ("plain",), 1

    def __init__(self, address: str) -> None:
        self._address = address

    def path(self, place: str) -> str:
        return f"amqp://{self._address}/?queue={place}"

    def _connected(self) -> Any:
        import pika

        return pika.BlockingConnection(pika.URLParameters(f"amqp://{self._address}/"))

    def fill(self, place: str, items: int) -> None:
        connection = self._connected()
        channel = connection.channel()
        channel.queue_declare(place, durable=True)
        for body in bodies(items):
            channel.basic_publish("", place, body)
        connection.close()

    def plain(self, source: str, sink: str, items: int, loop: str) -> float:
        began_s = time.monotonic()
        connection = self._connected()
        channel = connection.channel()
        channel.queue_declare(sink, durable=True)
        channel.basic_qos(prefetch_count=512)
        for done, (delivered, _, body) in enumerate(channel.consume(source), 1):
            channel.basic_publish("", sink, json.dumps(changed(json.loads(body))).encode())
            channel.basic_ack(delivered.delivery_tag)
            if done == items:
                break
        took_s = time.monotonic() - began_s
        connection.close()
        return took_s


class Mqtt:
    kind, loops, bundle = "mqtt", ("plain", "plain, acknowledged"), 1

    def __init__(self, address: str) -> None:
        self._address = address
        self._host, _, self._port = address.partition(":")

    def path(self, place: str) -> str:
        return f"mqtt://{self._address}/{place}"

    def _session(self, place: str, own: str) -> Any:
        """Return the session of a reader, not connected yet."""
        import paho.mqtt.client as mqtt
        from paho.mqtt.packettypes import PacketTypes
        from paho.mqtt.properties import Properties

        client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, own, protocol=mqtt.MQTTv5)
        kept = Properties(PacketTypes.CONNECT)
        kept.SessionExpiryInterval = 3600
        client.on_connect = lambda *_: client.subscribe(place, qos=1)
        client.connect(self._host, int(self._port), clean_start=False, properties=kept)
        return client

    def fill(self, place: str, items: int) -> None:
        """Fill the session of its reader: ours is named after the app."""
        granted: list[object] = []
        reader = self._session(place, "recompose-doubled")
        reader.on_subscribe = lambda *_: granted.append(True)
        while not granted:
            reader.loop(0.1)
        reader.disconnect()
        writer = self._session("nothing", f"writer-{place}")
        writer.loop_start()
        for sent in [writer.publish(place, body, qos=1) for body in bodies(items)]:
            sent.wait_for_publish(PATIENCE_S)
        writer.disconnect()
        writer.loop_stop()

    def plain(self, source: str, sink: str, items: int, loop: str) -> float:
        done = 0
        of: dict[int, Any] = {}
        """The message that a result is of, by the result's number."""
        began_s = time.monotonic()
        client = self._session(source, "recompose-doubled")
        acknowledged = loop == "plain, acknowledged"
        client.manual_ack_set(acknowledged)

        def message(_: Any, __: Any, came: Any) -> None:
            nonlocal done
            sent = client.publish(sink, json.dumps(changed(json.loads(came.payload))), qos=1)
            if acknowledged:
                of[sent.mid] = came
            else:
                done += 1

        def published(_: Any, __: Any, number: int, *___: Any) -> None:
            nonlocal done
            if acknowledged:
                came = of.pop(number)
                client.ack(came.mid, came.qos)
                done += 1

        client.on_message, client.on_publish = message, published
        while done < items:
            client.loop(0.1)
        took_s = time.monotonic() - began_s
        client.unsubscribe(source)
        client.disconnect()
        return took_s


class Kafka:
    kind, loops, bundle = "kafka", ("plain",), BUNDLE

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

    def plain(self, source: str, sink: str, items: int, loop: str) -> float:
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


Broker = Rabbit | Mqtt | Kafka


def ours(broker: Broker, source: str, sink: str, items: int, how: dict[str, Any]) -> float:
    with TemporaryDirectory() as folder:
        spec = RunSpec(
            app="doubled", run=new_run(), batching=BatchingSpec(items=broker.bundle), items=items, journals=folder,
            source=SourceSpec(kind=broker.kind, path=broker.path(source)),  # type: ignore[arg-type]
            sink=SinkSpec(kind=broker.kind, path=broker.path(sink)),  # type: ignore[arg-type]
            pool="local", **how,
        )  # fmt: skip
        ended = to_the_end(spec, PATIENCE_S)
        assert ended.status.items.delivered == items, ended.status
        return ended.wall_s


def measure(
    rabbitmq: Annotated[str | None, "HOST:PORT"] = None,
    mqtt: Annotated[str | None, "HOST:PORT"] = None,
    kafka: Annotated[str | None, "HOST:PORT, or mock"] = None,
    items: int = 20_000,
    rounds: Rounds = 3,
) -> Iterator[Rows]:
    registry.create = lambda *_: Doubled()  # type: ignore[assignment]  # the app of this measurement alone
    if not (rabbitmq or mqtt or kafka):
        raise SystemExit("give the address of a broker: --rabbitmq, --mqtt or --kafka")
    for broker in [kind(address) for kind, address in ((Rabbit, rabbitmq), (Mqtt, mqtt)) if address]:
        yield compared(broker, items, rounds)
    if kafka:
        with kafka_at(kafka) as address:
            yield compared(Kafka(address), items, rounds)


def compared(broker: Broker, items: int, rounds: int) -> Rows:
    """Let the plain loops and our kinds of durability take turns."""
    took: dict[str, list[float]] = {kind: [] for kind in (*broker.loops, *KINDS)}
    cpu: dict[str, list[float]] = {kind: [] for kind in took}
    for _ in range(rounds):
        for kind in took:
            source, sink = (f"{way}-{new_run()}" for way in ("in", "out"))
            broker.fill(source, items)
            given, before_s = (source, sink, items), time.process_time()
            took[kind].append(ours(broker, *given, KINDS[kind]) if kind in KINDS else broker.plain(*given, kind))
            cpu[kind].append(time.process_time() - before_s)
    return Rows(f"{broker.kind} to {broker.kind}, {items} items, medians", [
        {
            "kind": kind, "items/s": items / statistics.median(each),
            "of plain": statistics.median(a / b for a, b in zip(took["plain"], each, strict=True)),
            "µs of CPU per item": statistics.median(cpu[kind]) / items * 1e6,
        } for kind, each in took.items()
    ])  # fmt: skip


if __name__ == "__main__":
    main(measure)
