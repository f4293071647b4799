"""Kinds of sources: what each is called, what its path is, what else it takes, and how it is opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Literal

from apps.contract import App
from apps.input.sources import Clock, Push, Replay, Source, Video
from compositions.errors import RecomposeError

KindName = Literal["replay", "video", "push", "spark"]
"""What a start body may name; the table ``KINDS`` below has a row for each."""


class PathMeans(StrEnum):
    """What the path of a source is to its kind."""

    NOTHING = "nothing"
    """It takes none."""
    FILES = "files"
    """A file or folder of this machine; none: the app's own data set."""
    PLACE = "place"
    """A camera, a URL, a broker's topic …: whoever opens it says best what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Opening:
    """What a source is opened with; ``capacity`` is the input buffer of ``push``, in items."""

    app: App
    path: str | None
    clock: Clock
    loop: bool
    capacity: int


@dataclass(frozen=True, slots=True)
class SourceKind:
    name: KindName
    path: PathMeans
    open: Callable[[Opening], Source] | None = None
    """None: the link to Spark's driver is the source (``datapipe.live``)."""
    pushed: bool = False
    """Items are put into it from outside, so it needs a daemon."""
    own: tuple[str, ...] = ()
    """Fields that go with this kind only."""
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
        """What does not fit together among the fields that were given a value."""
        if self.needs and not given.get(self.needs):
            return f"source {self.name} needs a {self.needs}, such as {self.such_as}"
        owners = {field: kind.name for kind in KINDS.values() for field in kind.own}
        for field, owner in owners.items():
            if given.get(field) and owner != self.name:
                return f"{field} goes with source kind {owner} only, not with {self.name}"
        return None


def _replay(opening: Opening) -> Source:
    path = None if opening.path is None else Path(opening.path)
    return Replay(opening.app, path, loop=opening.loop, clock=opening.clock)


def _video(opening: Opening) -> Source:
    return Video(opening.app, opening.path, loop=opening.loop, clock=opening.clock)


def _push(opening: Opening) -> Source:
    return Push(opening.capacity, clock=opening.clock)


REPLAY = SourceKind("replay", PathMeans.FILES, _replay, written=("replay", "replay:PATH"))
VIDEO = SourceKind("video", PathMeans.PLACE, _video, written=("video:FILE", "video:CAMERA", "video:URL"))
PUSH = SourceKind("push", PathMeans.NOTHING, _push, pushed=True)
SPARK = SourceKind(
    "spark",
    PathMeans.PLACE,
    own=("format", "options", "transform", "checkpoint"),
    needs="format",
    such_as="csv, json, parquet, kafka or rate",
    written=("spark:FILE.yaml",),
)
KINDS: Mapping[str, SourceKind] = {kind.name: kind for kind in (REPLAY, VIDEO, PUSH, SPARK)}


def open_source(
    app: App, kind: str, path: str | Path | None = None, *, clock: Clock, loop: bool = True, capacity: int = 64
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
    return found.open(Opening(app, None if path is None else str(path), clock, loop, capacity))
