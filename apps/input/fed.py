"""A source that others fill: a broker's topic, a folder. What is read of it becomes items of the app.

An adapter (``Feed``) knows one kind of place and nothing else. Here is what they have in common: bodies become items,
one that the app refuses is passed over and told, a place that does not answer is asked again, closing ends a wait.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import structlog
from pydantic_core import from_json

from apps.contract import App
from apps.input.portions import Portion
from apps.input.positions import Mark, Position
from apps.input.sources import Arrival, Clock, one_by_one
from compositions.errors import RecomposeError

LOOK_S = 0.1
"""Longest single wait for a message, so that closing is noticed."""
AGAIN_S = 0.5
"""Between two attempts to reach a place that does not answer."""
MOST = 512
"""Messages asked for at once."""
REFUSALS = (ValueError, TypeError, KeyError, RecomposeError)
"""Of an app that does not take a message."""
log = structlog.get_logger()


class Message(NamedTuple):
    """``behind``: where the partition goes on after this one. A body of bytes is JSON where it can be read as such."""

    partition: str
    behind: Position
    body: Any


class Feed(Protocol):
    """One place that can be read from positions. One thread at a time."""

    def seek(self, positions: Mapping[str, Position]) -> None:
        """Goes on from there; a partition that is not named from its beginning. Also after an error.

        Raises: OSError when it cannot be reached now.
        """

    def poll(self, most: int, wait_s: float) -> Sequence[Message]:
        """What is there, waiting so long for the first; a partition's messages in order.

        Raises: OSError when it cannot be reached now; RecomposeError when it never can.
        """

    def commit(self, positions: Mapping[str, Position]) -> None:
        """All before is done for good. Raises: OSError when it cannot be told now."""

    @property
    def ended(self) -> bool:
        """Nothing will come any more."""

    def close(self) -> None: ...


class Silence:
    """Of a place that does not answer: it goes into the log when it begins, has another reason, and is over, and not at
    every attempt."""

    def __init__(self, source: str) -> None:
        self._source = source
        self.fault: str | None = None

    def told(self, error: OSError) -> None:
        why = f"the source does not answer and is asked again: {error}"
        if why != self.fault:
            log.warning("source does not answer and is asked again", source=self._source, error=str(error))
        self.fault = why

    def over(self) -> None:
        if self.fault is not None:
            log.info("source answers", source=self._source)
            self.fault = None


class Fed:
    """As ``Source``, ``Reader``, ``Positioned`` and ``Elsewhere``."""

    def __init__(self, app: App, feed: Feed, clock: Clock) -> None:
        self._app, self._feed, self._clock, self._name = app, feed, clock, type(feed).__name__
        self._closed = threading.Event()
        self._ready: deque[tuple[float, Any, Mark]] = deque()
        """Read, and not asked for yet."""
        self._positions: dict[str, Position] = {}
        """Behind what was read."""
        self._done: Mapping[str, Position] | None = None
        """To be told to the feed, which is this thread's alone."""
        self._begun = False
        self._silence = Silence(self._name)
        self.refused = 0
        """Messages that the app did not take."""

    @property
    def read_ahead(self) -> int:
        """Items that were read and not asked for yet."""
        return len(self._ready)

    @property
    def fault(self) -> str | None:
        return self._silence.fault

    # --- as a source ------------------------------------------------------------------------------------------------

    def seek(self, positions: Mapping[str, Position]) -> None:
        self._positions = dict(positions)

    def commit(self, positions: Mapping[str, Position]) -> None:
        self._done = positions

    def read(self, most: int, until_s: float) -> Portion | None:
        while not self._ready and not self._closed.is_set() and not self._feed.ended:
            self._fill(LOOK_S)
        if not self._ready or self._closed.is_set():
            self._end()
            return None
        came = [self._ready.popleft() for _ in range(min(most, len(self._ready)))]
        times, values, marks = zip(*came, strict=True)
        return Portion(list(values), times, times, marks)

    def at_hand(self, until_s: float) -> bool:
        if not self._ready and not self._feed.ended:
            self._fill(min(LOOK_S, max(0.0, until_s - self._clock())))
        return bool(self._ready)

    def __iter__(self) -> Iterator[Arrival]:
        return one_by_one(self)

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
            self._take(came)
        except OSError as error:
            self._silence.told(error)
            self._begun = False
            self._closed.wait(AGAIN_S)

    def _tell(self) -> None:
        done, self._done = self._done, None
        if done:
            try:
                self._feed.commit(done)
            except OSError:
                self._done = self._done or done
                raise

    def _take(self, messages: Sequence[Message]) -> None:
        """They came together: one clock for all."""
        arrived_s, ready, app = self._clock(), self._ready, self._app
        for message in messages:
            partition, behind, body = message
            self._positions[partition] = behind
            try:
                ready.append((arrived_s, item_of(app, plain_of(app, body)), message[:2]))
            except REFUSALS as error:
                self.refused += 1
                where = f"{partition} before {behind}"
                log.warning("message refused", source=self._name, where=where, error=f"{app.name}: {error}")

    def _end(self) -> None:
        try:
            self._tell()
            self._feed.close()
        except OSError as error:
            log.warning("source was not told how far it was read", source=self._name, error=str(error))


def plain_of(app: App, body: Any) -> Any:
    """Bytes are JSON, unless they cannot be and the app says what it makes of bytes. Raises: ValueError."""
    if not isinstance(body, bytes):
        return body
    try:
        return _plain(body)
    except ValueError:
        if type(app).from_binary is App.from_binary:
            raise
        return body


def item_of(app: App, plain: Any) -> Any:
    """Raises: whatever the app refuses it with."""
    return app.from_binary(plain) if isinstance(plain, bytes) else app.from_json(plain)


def _plain(body: bytes) -> Any:
    """As ``json.loads``, which has the last word (other encodings, lone surrogates), in a fifth of the time.
    Raises: ValueError."""
    try:
        return from_json(body)
    except ValueError:
        return json.loads(body)


def without_user(url: str) -> str:
    """For sentences: a URL may carry a password, which may have a slash in it, so all up to the last ``@`` goes."""
    scheme, slashes, rest = url.partition("//")
    return scheme + slashes + rest.rpartition("@")[2]


def whole(who: str, options: Mapping[str, Any], name: str, usual: int, most: int) -> int:
    """An option that is a number of something. Raises: RecomposeError."""
    given = options.get(name, usual)
    if type(given) is float and given.is_integer():
        given = int(given)
    if type(given) is not int or not 1 <= given <= most:
        raise RecomposeError(f"option {name} of {who} is {given!r}; give a whole number from 1 to {most:,}")
    return given
