"""A source whose broker forgets acknowledged messages: a queue of RabbitMQ, a session of MQTT.

It has no positions to go back to. So each message is stored with the run first, if the run stores anything, and
acknowledged then, as a push is: from there on the run's journal is what is read again.
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
"""Between two looks for room, in which the connection is kept alive."""
Store = Callable[[tuple[Any, ...], Sequence[Arrival]], object]
"""Gets messages, plain, and the items that they are; returns when they may be acknowledged."""
log = Logger()


class Letter(NamedTuple):
    """``receipt``: by which it is acknowledged; None where it needs none."""

    where: str
    body: bytes
    receipt: Any


class Box(Protocol):
    """A connection that gives messages. One thread, which asks often enough to keep it alive. Of each method: OSError
    when the place cannot be reached now, after which it is opened anew; RecomposeError when it never can."""

    def open(self) -> None:
        """Connects, anew after an error: what was not acknowledged comes again."""

    def poll(self, most: int, wait_s: float) -> Sequence[Letter]:
        """Return what has come, in order, waiting so long for the first. With ``most`` 0 nothing is taken."""

    def acknowledge(self, letters: Sequence[Letter]) -> None:
        """They are the run's. What comes again, as its acknowledgement was lost with the connection, is passed over as
        far as it is known again."""

    def refuse(self, letter: Letter) -> None:
        """It is none for this app."""

    def close(self) -> None:
        """Raises nothing."""


class Inbox(Readable):
    """A source that others push into; it implements ``Source``, ``Reader``, ``Filled`` and ``Elsewhere``. Its own
    thread empties the box, starting with the first read."""

    def __init__(self, app: App, box: Box, clock: Clock) -> None:
        self._app, self._box = app, box
        self.buffer = Push(MOST, clock=clock)
        """What came and was not read yet."""
        self._store: Store = lambda _, arrivals: self.buffer.extend(arrivals)
        self._closed = threading.Event()
        self._room = threading.Event()
        self._thread: threading.Thread | None = None
        self._error: Exception | None = None
        self._silence = Silence(type(box).__name__)
        self.is_open = False
        """The place has answered, and what comes to it comes here."""
        self.refused = 0
        """Messages that the app did not take."""

    @property
    def fault(self) -> str | None:
        return self._silence.fault

    def by_way_of(self, store: Store) -> None:
        """Before the first read: what stores messages, and gives their items to the buffer."""
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
        """Raises: what has ended it, but for closing."""
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
        except Exception as error:  # whatever it is ends the stream, and whoever reads is to see it
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
            if taken:  # in order: some places acknowledge all that came before
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
        """However long it takes. Raises: SourceClosed; RecomposeError where nothing can be stored any more."""
        while True:
            arrivals: list[Arrival] = []
            try:
                for item in items:  # as far as it gets: who stops may close the buffer meanwhile
                    arrivals.append(self.buffer.announced(item))  # noqa: PERF401
                self._store(plains, arrivals)
                return
            except BufferFull as error:
                self.buffer.withdraw(len(arrivals))
                log.warning("messages wait until they can be stored", error=str(error))
                self._wait_for_room()
            except BaseException:
                self.buffer.withdraw(len(arrivals))
                raise

    def _wait_for_room(self) -> None:
        """The connection is kept alive."""
        if self._closed.wait(AGAIN_S):
            raise SourceClosed("the app is stopping and takes no more items")
        self._box.poll(0, 0.0)
