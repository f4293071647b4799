"""Timers by event time: what a stage wants to be reminded of, with the time when. They are a part of its state."""

from __future__ import annotations

from math import inf

from compositions.errors import RecomposeError, shown

Timers = tuple[tuple[float, str], ...]
"""Times and names, earliest first."""


def with_timer(timers: Timers, at: float, name: str) -> Timers:
    """Sets a timer; one of that name is moved. Raises: RecomposeError for what is no time; ``END`` is one."""
    try:
        fits = at <= inf  # not a number is not
    except (TypeError, ArithmeticError):  # the latter of a Decimal
        fits = False
    if not fits:
        raise RecomposeError(f"the time {shown(at)} of timer {shown(name)}; must be a number, or END")
    return tuple(sorted((*without_timer(timers, name), (at, name))))


def without_timer(timers: Timers, name: str) -> Timers:
    """Takes a timer back, if it is set."""
    return tuple(timer for timer in timers if timer[1] != name)


def due(timers: Timers, watermark: float) -> tuple[Timers, Timers]:
    """Those whose time has come, earliest first, and the others."""
    count = sum(at <= watermark for at, _ in timers)
    return timers[:count], timers[count:]
