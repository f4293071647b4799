"""Kinds of sinks that are an adapter over a library: the name and the settings of each, and how it is opened.

Every command imports this table. So an adapter, with its library, is imported only when it is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from datapipe.sinks.port import Sink

KindName = Literal["spark", "sql", "parquet", "redis", "kafka", "nats", "mqtt", "rabbitmq", "webhook"]
"""What a start body may name; the table ``KINDS`` below has a row for each but Spark's (``datapipe.spark``)."""


@dataclass(frozen=True, slots=True)
class Opening:
    """``run`` and ``epoch``: who writes."""

    path: str
    run: str
    epoch: int
    options: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SinkKind:
    name: KindName
    open: Callable[[Opening], Sink]
    """Reaches for nothing yet. Raises: RecomposeError for a path that can be none, or where a library is missing."""
    options: tuple[str, ...] | None = ()
    """None: whatever its library takes."""

    def fault(self, options: Mapping[str, Any]) -> str | None:
        if self.options is None:
            return None
        strange = [option for option in options if option not in self.options]
        has = f"it has {', '.join(self.options)}" if self.options else "it has none"
        return f"sink {self.name} has no option {strange[0]!r}; {has}" if strange else None


def _sql(opening: Opening) -> Sink:
    from datapipe.sinks.sql import TABLE, SqlSink

    return SqlSink(opening.path, opening.run, opening.epoch, str(opening.options.get("table", TABLE)))


def _parquet(opening: Opening) -> Sink:
    from datapipe.sinks.parquet_files import ParquetFiles

    return ParquetFiles(opening.path, opening.run, opening.epoch)


def _redis(opening: Opening) -> Sink:
    from datapipe.brokers.redis.sink import RedisSink

    return RedisSink(opening.path, opening.run, opening.epoch)


def _kafka(opening: Opening) -> Sink:
    from datapipe.brokers.kafka.sink import KafkaSink

    return KafkaSink(opening.path, opening.run, opening.epoch, opening.options)


def _nats(opening: Opening) -> Sink:
    from datapipe.brokers.nats.sink import NatsSink

    return NatsSink(opening.path, opening.run, opening.epoch)


def _mqtt(opening: Opening) -> Sink:
    from datapipe.brokers.mqtt.sink import MqttSink

    return MqttSink(opening.path, opening.run, opening.epoch)


def _rabbitmq(opening: Opening) -> Sink:
    from datapipe.brokers.rabbitmq.sink import RabbitSink

    return RabbitSink(opening.path, opening.run, opening.epoch)


def _webhook(opening: Opening) -> Sink:
    from datapipe.sinks.webhook import Webhook

    authorization = opening.options.get("authorization")
    return Webhook(opening.path, opening.run, opening.epoch, None if authorization is None else str(authorization))


SQL = SinkKind("sql", _sql, ("table",))
PARQUET = SinkKind("parquet", _parquet)
REDIS = SinkKind("redis", _redis)
KAFKA = SinkKind("kafka", _kafka, None)
NATS = SinkKind("nats", _nats)
MQTT = SinkKind("mqtt", _mqtt)
RABBITMQ = SinkKind("rabbitmq", _rabbitmq)
WEBHOOK = SinkKind("webhook", _webhook, ("authorization",))
KINDS: Mapping[str, SinkKind] = {
    kind.name: kind for kind in (SQL, PARQUET, REDIS, KAFKA, NATS, MQTT, RABBITMQ, WEBHOOK)
}
