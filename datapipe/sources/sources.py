"""The interfaces of sources, and the sources of data sets and videos. By name: ``datapipe.source_kinds``."""

import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

from apps.contract import App
from apps.video import Capture, Frames, open_capture
from compositions.errors import RecomposeError
from datapipe.sources.portions import Counted, Portion, Portions, Position

Clock = Callable[[], float]


class Arrival(NamedTuple):
    """An item and when it arrived, in seconds of the clock that the source was given."""

    arrived_s: float
    """Time at which its read began; for an item that comes by itself, its arrival."""
    value: Any
    due_s: float | None = None
    """Time since which a user waits for an item that comes by itself; None: the input rate determines it."""


class Source(Protocol):
    """A source, iterated once, by one thread. Another thread calls ``close``, which ends the iteration without losing
    an item. A source that may have many items ready is read instead (:class:`Reader`)."""

    def __iter__(self) -> Iterator[Arrival]: ...

    def close(self) -> None: ...


@runtime_checkable
class Reader(Protocol):
    """A source that is read in portions, by one thread."""

    def read(self, most: int, until_s: float) -> Portion | None:
        """Wait for an item, and return it with further available ones, up to ``most``; begin no read after ``until_s``.
        None: the source has ended."""

    def at_hand(self, until_s: float) -> bool:
        """Return whether an item can be read without a wait beyond ``until_s``; may wait until then for it."""


@runtime_checkable
class Elsewhere(Protocol):
    """A source whose items lie in another process, which may not answer."""

    @property
    def fault(self) -> str | None:
        """Reason why the source cannot be read now; None if it can."""


@runtime_checkable
class Left(Protocol):
    """A source that holds a connection, which its own reader closes."""

    def leave(self) -> None:
        """Report the last positions and let go of the place. For the thread that reads, after its last read."""


@runtime_checkable
class Filled(Protocol):
    """A source that others fill at any time: the input rate only limits its reading, and makes no items due."""

    def dry(self) -> bool:
        """Return whether the source is empty, as far as known. May be called from any thread."""


def reader_of(source: Source) -> Reader:
    """Return the source as a reader; one that is only iterable is read one item at a time."""
    return source if isinstance(source, Reader) else _OneByOne(source)


class Readable:
    """A base of readers that can also be iterated. By default, items count as always available."""

    def read(self, most: int, until_s: float) -> Portion | None:
        raise NotImplementedError

    def at_hand(self, until_s: float) -> bool:
        return True

    def __iter__(self) -> Iterator[Arrival]:
        while (portion := self.read(1, math.inf)) is not None:
            due_s = None if portion.due_s is None else portion.due_s[0]
            yield Arrival(portion.arrived_s[0], portion.values[0], due_s)


class _OneByOne:
    def __init__(self, source: Source) -> None:
        self._arrivals = iter(source)

    def read(self, most: int, until_s: float) -> Portion | None:
        arrival = next(self._arrivals, None)
        if arrival is None:
            return None
        due_s = None if arrival.due_s is None else (arrival.due_s,)
        return Portion([arrival.value], (arrival.arrived_s,), due_s)

    def at_hand(self, until_s: float) -> bool:
        """Return False, as this is unknown, so that no caller waits for the source."""
        return False


MOST_IN_MEMORY = 1_000_000
"""Maximum number of items that a source holds in memory; more are refused, as a data set may be endless."""


class Replay(Readable):
    """The app's data set, or files under ``path``, once or repeatedly. An item arrives when its read begins.

    The first item is read at once, so that a missing or empty data set is refused before anything starts. With
    ``in_memory``, all items are, so that the disk does not limit the input rate (Garcia et al. 2023, section 4.1).
    """

    def __init__(self, app: App, path: Path | None, *, loop: bool, clock: Clock, in_memory: bool = False) -> None:
        if path is not None and not path.exists():
            raise RecomposeError(f"source path {str(path)!r} does not exist; give a file or folder of app {app.name!r}")
        self._app, self._path, self._loop, self._clock = app, path, loop, clock
        self._closed = threading.Event()
        self._items = self._all() if in_memory else None
        self._pass = self._open()
        self._passes = self._read = 0
        """Number of complete passes, and of items read in the present pass."""

    def _all(self) -> list[Any]:
        found = list(islice(self._app.items(self._path), MOST_IN_MEMORY + 1))
        if len(found) > MOST_IN_MEMORY:
            raise RecomposeError(f"app {self._app.name!r} has over {MOST_IN_MEMORY:,} items; leave in_memory out")
        return found

    def _open(self) -> Portions:
        values = iter(self._app.items(self._path) if self._items is None else self._items)
        for first in values:
            return Portions(chain([first], values), self._clock)
        where = f"the data set of app {self._app.name!r}" if self._path is None else f"source path {str(self._path)!r}"
        raise RecomposeError(f"{where} has no items")

    def read(self, most: int, until_s: float) -> Portion | None:
        while not self._closed.is_set():
            if (portion := self._pass.next(most, until_s)) is not None:
                return self._marked(portion)
            if not self._loop:
                return None
            self._pass = self._open()
            self._passes, self._read = self._passes + 1, 0
        return None

    def _marked(self, portion: Portion) -> Portion:
        begin = self._read
        self._read += len(portion.values)
        return portion._replace(marks=Counted("items", self._passes, range(begin + 1, self._read + 1)))

    def seek(self, positions: Mapping[str, Position]) -> None:
        """Continue from a position: read the earlier items again, and skip them."""
        position = positions.get("items")
        if isinstance(position, tuple):
            self._passes, self._read = position
            self._pass.skip(self._read)

    def commit(self, positions: Mapping[str, Position]) -> None:
        """Do nothing, as a data set keeps all items."""

    def close(self) -> None:
        self._closed.set()


class Video:
    """The items that an app makes of a video's frames, once or repeatedly; the end of a camera or stream is an error.

    The first frame is read at once, so that an invalid video, or an app that takes none, is refused before anything
    starts. A frame of a file arrives when its read begins, a camera's frame when it is there. If a file is repeated,
    the frame numbers continue.
    """

    def __init__(
        self, app: App, place: str | None, *, loop: bool, clock: Clock, capture: Callable[[str], Capture] = open_capture
    ) -> None:
        if place is None:
            raise RecomposeError("source video needs a path: a file, the number of a camera, or a URL")
        self._app, self._place, self._clock, self._capture = app, place, clock, capture
        self._loop = loop and Path(place).is_file()
        self._closed = threading.Event()
        self._first_pass = Frames(place, capture)
        app.from_frame(self._first_pass.first, 0)

    def __iter__(self) -> Iterator[Arrival]:
        frames, number = self._first_pass, 0
        while True:
            asked_s = self._clock()
            for image in frames:
                due_s = self._clock() if frames.live else None
                yield Arrival(due_s or asked_s, self._app.from_frame(image, number), due_s)
                if self._closed.is_set():
                    return
                number += 1
                asked_s = self._clock()
            if not self._loop:
                return
            frames = Frames(self._place, self._capture)

    def close(self) -> None:
        self._closed.set()


class GivenItems(Readable):
    """The given items, once. An item arrives when its read begins."""

    def __init__(self, items: Iterable[Any], *, clock: Clock) -> None:
        self._portions = Portions(iter(items), clock)
        self._closed = threading.Event()

    def read(self, most: int, until_s: float) -> Portion | None:
        return None if self._closed.is_set() else self._portions.next(most, until_s)

    def close(self) -> None:
        self._closed.set()
