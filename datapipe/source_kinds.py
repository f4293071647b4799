"""Kinds of sources: the name, the path and the settings of each, and how it is opened.

Every command imports this table. So an adapter, and the library that it needs, is imported only when it is opened.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

from apps.contract import App
from compositions.errors import RecomposeError
from datapipe.sources.fed import Fed
from datapipe.sources.inbox import Inbox
from datapipe.sources.push import Push
from datapipe.sources.sources import Clock, Replay, Source, Video

KindName = Literal["replay", "video", "push", "spark", "folder", "redis", "kafka", "nats", "mqtt", "rabbitmq"]
"""The kinds that a start body may name; the table ``KINDS`` below has a row for each."""
PUSH_ITEMS = 64
"""The input buffer of ``push``."""


class PathMeans(StrEnum):
    """The meaning of a source's path for its kind."""

    NOTHING = "nothing"
    """The kind takes no path."""
    FILES = "files"
    """A file or folder of this machine; without a path, the app's own data set."""
    PLACE = "place"
    """A camera, a URL, a broker's topic and so on, which is checked only when the source is opened."""


@dataclass(frozen=True, slots=True)
class SourceKind:
    name: KindName
    path: PathMeans
    driven: bool = False
    """Spark's driver reads it, and the link to it is the source (``datapipe.spark``)."""
    pushed: bool = False
    """Clients push items into it, so it needs a daemon."""
    durable: bool = False
    """Items can be read again from a position, or are stored when they come."""
    positioned: bool = False
    """Every source of the kind is read again from a position (of ``rabbitmq``, only streams are)."""
    own: tuple[str, ...] = ()
    """Fields that only some kinds, this one included, accept."""
    needs: str | None = None
    """A required field, and …"""
    such_as: str = ""
    written: tuple[str, ...] = ()
    """The forms in which the command line accepts it."""

    def fault(self, given: Mapping[str, object]) -> str | None:
        """Return an error message if the given fields do not fit this kind, else None."""
        if self.needs and not given.get(self.needs):
            return f"source {self.name} needs a {self.needs}, such as {self.such_as}"
        for field in {field: None for kind in KINDS.values() for field in kind.own if field not in self.own}:
            if given.get(field):
                *some, last = (kind.name for kind in KINDS.values() if field in kind.own)
                owners = f"kinds {', '.join(some)} and {last}" if some else f"kind {last}"
                return f"{field} is accepted with source {owners} only, not with {self.name}"
        return None


def _broker(name: KindName, such_as: str, written: str, *, positioned: bool = True) -> SourceKind:
    """Return a kind whose items lie in another process, or in files that others write."""
    return SourceKind(
        name,
        PathMeans.PLACE,
        durable=True,
        positioned=positioned,
        own=("options",),
        needs="path",
        such_as=such_as,
        written=(written,),
    )


REPLAY = SourceKind(
    "replay", PathMeans.FILES, durable=True, positioned=True, own=("options",), written=("replay", "replay:PATH")
)
VIDEO = SourceKind("video", PathMeans.PLACE, written=("video:FILE", "video:CAMERA", "video:URL"))
PUSH = SourceKind("push", PathMeans.NOTHING, pushed=True, durable=True)
SPARK = SourceKind(
    "spark",
    PathMeans.PLACE,
    driven=True,
    own=("format", "options", "transform", "checkpoint"),
    needs="format",
    such_as="csv, json, parquet, kafka or rate",
    written=("spark:FILE.yaml",),
)
FOLDER = _broker("folder", "/data/in", "folder:PATH")
REDIS = _broker("redis", "redis://HOST:6379/0?stream=NAME", "redis://HOST:PORT/0?stream=NAME")
KAFKA = _broker("kafka", "kafka://HOST:9092/TOPIC", "kafka://HOST:PORT/TOPIC")
NATS = _broker("nats", "nats://HOST:4222/STREAM", "nats://HOST:PORT/STREAM")
MQTT = _broker("mqtt", "mqtt://HOST:1883/TOPIC", "mqtt://HOST:PORT/TOPIC", positioned=False)
RABBIT = _broker("rabbitmq", "amqp://HOST:5672/VHOST?queue=NAME", "amqp://HOST:PORT/VHOST?queue=NAME", positioned=False)
KINDS: Mapping[str, SourceKind] = {
    kind.name: kind for kind in (REPLAY, VIDEO, PUSH, SPARK, FOLDER, REDIS, KAFKA, NATS, MQTT, RABBIT)
}


def open_source(
    app: App,
    kind: str,
    path: str | Path | None = None,
    *,
    clock: Clock,
    loop: bool = True,
    options: Mapping[str, Any] | None = None,
) -> Source:
    """Open the source that the ``source`` of a start body describes. Raises: RecomposeError for a kind that cannot be
    opened here, a path that is missing or gives no items, an app without a data set."""
    found = KINDS.get(kind)
    if found is None or found.driven:
        *others, last = (each.name for each in KINDS.values() if not each.driven)
        raise RecomposeError(f"unknown source kind {kind!r}; known kinds are {', '.join(others)} and {last}")
    if path is not None and found.path is PathMeans.NOTHING:
        raise RecomposeError(f"source {kind} accepts no path ({str(path)!r} was given); items come through the API")
    match kind:
        case "replay":
            in_memory = _in_memory(options or {})
            return Replay(app, None if path is None else Path(path), loop=loop, clock=clock, in_memory=in_memory)
        case "video":
            return Video(app, None if path is None else str(path), loop=loop, clock=clock)
        case "push":
            return Push(PUSH_ITEMS, clock=clock)
    return _filled(kind, app, str(path or ""), options or {}, clock, loop)


def _in_memory(options: Mapping[str, Any]) -> bool:
    """Return if all items are read before the first leaves. Raises: RecomposeError for other options or values."""
    given = {"in_memory": False, **options}
    if len(given) > 1 or not isinstance(given["in_memory"], bool):
        raise RecomposeError(f"options of source replay are {dict(options)}; only in_memory is accepted, true or false")
    return bool(given["in_memory"])


def _filled(kind: str, app: App, path: str, options: Mapping[str, Any], clock: Clock, loop: bool) -> Source:
    """Open a source that others fill, with its adapter."""
    match kind:
        case "folder":
            from datapipe.sources.folder import FolderFeed

            return Fed(app, FolderFeed(path or ".", options, endless=loop), clock)
        case "redis":
            from datapipe.brokers.redis.source import RedisFeed

            return Fed(app, RedisFeed(path, options), clock)
        case "kafka":
            from datapipe.brokers.kafka.source import KafkaFeed

            return Fed(app, KafkaFeed(path, options), clock)
        case "nats":
            from datapipe.brokers.nats.source import NatsFeed

            return Fed(app, NatsFeed(path, options), clock)
        case "mqtt":
            from datapipe.brokers.mqtt.source import MqttBox

            return Inbox(app, MqttBox(path, options, app.name), clock)
    from datapipe.brokers.rabbitmq.source import StreamFeed, opened

    found = opened(path, options)  # a stream has positions, a queue has none
    return Fed(app, found, clock) if isinstance(found, StreamFeed) else Inbox(app, found, clock)
