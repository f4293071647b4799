"""Kinds of sinks that are an adapter over a library: the name and the settings of each, and how it is opened.

Every command imports this table. So an adapter, with its library, is imported only when it is opened.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    options: tuple[str, ...] | None = ()
    """None: whatever its library takes."""

    def open(self, opening: Opening) -> Sink:
        """Open a sink, which is not reached yet. Raises: RecomposeError for an invalid path, or where a library is
        missing."""
        return _opened(self.name, opening.path, opening.run, opening.epoch, opening.options)

    def fault(self, options: Mapping[str, Any]) -> str | None:
        if self.options is None:
            return None
        strange = [option for option in options if option not in self.options]
        has = f"it has {', '.join(self.options)}" if self.options else "it has none"
        return f"sink {self.name} has no option {strange[0]!r}; {has}" if strange else None


def _opened(kind: KindName, path: str, run: str, epoch: int, options: Mapping[str, Any]) -> Sink:
    match kind:
        case "sql":
            from datapipe.sinks.sql import TABLE, SqlSink

            return SqlSink(path, run, epoch, str(options.get("table", TABLE)))
        case "parquet":
            from datapipe.sinks.parquet_files import ParquetFiles

            return ParquetFiles(path, run, epoch)
        case "redis":
            from datapipe.brokers.redis.sink import RedisSink

            return RedisSink(path, run, epoch)
        case "kafka":
            from datapipe.brokers.kafka.sink import KafkaSink

            return KafkaSink(path, run, epoch, options)
        case "nats":
            from datapipe.brokers.nats.sink import NatsSink

            return NatsSink(path, run, epoch)
        case "mqtt":
            from datapipe.brokers.mqtt.sink import MqttSink

            return MqttSink(path, run, epoch)
        case "rabbitmq":
            from datapipe.brokers.rabbitmq.sink import RabbitSink

            return RabbitSink(path, run, epoch)
    from datapipe.sinks.webhook import Webhook

    authorization = options.get("authorization")
    return Webhook(path, run, epoch, None if authorization is None else str(authorization))


KINDS: Mapping[str, SinkKind] = {
    kind.name: kind
    for kind in (
        SinkKind("sql", ("table",)),
        SinkKind("parquet"),
        SinkKind("redis"),
        SinkKind("kafka", None),
        SinkKind("nats"),
        SinkKind("mqtt"),
        SinkKind("rabbitmq"),
        SinkKind("webhook", ("authorization",)),
    )
}
