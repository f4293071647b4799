"""Kinds of sources: the name, the path and the settings of each, and how it is opened.

Every command imports this table. So an adapter, and the library that it needs, is imported only when it is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from apps.contract import App
from compositions.errors import RecomposeError
from datapipe.sources.push import Push
from datapipe.sources.sources import Clock, Replay, Source, Video

if TYPE_CHECKING:
    from datapipe.sources.fed import Feed

KindName = Literal["replay", "video", "push", "spark", "folder", "redis", "kafka", "nats", "mqtt", "rabbitmq"]
"""What a start body may name; the table ``KINDS`` below has a row for each."""


PUSH_ITEMS = 64
"""The input buffer of ``push``."""


class PathMeans(StrEnum):
    """The meaning of a source's path for its kind."""

    NOTHING = "nothing"
    """It takes none."""
    FILES = "files"
    """A file or folder of this machine; none: the app's own data set."""
    PLACE = "place"
    """A camera, a URL, a broker's topic …: whoever opens it says best what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Opening:
    """The arguments that open a source; ``capacity`` is the input buffer of ``push``, in items."""

    app: App
    path: str | None
    clock: Clock
    loop: bool
    capacity: int
    options: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SourceKind:
    name: KindName
    path: PathMeans
    open: Callable[[Opening], Source] | None = None
    """None: the link to Spark's driver is the source (``datapipe.spark``)."""
    pushed: bool = False
    """Items are put into it from outside, so it needs a daemon."""
    durable: bool = False
    """What was read can be read again from a position, or is stored when it comes."""
    positioned: bool = False
    """It is always read again from a position; a kind of which some are (``rabbitmq``) is not."""
    own: tuple[str, ...] = ()
    """Fields that go with this kind, and not with all."""
    needs: str | None = None
    """A field without which it is no source, and …"""
    such_as: str = ""
    written: tuple[str, ...] = ()
    """How it is offered on the command line."""

    @property
    def driven(self) -> bool:
        """Spark's driver reads it."""
        return self.open is None

    def fault(self, given: Mapping[str, object]) -> str | None:
        """Return what does not fit together among the fields that were given a value."""
        if self.needs and not given.get(self.needs):
            return f"source {self.name} needs a {self.needs}, such as {self.such_as}"
        for field in {field: None for kind in KINDS.values() for field in kind.own if field not in self.own}:
            if given.get(field):
                *some, last = (kind.name for kind in KINDS.values() if field in kind.own)
                owners = f"kinds {', '.join(some)} and {last}" if some else f"kind {last}"
                return f"{field} goes with source {owners} only, not with {self.name}"
        return None


def _replay(opening: Opening) -> Source:
    path = None if opening.path is None else Path(opening.path)
    return Replay(opening.app, path, loop=opening.loop, clock=opening.clock)


def _video(opening: Opening) -> Source:
    return Video(opening.app, opening.path, loop=opening.loop, clock=opening.clock)


def _push(opening: Opening) -> Source:
    return Push(opening.capacity, clock=opening.clock)


def _fed(feed: Callable[[Opening], Feed]) -> Callable[[Opening], Source]:
    """Return what others fill, with its adapter."""

    def opened(opening: Opening) -> Source:
        from datapipe.sources.fed import Fed

        return Fed(opening.app, feed(opening), opening.clock)

    return opened


def _folder(opening: Opening) -> Feed:
    from datapipe.sources.folder import FolderFeed

    return FolderFeed(opening.path or ".", opening.options, endless=opening.loop)


def _redis(opening: Opening) -> Feed:
    from datapipe.brokers.redis.source import RedisFeed

    return RedisFeed(opening.path or "", opening.options)


def _kafka(opening: Opening) -> Feed:
    from datapipe.brokers.kafka.source import KafkaFeed

    return KafkaFeed(opening.path or "", opening.options)


def _nats(opening: Opening) -> Feed:
    from datapipe.brokers.nats.source import NatsFeed

    return NatsFeed(opening.path or "", opening.options)


def _mqtt(opening: Opening) -> Source:
    from datapipe.brokers.mqtt.source import MqttBox
    from datapipe.sources.inbox import Inbox

    return Inbox(opening.app, MqttBox(opening.path or "", opening.options, opening.app.name), opening.clock)


def _rabbitmq(opening: Opening) -> Source:
    """A stream has positions, a queue has none."""
    from datapipe.brokers.rabbitmq.source import StreamFeed, opened
    from datapipe.sources.fed import Fed
    from datapipe.sources.inbox import Inbox

    found = opened(opening.path or "", opening.options)
    source = Fed if isinstance(found, StreamFeed) else Inbox
    return source(opening.app, found, opening.clock)  # type: ignore[arg-type]


REPLAY = SourceKind(
    "replay", PathMeans.FILES, _replay, durable=True, positioned=True, written=("replay", "replay:PATH")
)
VIDEO = SourceKind("video", PathMeans.PLACE, _video, written=("video:FILE", "video:CAMERA", "video:URL"))
PUSH = SourceKind("push", PathMeans.NOTHING, _push, pushed=True, durable=True)
SPARK = SourceKind(
    "spark",
    PathMeans.PLACE,
    own=("format", "options", "transform", "checkpoint"),
    needs="format",
    such_as="csv, json, parquet, kafka or rate",
    written=("spark:FILE.yaml",),
)
FOLDER = SourceKind(
    "folder",
    PathMeans.PLACE,
    _fed(_folder),
    durable=True,
    positioned=True,
    own=("options",),
    needs="path",
    such_as="/data/in",
    written=("folder:PATH",),
)
REDIS = SourceKind(
    "redis",
    PathMeans.PLACE,
    _fed(_redis),
    durable=True,
    positioned=True,
    own=("options",),
    needs="path",
    such_as="redis://HOST:6379/0?stream=NAME",
    written=("redis://HOST:PORT/0?stream=NAME",),
)
KAFKA = SourceKind(
    "kafka",
    PathMeans.PLACE,
    _fed(_kafka),
    durable=True,
    positioned=True,
    own=("options",),
    needs="path",
    such_as="kafka://HOST:9092/TOPIC",
    written=("kafka://HOST:PORT/TOPIC",),
)
NATS = SourceKind(
    "nats",
    PathMeans.PLACE,
    _fed(_nats),
    durable=True,
    positioned=True,
    own=("options",),
    needs="path",
    such_as="nats://HOST:4222/STREAM",
    written=("nats://HOST:PORT/STREAM",),
)
MQTT = SourceKind(
    "mqtt",
    PathMeans.PLACE,
    _mqtt,
    durable=True,
    own=("options",),
    needs="path",
    such_as="mqtt://HOST:1883/TOPIC",
    written=("mqtt://HOST:PORT/TOPIC",),
)
RABBITMQ = SourceKind(
    "rabbitmq",
    PathMeans.PLACE,
    _rabbitmq,
    durable=True,
    own=("options",),
    needs="path",
    such_as="amqp://HOST:5672/VHOST?queue=NAME",
    written=("amqp://HOST:PORT/VHOST?queue=NAME",),
)
KINDS: Mapping[str, SourceKind] = {
    kind.name: kind for kind in (REPLAY, VIDEO, PUSH, SPARK, FOLDER, REDIS, KAFKA, NATS, MQTT, RABBITMQ)
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
    """The source that the ``source`` of a start body describes.

    Raises: RecomposeError for a kind that cannot be opened here, a path that is missing or gives no items, an app
    without a data set.
    """
    found = KINDS.get(kind)
    if found is None or found.open is None:
        *others, last = (each.name for each in KINDS.values() if each.open is not None)
        raise RecomposeError(f"unknown source kind {kind!r}; known kinds are {', '.join(others)} and {last}")
    if path is not None and found.path is PathMeans.NOTHING:
        raise RecomposeError(f"source {kind} takes no path, but {str(path)!r} was given; items come through the API")
    return found.open(Opening(app, None if path is None else str(path), clock, loop, PUSH_ITEMS, options or {}))
