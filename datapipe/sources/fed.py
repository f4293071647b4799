"""A source that others fill, such as a broker's topic or a folder. Each message or line becomes an item of the app.

An adapter (``Feed``) handles one kind of place. This module has the common part: it converts bodies to items, turns
refused ones into dead letters, retries a place that does not answer, and ends a wait on closing.
"""

import json
import pickle
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from pydantic_core import from_json

from apps.contract import App
from apps.expectations import read_item
from compositions.errors import RecomposeError
from compositions.logger import Logger
from datapipe.sources.portions import Closing, Mark, Portion, Position, Refused
from datapipe.sources.sources import Clock, Readable

LOOK_S = 0.1
"""Maximum single wait for a message, so that closing is noticed."""
AGAIN_S = 0.5
"""Pause between attempts to reach a place that does not answer."""
MOST = 512
"""Maximum number of messages per request."""
ON_GAP = ("end", "go-on")
log = Logger()


class Message(NamedTuple):
    """A message of a feed. ``behind``: the position of the partition after this message. None: the partition has ended,
    and the message has no item. A body of bytes is JSON if it can be parsed as JSON; a body that is an exception says
    why the message cannot be read."""

    partition: str
    behind: Position | None
    body: Any


class Feed(Protocol):
    """A place that can be read from positions. Used by one thread at a time."""

    def seek(self, positions: Mapping[str, Position]) -> None:
        """Continue from these positions; partitions that are not named, from their beginning. Also called after an
        error. Raises: OSError if the place cannot be reached now."""

    def poll(self, most: int, wait_s: float) -> Sequence[Message]:
        """Return waiting messages, up to ``most``, each partition's in order; wait up to ``wait_s`` for the first.
        Raises: OSError if the place cannot be reached now; RecomposeError if it never can."""

    def commit(self, positions: Mapping[str, Position]) -> None:
        """Record that all messages before these positions are complete. Raises: OSError if that is impossible now."""

    @property
    def ended(self) -> bool:
        """True if no more messages will come."""

    def close(self) -> None: ...


class Silence:
    """Logs when a place stops answering, when the reason changes, and when it answers again; not every attempt."""

    def __init__(self, source: str) -> None:
        self._source = source
        self.fault: str | None = None

    def told(self, error: OSError) -> None:
        why = f"the source does not answer; trying again: {error}"
        if why != self.fault:
            log.warning("source does not answer; trying again", source=self._source, error=str(error))
        self.fault = why

    def over(self) -> None:
        if self.fault is not None:
            log.info("source answers again", source=self._source)
            self.fault = None


class Fed(Readable):
    """A reader of a feed: a ``Source``, ``Reader``, ``Positioned``, ``Filled``, ``Left`` and ``Elsewhere``."""

    def __init__(self, app: App, feed: Feed, clock: Clock) -> None:
        self._app, self._feed, self._clock, self._name = app, feed, clock, type(feed).__name__
        self._closed = threading.Event()
        self._ready: deque[tuple[float, Any, Mark]] = deque()
        """Items that were received and have not been read."""
        self._over: set[str] = set()
        """Partitions that ended since the last read; all items read from them have been taken."""
        self._positions: dict[str, Position] = {}
        self._done: Mapping[str, Position] | None = None
        """Positions to commit; only the reading thread may use the feed."""
        self._begun = self._left = False
        self._came = 0
        """Number of messages in the last answer; if it is the number that was requested, there are probably more."""
        self._silence = Silence(self._name)
        self.refused = 0
        """Number of messages that the app refused."""

    @property
    def fault(self) -> str | None:
        return self._silence.fault

    # --- as a source ------------------------------------------------------------------------------------------------

    def seek(self, positions: Mapping[str, Position]) -> None:
        self._positions = dict(positions)

    def commit(self, positions: Mapping[str, Position]) -> None:
        self._done = {**(self._done or {}), **positions}

    def read(self, most: int, until_s: float) -> Portion | None:
        while not self._ready and not self._closed.is_set() and not self._feed.ended:
            self._fill(LOOK_S)
        if not self._ready or self._closed.is_set():
            self.leave()
            return None
        came = [self._ready.popleft() for _ in range(min(most, len(self._ready)))]
        times, values, marks = zip(*came, strict=True)
        return Portion(list(values), times, times, self._closing(marks) if self._over else marks)

    def _closing(self, marks: tuple[Mark, ...]) -> Closing:
        over, self._over = frozenset(self._over), set()
        return Closing(marks, over)

    def dry(self) -> bool:
        return not self._ready and self._came < MOST

    def at_hand(self, until_s: float) -> bool:
        if not self._ready and not self._feed.ended:
            self._fill(min(LOOK_S, max(0.0, until_s - self._clock())))
        return bool(self._ready)

    def close(self) -> None:
        self._closed.set()

    # --- its thread -------------------------------------------------------------------------------------------------

    def _fill(self, wait_s: float) -> None:
        try:
            if not self._begun:
                self._feed.seek(self._positions)
                self._begun = True
            self._tell()
            came = self._feed.poll(MOST, wait_s)
            self._silence.over()
            self._came = len(came)
            self._take(came)
        except OSError as error:
            self._silence.told(error)
            self._begun, self._came = False, 0
            self._closed.wait(AGAIN_S)

    def _tell(self) -> None:
        done, self._done = self._done, None
        if done:
            try:
                self._feed.commit(done)
            except OSError:
                self._done = {**done, **(self._done or {})}
                raise

    def _take(self, messages: Sequence[Message]) -> None:
        """Convert messages that came together to items, with one arrival time."""
        arrived_s, ready, app = self._clock(), self._ready, self._app
        for message in messages:
            partition, behind, body = message
            if behind is None:
                self._positions.pop(partition, None)
                self._over.add(partition)
                continue
            self._over.discard(partition)  # the partition has started again meanwhile
            self._positions[partition] = behind
            try:
                value = item_of(app, plain_of(app, body))
            except Exception as error:  # any exception of an app concerns this message only
                self.refused += 1
                value = refusal(app, f"{partition} before {behind}", error)
            ready.append((arrived_s, value, (partition, behind)))

    def leave(self) -> None:
        if self._left:
            return
        self._left = True
        try:
            try:
                self._tell()
            finally:
                self._feed.close()
        except (OSError, RecomposeError) as error:
            log.warning("position not reported; the source may send items again", source=self._name, error=str(error))


def plain_of(app: App, body: Any) -> Any:
    """Return the body parsed as JSON, or the bytes themselves if they are not JSON and the app has ``from_binary``.
    Raises: ValueError; a body that is an exception."""
    if not isinstance(body, bytes):
        if isinstance(body, Exception):
            raise body
        return body
    try:
        return _plain(body)
    except ValueError:
        if type(app).from_binary is App.from_binary:
            raise
        return body


def item_of(app: App, plain: Any) -> Any:
    """Return the app's item for a parsed body. Raises: the app's error if it refuses the body."""
    return app.from_binary(plain) if isinstance(plain, bytes) else read_item(app, plain)


def refusal(app: App, where: str, error: Exception) -> Refused:
    """Return a placeholder for a message at ``where`` that the app refuses."""
    log.warning("message refused", where=where, error=f"{app.name}: {type(error).__name__}: {error}")
    return Refused(f"{app.name} does not accept this message ({where}): {why_of(error)}")


def why_of(error: Exception) -> str:
    """Return the sentence of an app's refusal; before it the type of an exception that was not expected."""
    return str(error) if isinstance(error, ValueError | RecomposeError) else f"{type(error).__name__}: {error}"


class AsItCame:
    """A copy of a value for storage, which stays as it is whatever an app does with the value afterwards."""

    def __init__(self, value: Any) -> None:
        self._pickled = pickle.dumps(value, protocol=5)

    def __reduce__(self) -> tuple[Any, ...]:
        return pickle.loads, (self._pickled,)


def as_it_came(value: Any) -> Any:
    """Return a copy of ``value`` for storage, made before an app may change it. Raises: whatever pickle raises."""
    return value if type(value) in _UNCHANGING else AsItCame(value)


_UNCHANGING = frozenset({str, bytes, int, float, bool, type(None)})


def _plain(body: bytes) -> Any:
    """Return the parsed JSON, in a fifth of the time of ``json.loads``. Raises: ValueError."""
    try:
        return from_json(body)
    except ValueError:
        return json.loads(body)  # also accepts other encodings and lone surrogates


def check_options(who: str, options: Mapping[str, Any], names: Sequence[str]) -> None:
    """Check the names of options. Raises: RecomposeError for an option that is none of ``names``."""
    if strange := sorted(set(options) - set(names)):
        known = " and ".join(names) if len(names) == 2 else ", ".join(names)
        raise RecomposeError(f"{who} has no option {strange[0]!r}; it has {known}")


def goes_on(who: str, options: Mapping[str, Any]) -> bool:
    """Return option ``on_gap``: may a run go on if its place dropped unread items? Raises: RecomposeError."""
    if (on_gap := options.get("on_gap", ON_GAP[0])) not in ON_GAP:
        raise RecomposeError(f"option on_gap of {who} is {on_gap!r}; give {' or '.join(ON_GAP)}")
    return bool(on_gap != ON_GAP[0])


def whole(who: str, options: Mapping[str, Any], name: str, usual: int, most: int) -> int:
    """Return an option that is a whole number from 1 to ``most``. Raises: RecomposeError."""
    given = options.get(name, usual)
    if type(given) is float and given.is_integer():
        given = int(given)
    if type(given) is not int or not 1 <= given <= most:
        raise RecomposeError(f"option {name} of {who} is {given!r}; give a whole number from 1 to {most:,}")
    return given
