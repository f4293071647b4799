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
    """A whole number of NumPy's as one of Python's: with a fraction beside it NumPy compares the two as fractions."""
    if type(time) in _PYTHONS or not hasattr(time, "__index__"):
        return time
    with suppress(TypeError):  # an array: no time, as is said where it is placed
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
    """``gap`` later. Raises: RecomposeError for what is no time, or one so large that this is the same."""
    try:
        later = time + gap
        fits = time < later
    except (TypeError, ValueError, ArithmeticError):
        fits = False
    if not fits:
        raise _no_time(time, gap)
    return later


def above_zero(name: str, value: float) -> None:
    """Raises: RecomposeError for another setting."""
    if not (_is_number(value) and value > 0):
        raise RecomposeError(f"{name} = {shown(value)}; must be a number above 0")


def not_below_zero(name: str, value: float) -> None:
    """Raises: RecomposeError for another setting."""
    if not (_is_number(value) and value >= 0):
        raise RecomposeError(f"{name} = {shown(value)}; must be a number, 0 or more")


def _is_number(value: float) -> bool:
    """Also one of NumPy's, a Fraction or a Decimal."""
    with suppress(TypeError, ValueError, OverflowError):
        return isinstance(value, int) or isfinite(value)
    return False


def _no_time(time: object, step: float) -> RecomposeError:
    return RecomposeError(
        f"the time {shown(time)} cannot be placed; it must be a number, finite, and not so large that {step!r} more"
        " makes no difference"
    )


class Window(NamedTuple):
    """A window includes ``start`` and excludes ``end``; a session includes ``end``. Both in the unit of the events."""

    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Sliding:
    """Windows of ``size`` that begin at every multiple of ``every``. Raises: RecomposeError when one is not above 0."""

    size: float
    every: float

    def __post_init__(self) -> None:
        above_zero("size", self.size)
        above_zero("every", self.every)

    def of(self, time: float) -> list[Window]:
        """Oldest first; none where ``every`` leaves gaps and the event is in one. Raises: RecomposeError for what is no
        time, or one so large that windows there cannot be told apart."""
        time = plain(time)
        number = steps_to(time, self.every)
        windows = []
        while (end := self._end(number)) > time:
            windows.append(Window(number * self.every, end))
            number -= 1
        return windows[::-1]

    def _end(self, number: int) -> float:
        """With fractions, a start and a size do not come to the next multiple exactly."""
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
    """Windows around events of which none is further than ``gap`` from the next; they end ``gap`` after the last.
    Raises: RecomposeError when ``gap`` is not above 0."""

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
        """All or none, by the event's own time: the session that it belonged to may be told already."""
        return list(windows) if time < watermark else []


WindowKind = Sliding | Sessions
