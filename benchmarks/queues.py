"""From one queue to another: ours against a plain loop over the broker's library, in the same run.

``python -m benchmarks.queues --rabbitmq HOST:PORT`` or ``--mqtt HOST:PORT``, with ``--items N``. Each message is JSON,
gets a field, and is written to another queue or topic. The plain loop has one thread, acknowledges what it has written,
and waits for no confirmation of it; with MQTT there is one more, ``acknowledged``, which acknowledges a message when
the broker has acknowledged its result, as ours does. Ours has the source, a stage and the sink; its start and end are
in its rate.
Whoever gives the broker lets it keep as many messages as there are items (mosquitto: ``max_queued_messages 0``).
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from tempfile import TemporaryDirectory
from typing import Any

from apps import registry
from benchmarks.harness import metadata
from benchmarks.kafka_to_kafka import Doubled, changed
from service.bodies.spec import RunSpec, SinkSpec, SourceSpec
from service.running.asking.requests import ReadStatus, Start
from service.running.run_id import new_run
from service.running.runner import Runner

PATIENCE_S = 300.0
KINDS: dict[str, dict[str, Any]] = {
    "ours": {},
    "ours, restart": {"durability": "restart"},
    "ours, exactly-once": {"durability": "exactly-once"},
}


def bodies(items: int) -> list[bytes]:
    return [json.dumps({"n": number, "name": f"item {number}"}).encode() for number in range(items)]


class Rabbit:
    kind, loops = "rabbitmq", ("plain",)

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
    kind, loops = "mqtt", ("plain", "plain, acknowledged")

    def __init__(self, address: str) -> None:
        self._address = address
        self._host, _, self._port = address.partition(":")

    def path(self, place: str) -> str:
        return f"mqtt://{self._address}/{place}"

    def _session(self, place: str, own: str) -> Any:
        """Of a reader, not connected yet."""
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
        """Into the session of whoever reads it: ours is called after the app."""
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


def ours(broker: Rabbit | Mqtt, source: str, sink: str, items: int, how: dict[str, Any]) -> float:
    with TemporaryDirectory() as folder:
        spec = RunSpec(
            app="doubled",
            run=new_run(),
            source=SourceSpec(kind=broker.kind, path=broker.path(source)),  # type: ignore[arg-type]
            sink=SinkSpec(kind=broker.kind, path=broker.path(sink)),  # type: ignore[arg-type]
            items=items,
            journals=folder,
            pool="local",
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
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--rabbitmq", metavar="HOST:PORT")
    which.add_argument("--mqtt", metavar="HOST:PORT")
    asked = parser.parse_args(args)
    registry.create = lambda *_: Doubled()  # type: ignore[assignment]  # the app of this measurement alone
    broker = Rabbit(asked.rabbitmq) if asked.rabbitmq else Mqtt(asked.mqtt)
    measured: dict[str, list[float]] = {kind: [] for kind in (*broker.loops, *KINDS)}
    print(json.dumps(metadata()))
    for _ in range(asked.rounds):
        for kind in measured:
            source, sink = (f"{way}-{new_run()}" for way in ("in", "out"))
            broker.fill(source, asked.items)
            given = source, sink, asked.items
            took_s = ours(broker, *given, KINDS[kind]) if kind in KINDS else broker.plain(*given, kind)
            measured[kind].append(took_s)
    for kind, took in measured.items():
        share = statistics.median(a / b for a, b in zip(measured["plain"], took, strict=True))
        print(f"{kind:20} {asked.items / statistics.median(took):9,.0f} items/s, {share:5.2f} of plain")


if __name__ == "__main__":
    main()
