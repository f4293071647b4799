"""Assign events to windows, and decide when a window is over.

Times are numbers of any unit, whole ones if sums are to be exact. A watermark is the time that all later events are
expected to have reached.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import isfinite
from operator import index
from typing import NamedTuple

from compositions.errors import RecomposeError, shown

_PYTHONS = frozenset({int, float})


def plain(time: float) -> float:
    """Convert a whole number of NumPy to one of Python, as NumPy would compare it with a fraction inexactly."""
    if type(time) in _PYTHONS or not hasattr(time, "__index__"):
        return time
    with suppress(TypeError):  # an array is not a time; the error comes where it is used
        return index(time)
    return time


def steps_to(time: float, every: float) -> int:
    """Return how many times ``every`` it is to ``time``, rounded down: ``n * every <= time < (n + 1) * every``.

    A quotient would not do: 28333333 minutes less a nanosecond, in nanoseconds, are 28333333.0 minutes to it.
    Raises: RecomposeError for what is no time, or one so large that fractions cannot tell it from the next.
    """
    try:
        number = int(time // every)
        if number * every > time:
            number -= 1
        elif (number + 1) * every <= time:
            number += 1
        fits = number * every <= time < (number + 1) * every
    except (TypeError, ValueError, ArithmeticError):
        fits = False
    if not fits:
        raise _no_time(time, every)
    return number


def after(time: float, gap: float) -> float:
    """Return ``time`` plus ``gap``. Raises: RecomposeError for an invalid time, or one too large to change."""
    try:
        later = time + gap
        fits = time < later
    except (TypeError, ValueError, ArithmeticError):
        fits = False
    if not fits:
        raise _no_time(time, gap)
    return later


def above_zero(name: str, value: float) -> None:
    """Check that a setting is above 0. Raises: RecomposeError."""
    if not (_is_number(value) and value > 0):
        raise RecomposeError(f"{name} = {shown(value)}; must be a number above 0")


def not_below_zero(name: str, value: float) -> None:
    """Check that a setting is at least 0. Raises: RecomposeError."""
    if not (_is_number(value) and value >= 0):
        raise RecomposeError(f"{name} = {shown(value)}; must be a number, 0 or more")


def _is_number(value: float) -> bool:
    """Return whether it is a number; numbers of NumPy, Fraction and Decimal count too."""
    with suppress(TypeError, ValueError, OverflowError):
        return isinstance(value, int) or isfinite(value)
    return False


def _no_time(time: object, step: float) -> RecomposeError:
    return RecomposeError(
        f"the time {shown(time)} belongs to no window; it must be a finite number, small enough that"
        f" adding {step!r} changes it"
    )


class Window(NamedTuple):
    """A window includes ``start`` and excludes ``end``; a session includes ``end``. Both in the unit of the events."""

    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Sliding:
    """Windows of ``size`` that begin at every multiple of ``every``. Raises: RecomposeError unless both are above 0."""

    size: float
    every: float

    def __post_init__(self) -> None:
        above_zero("size", self.size)
        above_zero("every", self.every)

    def of(self, time: float) -> list[Window]:
        """Return the windows of an event, oldest first; none if ``every`` leaves gaps and the event is in one. Raises:
        RecomposeError for an invalid time, or one so large that its windows cannot be told apart."""
        time = plain(time)
        number = steps_to(time, self.every)
        windows = []
        while (end := self._end(number)) > time:
            windows.append(Window(number * self.every, end))
            number -= 1
        return windows[::-1]

    def _end(self, number: int) -> float:
        """Return the end; with fractions, a start plus a size may differ slightly from the next multiple."""
        return (number + 1) * self.every if self.size == self.every else number * self.every + self.size

    def is_over(self, window: Window, watermark: float) -> bool:
        return window.end <= watermark

    def too_late(self, windows: Sequence[Window], time: float, watermark: float) -> list[Window]:
        """Return the windows of an event that are over."""
        return [window for window in windows if self.is_over(window, watermark)]


class Tumbling(Sliding):
    """Consecutive windows of ``size``. Raises: RecomposeError if it is not above 0."""

    __slots__ = ()

    def __init__(self, size: float) -> None:
        super().__init__(size, size)


@dataclass(frozen=True, slots=True)
class Sessions:
    """Windows around events, each at most ``gap`` from the next; they end ``gap`` after the last event. Raises:
    RecomposeError if ``gap`` is not above 0."""

    gap: float

    def __post_init__(self) -> None:
        above_zero("gap", self.gap)

    def of(self, time: float) -> list[Window]:
        """Return the window of the event alone, which the caller merges with windows that it touches. Raises:
        RecomposeError for an invalid time, or one so large that adding ``gap`` does not change it."""
        return [Window(time, after(time, self.gap))]

    def is_over(self, window: Window, watermark: float) -> bool:
        """Return whether the window is over: only after its end, as an event at its end still belongs to it."""
        return window.end < watermark

    def too_late(self, windows: Sequence[Window], time: float, watermark: float) -> list[Window]:
        """Return all windows or none, by the event's own time, because its session may have been emitted already."""
        return list(windows) if time < watermark else []


WindowKind = Sliding | Sessions
