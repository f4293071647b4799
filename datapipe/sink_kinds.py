"""Kinds of sinks that are an adapter over a library: the name and the settings of each, and how it is opened.

Every command imports this table. So an adapter, with its library, is imported only when it is opened.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

from datapipe.sinks.port import Sink

KindName = Literal["spark", "sql", "parquet", "redis", "kafka", "nats", "mqtt", "rabbitmq", "webhook"]
"""The kinds that a start body may name; all but Spark's (``datapipe.spark``) have a row in the table ``KINDS``."""


@dataclass(frozen=True, slots=True)
class Opening:
    """The arguments for opening a sink. ``run`` and ``epoch``: the writing run and its epoch."""

    path: str
    run: str
    epoch: int
    options: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SinkKind:
    name: KindName
    adapter: str
    """The adapter's class, as ``module.Class`` of this package."""
    options: tuple[str, ...] | None = ()
    """The accepted options; None: all that its library accepts."""

    def open(self, opening: Opening) -> Sink:
        """Open a sink, which is not reached yet. Raises: RecomposeError for an invalid path or a missing library."""
        module, _, name = self.adapter.rpartition(".")
        adapter = getattr(import_module(f"{__package__}.{module}"), name)
        writer = opening.path, opening.run, opening.epoch
        if self.options is None:
            sink: Sink = adapter(*writer, opening.options)
            return sink
        given = {name: opening.options[name] for name in self.options if opening.options.get(name) is not None}
        sink = adapter(*writer, **{name: str(value) for name, value in given.items()})
        return sink

    def fault(self, options: Mapping[str, Any]) -> str | None:
        if self.options is None:
            return None
        strange = [option for option in options if option not in self.options]
        has = f"it has {', '.join(self.options)}" if self.options else "it has none"
        return f"sink {self.name} has no option {strange[0]!r}; {has}" if strange else None


KINDS: Mapping[str, SinkKind] = {
    kind.name: kind
    for kind in (
        SinkKind("sql", "sinks.sql.SqlSink", ("table",)),
        SinkKind("parquet", "sinks.parquet_files.ParquetFiles"),
        SinkKind("redis", "brokers.redis.sink.RedisSink"),
        SinkKind("kafka", "brokers.kafka.sink.KafkaSink", None),
        SinkKind("nats", "brokers.nats.sink.NatsSink"),
        SinkKind("mqtt", "brokers.mqtt.sink.MqttSink"),
        SinkKind("rabbitmq", "brokers.rabbitmq.sink.RabbitSink"),
        SinkKind("webhook", "sinks.webhook.Webhook", ("authorization",)),
    )
}
