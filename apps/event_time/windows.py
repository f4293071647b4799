"""Assign events to windows, and tell when a window is over.

Times are numbers of any unit, whole ones if sums are to be exact. A watermark is the time that all later events are
expected to have reached.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from apps.event_time.numbers import above_zero, after, plain, steps_to


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
    """Windows of ``size``, one after the other. Raises: RecomposeError when it is not above 0."""

    __slots__ = ()

    def __init__(self, size: float) -> None:
        super().__init__(size, size)


@dataclass(frozen=True, slots=True)
class Sessions:
    """Windows around events of which none is further than ``gap`` from the next; they end ``gap`` after the last.

    Raises: RecomposeError when ``gap`` is not above 0.
    """

    gap: float

    def __post_init__(self) -> None:
        above_zero("gap", self.gap)

    def of(self, time: float) -> list[Window]:
        """Return the window of the event alone; it merges with those that it touches. Raises: RecomposeError for
        what is no time, or one so large that ``gap`` later is the same."""
        return [Window(time, after(time, self.gap))]

    def is_over(self, window: Window, watermark: float) -> bool:
        """Only after its end: an event at that moment would still belong to it."""
        return window.end < watermark

    def too_late(self, windows: Sequence[Window], time: float, watermark: float) -> list[Window]:
        """All or none, by the event's own time: the session that it belonged to may be told already."""
        return list(windows) if time < watermark else []


WindowKind = Sliding | Sessions
