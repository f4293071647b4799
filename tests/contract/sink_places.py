"""Places for results that a test starts, reads and ends: one of each kind of sink. Servers are real."""

import json
import threading
import uuid
from abc import ABC, abstractmethod
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest
from servers import KafkaBroker, Mosquitto, NatsServer, Place, RabbitMq, RedisServer

from datapipe.sink_kinds import KINDS, Opening
from datapipe.sinks.port import Sink
from lab.benchmarks.daemon import free_port
from tests.support.relay import Relay

There = tuple[int, int, Any, str | None]
"""Serial number, part, value, error."""


class SinkPlace(Place, ABC):
    """Of one kind, empty."""

    shuts_out = True
    """Whoever was followed can write nothing there."""
    server: Any = None
    is_server = False
    """That can be reached through another port; Kafka's tells its clients where it is."""
    forgets = True
    """What is to come again is taken out; else it is there twice."""

    @abstractmethod
    def there(self) -> list[There]:
        """What readers find, of all runs."""

    def is_at(self, server: Any, path: str) -> None:
        """What a test ends and starts, and where writers find it."""
        self.server = self.down = server
        self.path = path.format(port=server.port)

    def by_way_of(self, port: int) -> str:
        """The path, through another port."""
        return self.path.replace(f":{self.down.port}/", f":{port}/")

    def open(self, epoch: int, run: str = "r") -> Sink:
        return KINDS[self.kind].open(Opening(self.path, run, epoch, {}))


class ADatabase(SinkPlace):
    kind = "sql"

    def __init__(self, folder: Path) -> None:
        pytest.importorskip("sqlalchemy", reason="SQLAlchemy is not installed; it is in extra sql")
        self.path = f"sqlite:///{folder}/results.db"

    def there(self) -> list[There]:
        import sqlalchemy

        engine = sqlalchemy.create_engine(self.path)
        with engine.connect() as db:
            if not sqlalchemy.inspect(engine).has_table("recompose_results"):
                return []
            found = db.execute(sqlalchemy.text("SELECT serial, part, value, error FROM recompose_results"))
            rows = sorted(as_read(*row) for row in found)
        engine.dispose()
        return rows


class AFolderOfParquet(SinkPlace):
    kind = "parquet"

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "table")

    def there(self) -> list[There]:
        if not Path(self.path).is_dir():
            return []
        try:
            found = pyarrow.dataset.dataset(self.path, format="parquet").to_table()
        except FileNotFoundError:  # what comes again was taken out between the listing and the reading
            return []
        return sorted(as_read(r["serial"], r["part"], r["value"], r["error"]) for r in found.to_pylist())


class ARedis(SinkPlace):
    kind, is_server = "redis", True

    def __init__(self, folder: Path) -> None:
        self.is_at(RedisServer(folder), "redis://127.0.0.1:{port}/0?stream=results")

    def there(self) -> list[There]:
        """In the order of the stream."""
        entries = [fields for _, fields in self.server.client.xrange("results")]
        return [as_read(int(e["serial"]), e.get("part"), e.get("value"), e.get("error")) for e in entries]

    def close(self) -> None:
        self.server.close()


class AKafka(SinkPlace):
    kind, forgets = "kafka", False

    def __init__(self, folder: Path) -> None:
        self.is_at(KafkaBroker(folder), "kafka://127.0.0.1:{port}/results")

    def there(self) -> list[There]:
        """What is committed, in the order of the topic's partition."""
        import confluent_kafka as kafka

        how = {"bootstrap.servers": f"127.0.0.1:{self.server.port}", "group.id": "reader", "fetch.wait.max.ms": 10}
        consumer = kafka.Consumer({**how, "isolation.level": "read_committed", "enable.partition.eof": True})
        consumer.assign([kafka.TopicPartition("results", 0, kafka.OFFSET_BEGINNING)])
        rows: list[There] = []
        while (message := consumer.poll(10.0)) is not None and message.error() is None:
            told = {name: value.decode() for name, value in message.headers()}
            body = None if message.value() is None else message.value().decode()
            rows.append(as_read(int(told["serial"]), told.get("part"), body, told.get("error")))
        consumer.close()
        return rows


class ANats(SinkPlace):
    kind, is_server, forgets = "nats", True, False

    def __init__(self, folder: Path) -> None:
        self.is_at(NatsServer(folder), "nats://127.0.0.1:{port}/results")

    def there(self) -> list[There]:
        """In the order of the stream."""
        told = [(headers, body) for headers, body in self.server.messages("results") if "serial" in headers]
        return [as_read(int(h["serial"]), h.get("part"), body.decode() or None, h.get("error")) for h, body in told]


class AnMqttTopic(SinkPlace):
    """With a reader in a session of its own, which tells doubles as readers are asked to."""

    kind, is_server = "mqtt", True
    shuts_out = forgets = False

    def __init__(self, folder: Path) -> None:
        self.is_at(Mosquitto(folder), "mqtt://127.0.0.1:{port}/results")
        self.rows: dict[tuple[str, int, int], There] = {}
        self.read()

    def there(self) -> list[There]:
        self.read()
        return list(self.rows.values())

    def read(self) -> None:
        """What has come to the session."""
        for message in self.server.came("results"):
            told, body = dict(message.properties.UserProperty), message.payload.decode()
            assert (message.properties.PayloadFormatIndicator, "epoch" in told) == (1, True)
            row = as_read(int(told["serial"]), told.get("part"), body or None, told.get("error"))
            self.rows.setdefault((told["run"], *row[:2]), row)


class ARabbitQueue(SinkPlace):
    kind, is_server, shared = "rabbitmq", True, True
    shuts_out = forgets = False

    def __init__(self, server: RabbitMq) -> None:
        self.queue, self.broker = f"results-{uuid.uuid4().hex}", server
        self.is_at(Relay(server.port), f"amqp://127.0.0.1:{{port}}/?queue={self.queue}")

    def there(self) -> list[There]:
        rows: dict[str, There] = {}
        for properties, body in self.broker.messages(self.queue):
            told = properties.headers
            row = as_read(told["serial"], told.get("part"), body.decode() or None, told.get("error"))
            assert properties.message_id.startswith(f"{told['run']}-{told['serial']}")
            rows.setdefault(properties.message_id, row)
        return list(rows.values())

    def close(self) -> None:
        super().close()
        self.broker.drop(self.queue)


class AWebhook(SinkPlace):
    """A server that keeps what it gets first under a key, as its kind is asked to."""

    kind, is_server = "webhook", True
    shuts_out = forgets = False

    def __init__(self, folder: Path) -> None:
        self.down, self.port = self, free_port()
        self.path = f"http://127.0.0.1:{self.port}/results"
        self.kept: dict[str, Any] = {}
        self.calls = 0
        self.start()

    def start(self) -> None:
        place = self

        class Keeps(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                place.calls += 1
                place.kept.setdefault(self.headers["Idempotency-Key"], body)
                self.send_response(204)
                self.end_headers()

        self.server = ThreadingHTTPServer(("127.0.0.1", self.port), Keeps)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))
        self.thread.start()

    def there(self) -> list[There]:
        rows: list[There] = []
        for key, body in list(self.kept.items()):
            assert key == f"{body['run']}-{body['serial']}"
            if "error" in body:
                rows.append((body["serial"], 0, None, body["error"]))
            rows += [(body["serial"], part, value, None) for part, value in enumerate(body.get("values", []))]
        return rows

    def end(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def as_read(serial: int, part: Any, value: str | None, error: str | None) -> There:
    return serial, int(part or 0), None if value is None else json.loads(value), error


PLACES: dict[str, type[Any]] = {
    each.kind: each
    for each in (ADatabase, AFolderOfParquet, ARedis, AKafka, ANats, AnMqttTopic, ARabbitQueue, AWebhook)
}
