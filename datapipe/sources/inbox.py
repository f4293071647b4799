"""A source whose broker forgets acknowledged messages: a queue of RabbitMQ, a session of MQTT.

Such a source has no positions to return to. So, if the run is durable, each message is stored in the run's journal
before it is acknowledged, as a push is. After a failure, the journal is read again.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from apps.contract import App
from compositions.logger import Logger
from datapipe.sources.fed import AGAIN_S, LOOK_S, MOST, Silence, as_it_came, item_of, plain_of, refusal
from datapipe.sources.portions import Portion, Refused
from datapipe.sources.push import BufferFull, Push, SourceClosed
from datapipe.sources.sources import Arrival, Clock, Readable

FULL_LOOK_S = 0.01
"""Interval of checks for room, in which the connection is kept alive."""
Store = Callable[[tuple[Any, ...], Sequence[Arrival]], object]
"""Called with plain messages and their items; returns when the messages may be acknowledged."""
log = Logger()


class Letter(NamedTuple):
    """A received message. ``receipt``: the id to acknowledge it with; None if it needs no acknowledgement."""

    where: str
    body: bytes
    receipt: Any


class Box(Protocol):
    """A connection that delivers messages, used by one thread, which polls often enough to keep the connection alive.
    Each method raises OSError if the place cannot be reached now (then it is opened anew), RecomposeError if never."""

    def open(self) -> None:
        """Connect, also again after an error; unacknowledged messages then come again."""

    def poll(self, most: int, wait_s: float) -> Sequence[Letter]:
        """Return up to ``most`` messages in order; wait up to ``wait_s`` for the first. With ``most`` 0, take none."""

    def acknowledge(self, letters: Sequence[Letter]) -> None:
        """Acknowledge messages, which the run now has. If an acknowledgement is lost and the message comes again, it is
        skipped if it can be recognised."""

    def refuse(self, letter: Letter) -> None:
        """Refuse a message that the app does not accept."""

    def close(self) -> None:
        """Close the connection; must not raise."""


class Inbox(Readable):
    """A source that others push into; it implements ``Source``, ``Reader``, ``Filled`` and ``Elsewhere``. Its own
    thread empties the box, starting with the first read."""

    def __init__(self, app: App, box: Box, clock: Clock) -> None:
        self._app, self._box = app, box
        self.buffer = Push(MOST, clock=clock)
        """Items that were received and have not been read."""
        self._store: Store = lambda _, arrivals: self.buffer.extend(arrivals)
        self._closed = threading.Event()
        self._room = threading.Event()
        self._thread: threading.Thread | None = None
        self._error: Exception | None = None
        self._silence = Silence(type(box).__name__)
        self.is_open = False
        """True while connected to the place."""
        self.refused = 0
        """Number of messages that the app refused."""

    @property
    def fault(self) -> str | None:
        return self._silence.fault

    def by_way_of(self, store: Store) -> None:
        """Set the function that stores messages and passes their items to the buffer; call before the first read."""
        self._store = store

    # --- as a source ------------------------------------------------------------------------------------------------

    def read(self, most: int, until_s: float) -> Portion | None:
        self._begin()
        portion = self.buffer.read(most, until_s)
        self._room.set()
        if portion is None:
            self._end()
        return portion

    def dry(self) -> bool:
        return not self.buffer.waiting

    def at_hand(self, until_s: float) -> bool:
        self._begin()
        return self.buffer.at_hand(until_s)

    def close(self) -> None:
        self._closed.set()
        self.buffer.close()

    def _begin(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="inbox", daemon=True)
            self._thread.start()

    def _end(self) -> None:
        """Wait for the thread. Raises: the error that ended it, except closing."""
        if self._thread is not None:
            self._thread.join()
        if self._error is not None:
            raise self._error

    # --- its thread -------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._closed.is_set():
                self._turn()
        except SourceClosed:
            pass  # what was not stored stays where it is
        except Exception as error:  # any error ends the stream, and is raised to the reader
            self._error = error
        self.close()
        self._box.close()

    def _turn(self) -> None:
        try:
            if not self.is_open:
                self._box.open()
                self.is_open = True
                self._silence.over()
            self._take_some()
        except OSError as error:
            self.is_open = False
            self._silence.told(error)
            self._closed.wait(AGAIN_S)

    def _take_some(self) -> None:
        self._room.clear()
        room = MOST - self.buffer.waiting
        if room <= 0:
            self._box.poll(0, 0.0)
            self._room.wait(FULL_LOOK_S)
        elif letters := self._box.poll(room, LOOK_S):
            self._take(letters)

    def _take(self, letters: Sequence[Letter]) -> None:
        """Store messages and acknowledge them. Messages that the app refuses are stored first, too, as dead letters."""
        opened = [self._opened(letter) for letter in letters]
        self._keep(tuple(stored for stored, _ in opened), [item for _, item in opened])
        taken: list[Letter] = []
        for letter, (_, item) in zip(letters, opened, strict=True):
            if type(item) is not Refused:
                taken.append(letter)
                continue
            if taken:  # in order: some places acknowledge all earlier messages too
                self._box.acknowledge(taken)
                taken = []
            self.refused += 1
            self._box.refuse(letter)
        if taken:
            self._box.acknowledge(taken)

    def _opened(self, letter: Letter) -> tuple[Any, Any]:
        """Return the value to store for a message, and its item."""
        try:
            plain = plain_of(self._app, letter.body)
            return as_it_came(plain), item_of(self._app, plain)
        except Exception as error:  # any exception of an app concerns this message only
            refused = refusal(self._app, letter.where, error)
            return refused, refused

    def _keep(self, plains: tuple[Any, ...], items: Sequence[Any]) -> None:
        """Store messages, waiting as long as needed. Raises: SourceClosed; RecomposeError if storing is impossible."""
        while True:
            arrivals: list[Arrival] = []
            try:
                for item in items:  # no comprehension: an error must leave those announced so far
                    arrivals.append(self.buffer.announced(item))  # noqa: PERF401
                self._store(plains, arrivals)
                return
            except BufferFull as error:
                self.buffer.withdraw(len(arrivals))
                log.warning("messages cannot be stored now; the source waits", error=str(error))
                self._wait_for_room()
            except BaseException:
                self.buffer.withdraw(len(arrivals))
                raise

    def _wait_for_room(self) -> None:
        """Wait for room in the buffer, and keep the connection alive meanwhile. Raises: SourceClosed."""
        if self._closed.wait(AGAIN_S):
            raise SourceClosed("the app is stopping and accepts no more items")
        self._box.poll(0, 0.0)
