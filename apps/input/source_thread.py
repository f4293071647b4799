"""The thread between a source and the engine: reads, paces, encodes, and hands over through a small buffer."""

from __future__ import annotations

import math
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from apps.input.gathering import Gathering, piece
from apps.input.hand_over import Encoded, HandOver
from apps.input.pacing import FrequencyManager
from apps.input.portions import Portion
from apps.input.push import Push
from apps.input.rates import Rate
from apps.input.schedule import Offer
from apps.input.sources import Clock, Source, reader_of
from compositions.batching import BundleLimits
from compositions.errors import RecomposeError


@dataclass(frozen=True, slots=True)
class SourceLimits:
    """How far a source may go."""

    capacity: int = 2
    """Payloads that are handed over and not taken yet; more, and the source waits."""
    items: int | None = None
    """End after so many; None: when the source ends."""
    catch_up_s: float = 0.05
    """A source that was held back makes up for what was due in this time (s), faster than the input rate; what is
    older is missed. SPBench's frequency is an upper limit, which it makes up for nothing of."""


class SourceThread:
    """Runs one source. All methods but ``start`` may be called from any thread.

    ``encode`` turns a list of values into what travels to workers; it may be heavy, so it runs here. ``wake`` is called
    when there is something to take after there was nothing, and when the source has finished. While the hand-over
    (:mod:`apps.input.hand_over`) is full the source waits (overload policy ``block``); a consumer that sheds takes all
    that is there and drops the oldest itself.
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
        self._stopping = threading.Event()
        self._error: str | None = None
        self._given = 0
        """Items that were handed over."""
        self._last_offer: Offer | None = None
        self._pacing = FrequencyManager(pattern, clock=clock, wait=self._stopping.wait, catch_up_s=limits.catch_up_s)
        self._gathering = Gathering(reader_of(source), self._pacing, clock)
        self._thread = threading.Thread(target=self._run, name="source", daemon=True)

    def start(self) -> None:
        self._pacing.begin()
        self._thread.start()

    def stop(self, *, drain: bool = True) -> None:
        """No more items from a data set. With ``drain``, what was read or pushed before can still be taken (the
        consumer goes on until ``finished``); without, what was not handed over yet is dropped."""
        self._source.close()
        self._stopping.set()
        if not drain:
            self._hand_over.abandon()

    def join(self, timeout_s: float | None = None) -> bool:
        """Waits for the thread; False when it still runs, as in a read that does not return."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def take(self, most: int | None = None) -> list[Encoded]:
        """Up to ``most`` payloads (all when None) in order; does not wait."""
        return self._hand_over.take(most)

    def set_patient(self, patient: bool) -> None:
        """Whether the consumer has more than it can use, and need not hear of every item."""
        self._hand_over.set_patient(patient)

    @property
    def held_back(self) -> bool:
        """It waits, or will with what it reads next, until something is taken."""
        return self._hand_over.full

    @property
    def finished(self) -> bool:
        """The source has ended, by itself, by ``stop`` or by an error, and every item handed over was taken."""
        return self._hand_over.finished

    @property
    def error(self) -> str | None:
        """Why the source ended early: the sentence of a RecomposeError, or a traceback."""
        return self._error

    @property
    def missed(self) -> int:
        """Slots of the input rate that passed unused while the source was blocked."""
        return self._pacing.missed

    def offer(self) -> Offer:
        """What the input rate asked for so far, or what came by itself, and how far behind it the source is. When the
        source has ended, nothing more is asked for."""
        if isinstance(self._source, Push):
            return self._source.offer()
        return self._last_offer or self._pacing.offer()

    def set_batching(self, limits: BundleLimits) -> None:
        """When bundles are closed from now on."""
        self._gathering.limits = limits

    @property
    def batching(self) -> BundleLimits:
        """When bundles are closed now."""
        return self._gathering.limits

    def set_pattern(self, pattern: Rate | None) -> None:
        self._pacing.set_pattern(pattern)

    def offered_per_s(self, now_s: float) -> float | None:
        """The input rate that is asked for at ``now_s``; ``None`` when unpaced."""
        return self._pacing.offered_per_s(now_s)

    def _run(self) -> None:
        try:
            self._pump()
        except RecomposeError as error:
            self._error = str(error)
        except Exception:  # an app's own code: whatever it raises ends the stream, and must be seen
            self._error = traceback.format_exc()
        self._source.close()
        self._last_offer = self._offer_at_end()
        self._hand_over.end()

    def _offer_at_end(self) -> Offer:
        """Of a source that ended by itself, no item is due any more; of one that was stopped, what was due by then."""
        known = self._pacing.offer()
        behind, lag_s = (known.behind, known.lag_s) if self._stopping.is_set() else (0, 0.0)
        return Offer(self._gathering.read + known.missed + behind, known.missed, behind, lag_s)

    def _pump(self) -> None:
        left = math.inf if self._limits.items is None else self._limits.items
        while left > 0 and (portion := self._gathering.next(left)) is not None:
            left -= len(portion.values)
            self._give(portion)

    def _give(self, portion: Portion) -> None:
        """Raises: RecomposeError for an item that cannot be sent; those before it are handed over."""
        assert portion.due_s is not None, "gathered items are due since some time"
        try:
            encoded = Encoded(self._encode(portion.values), portion.arrived_s, portion.due_s, portion.marks)
        except Exception:
            if (unfit := self._unfit(portion.values)) is None:
                raise
            at, why = unfit
            if at:
                self._give(piece(portion, 0, at))
            kind = type(portion.values[at]).__name__
            what = f"item {self._given} of the source, a {kind}, cannot be sent to a worker"
            raise RecomposeError(f"{what} ({type(why).__name__}: {why}); it must be what pickle takes") from why
        self._hand_over.put(encoded, int(len(portion.values) * self._gathering.item_bytes))
        self._given += len(portion.values)

    def _unfit(self, values: Sequence[Any]) -> tuple[int, Exception] | None:
        """The first of these that cannot be sent by itself, and why."""
        for at, value in enumerate(values):
            try:
                self._encode([value])
            except Exception as error:
                return at, error
        return None
