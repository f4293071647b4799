"""The thread between a source and the engine: reads, paces and encodes items, and passes them on through a buffer."""

import math
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from apps.rates import Rate
from compositions.batching import BundleLimits
from compositions.errors import RecomposeError
from datapipe.sources.gathering import Gathering, piece
from datapipe.sources.pacing import FrequencyManager
from datapipe.sources.portions import Marks, Portion, Refused
from datapipe.sources.push import Push
from datapipe.sources.schedule import Offer
from datapipe.sources.sources import Clock, Filled, Left, Reader, Source, reader_of

PATIENT_ITEMS = 64
PATIENT_S = 0.02
"""Time after which a ``patient`` consumer is woken, if the buffer is not full earlier."""
MOST_BYTES = 4 * 2**20
"""Size at which the buffer counts as full, as no other memory limit includes it."""


class Encoded(NamedTuple):
    """Items that were read and travel together: their values encoded as one payload, and the times of each."""

    payload: Any
    arrived_s: tuple[float, ...]
    due_s: tuple[float, ...]
    marks: Marks | None = None
    """The source's position after each item; None: the source has no positions."""
    error: str | None = None
    """Reason why the app refuses these items; there is no payload then."""


class HandOver:
    """A buffer of ``capacity`` payloads; ``put`` waits while it is full. Thread-safe.

    ``wake`` is called when the empty buffer gets a payload, and at the end. A ``patient`` consumer has more than it can
    process, as with overload ``shed``, and is woken less often: a wake for every item would cost more than the item.
    """

    def __init__(self, capacity: int, wake: Callable[[], None], clock: Clock) -> None:
        self._capacity, self._wake, self._clock = capacity, wake, clock
        self._changed = threading.Condition()
        self._ready: deque[tuple[Encoded, int]] = deque()
        """Waiting payloads, each with its approximate size in bytes."""
        self._abandoned = self._ended = False
        self._told = False
        """True if the consumer has been woken for the waiting payloads."""
        self._patient = False

    def put(self, encoded: Encoded, size_bytes: int = 0) -> None:
        """Add a payload, waiting for room; drop it after ``abandon``."""
        with self._changed:
            self._changed.wait_for(lambda: not self._full or self._abandoned)
            if self._abandoned:
                return
            self._ready.append((encoded, size_bytes))
            tell = not self._told and self._wanted
            self._told = self._told or tell
        if tell:
            self._wake()

    def take(self, most: int | None = None) -> list[Encoded]:
        """Return up to ``most`` payloads (None: all) in order, without waiting."""
        if not self._ready:  # the usual case, as the consumer asks several times per item: no lock
            return []
        with self._changed:
            count = len(self._ready) if most is None else min(most, len(self._ready))
            taken = [self._ready.popleft()[0] for _ in range(count)]
            self._told = self._told and bool(self._ready)
            self._changed.notify_all()
            return taken

    def set_patient(self, patient: bool) -> None:
        """Set whether the consumer has enough payloads for now."""
        if patient == self._patient:
            return
        with self._changed:
            self._patient = patient
            tell = bool(self._ready) and not self._told and self._wanted
            self._told = self._told or tell
            self._changed.notify_all()
        if tell:
            self._wake()

    def abandon(self) -> None:
        """Drop all further payloads."""
        with self._changed:
            self._abandoned = True
            self._changed.notify_all()

    def end(self) -> None:
        with self._changed:
            self._ended = True
        self._wake()

    @property
    def finished(self) -> bool:
        return self._ended and not self._ready  # no lock needed in this order: no payload comes after the end

    @property
    def _full(self) -> bool:
        room = max(self._capacity, PATIENT_ITEMS) if self._patient else self._capacity
        return len(self._ready) >= room or sum(size for _, size in self._ready) >= MOST_BYTES

    @property
    def _wanted(self) -> bool:
        """Return whether to wake the consumer for the waiting payloads."""
        if not self._patient:
            return True
        return self._full or self._clock() - self._ready[0][0].arrived_s[0] >= PATIENT_S


@dataclass(frozen=True, slots=True)
class SourceLimits:
    """The limits of a source."""

    capacity: int = 2
    """Maximum number of payloads in the buffer to the engine; the source waits while it is full."""
    items: int | None = None
    """Number of items after which to end; None: when the source ends."""
    catch_up_s: float = 0.05
    """Time, in seconds, for whose due items a blocked source makes up, faster than the input rate; older items are
    missed. SPBench's frequency is an upper limit, and makes up for none."""


class SourceThread:
    """Runs one source. All methods except ``start`` may be called from any thread.

    ``encode`` turns a list of values into a payload; it runs in this thread, as it may take long. ``wake`` is called
    when the empty buffer (``hand_over``) gets a payload, and when the source has finished. While the buffer is full,
    the source waits (overload policy ``block``); a consumer that sheds takes all payloads and drops the oldest itself.
    """

    def __init__(
        self,
        source: Source,
        pattern: Rate | None,
        *,
        clock: Clock,
        wake: Callable[[], None],
        encode: Callable[[list[Any]], Any] = lambda values: values,
        limits: SourceLimits | None = None,
    ) -> None:
        self._source, self._encode = source, encode
        self._limits = limits = limits or SourceLimits()
        self._hand_over = HandOver(limits.capacity, wake, clock)
        self.take, self.set_patient = self._hand_over.take, self._hand_over.set_patient
        self._stopping = threading.Event()
        self.error: str | None = None
        """Reason why the source ended early: the message of a RecomposeError, or a traceback; else None."""
        self._last_offer: Offer | None = None
        self._filled = isinstance(source, Filled)
        dry = source.dry if isinstance(source, Filled) else bool
        wait, catch_up_s = self._stopping.wait, limits.catch_up_s
        self._pacing = FrequencyManager(pattern, clock=clock, wait=wait, catch_up_s=catch_up_s, dry=dry)
        self.offered_per_s = self._pacing.offered_per_s
        reader = reader_of(source)
        self._gathering = Gathering(_Awaited(reader, self._pacing) if self._filled else reader, self._pacing, clock)
        self._thread = threading.Thread(target=self._run, name="source", daemon=True)

    def start(self) -> None:
        self._pacing.begin()
        self._thread.start()

    def stop(self, *, drain: bool = True) -> None:
        """Stop reading. With ``drain``, items that were read or pushed before can still be taken, until ``finished``;
        without, items that are not in the buffer yet are dropped."""
        self._source.close()
        self._stopping.set()
        if not drain:
            self._hand_over.abandon()

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait for the thread; return False if it still runs, for example in a read that does not return."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    @property
    def finished(self) -> bool:
        """True if the source has ended, by itself, by ``stop`` or by an error, and the buffer is empty."""
        return self._hand_over.finished

    def offer(self) -> Offer:
        """Return the items due so far by the input rate, or arrived by themselves, and how far the source is behind.
        After the source has ended, no more items become due."""
        if isinstance(self._source, Push):
            return self._source.offer()
        return self._last_offer or self._present_offer()

    def set_batching(self, limits: BundleLimits) -> None:
        """Replace the limits at which bundles are closed."""
        self._gathering.limits = limits

    @property
    def batching(self) -> BundleLimits:
        """The limits at which bundles are closed."""
        return self._gathering.limits

    def set_pattern(self, pattern: Rate | None) -> None:
        self._pacing.set_pattern(pattern)

    def _run(self) -> None:
        try:
            self._pump()
        except RecomposeError as error:
            self.error = str(error)
        except Exception:  # an app's own code: any error ends the stream, and must be reported
            self.error = traceback.format_exc()
        self._source.close()
        if isinstance(self._source, Left):
            self._source.leave()  # after an error or the last item, no further read would do so
        self._last_offer = self._offer_at_end()
        self._hand_over.end()

    def _present_offer(self) -> Offer:
        """Return the offer up to now. A slot taken before its item is there counts if items are due by schedule."""
        known = self._pacing.offer()
        read = self._gathering.read + known.missed + known.behind
        return known._replace(slots=read) if self._filled else known

    def _offer_at_end(self) -> Offer:
        """Return the items due. A source that ended by itself has none; one that was stopped has those due by then."""
        known = self._pacing.offer()
        behind, lag_s = (known.behind, known.lag_s) if self._stopping.is_set() else (0, 0.0)
        return Offer(self._gathering.read + known.missed + behind, known.missed, behind, lag_s)

    def _pump(self) -> None:
        left = math.inf if self._limits.items is None else self._limits.items
        while left > 0 and (portion := self._gathering.next(left)) is not None:
            left -= len(portion.values)
            for each in _apart(portion):
                self._give(each)

    def _give(self, portion: Portion) -> None:
        """Hand over a portion. An item that cannot be sent to a worker becomes a dead letter in its place."""
        assert portion.due_s is not None, "gathered items are due since some time"
        if isinstance(refused := portion.values[0], Refused):
            self._hand_over.put(Encoded(None, portion.arrived_s, portion.due_s, portion.marks, refused.why))
            return
        try:
            encoded = Encoded(self._encode(portion.values), portion.arrived_s, portion.due_s, portion.marks)
        except Exception:
            values = [_fitting(self._encode, value) for value in portion.values]
            if not any(isinstance(value, Refused) for value in values):
                raise
            for each in _apart(portion._replace(values=values)):
                self._give(each)
            return
        self._hand_over.put(encoded, int(len(portion.values) * self._gathering.item_bytes))


def _fitting(encode: Callable[[list[Any]], Any], value: Any) -> Any:
    """Return the value, or a refusal if it alone cannot be sent to a worker."""
    try:
        encode([value])
    except Exception as error:
        what = f"an item of the source, a {type(value).__name__}, cannot be sent to a worker"
        return Refused(f"{what} ({type(error).__name__}: {error}); it must be picklable")
    return value


class _Awaited:
    """A reader of a source that others fill; the time in which the source is empty does not count for pacing."""

    def __init__(self, reader: Reader, pacing: FrequencyManager) -> None:
        self._reader, self._pacing = reader, pacing

    def read(self, most: int, until_s: float) -> Portion | None:
        self._pacing.waits(waits=True)
        try:
            return self._reader.read(most, until_s)
        finally:
            self._pacing.waits(waits=False)

    def at_hand(self, until_s: float) -> bool:
        self._pacing.waits(waits=True)
        try:
            return self._reader.at_hand(until_s)
        finally:
            self._pacing.waits(waits=False)


def _apart(portion: Portion) -> Iterator[Portion]:
    """Split a portion: each refused item alone, and the items between them together."""
    at = [at for at, value in enumerate(portion.values) if type(value) is Refused] if Refused.made else []
    if not at:
        yield portion
        return
    edges = sorted({0, *at, *(each + 1 for each in at), len(portion.values)})
    for begin, end in pairwise(edges):
        yield piece(portion, begin, end)
