"""Arithmetic of times: exact with whole numbers of any size, and consistent with fractions."""

from __future__ import annotations

from math import isfinite
from operator import index

from compositions.errors import RecomposeError, shown

_PYTHONS = frozenset({int, float})


def plain(time: float) -> float:
    """A whole number of NumPy's as one of Python's: with a fraction beside it NumPy compares the two as fractions."""
    if type(time) in _PYTHONS or not hasattr(time, "__index__"):
        return time
    try:
        return index(time)
    except TypeError:  # an array: no time, as is said where it is placed
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
    try:
        return isinstance(value, int) or isfinite(value)
    except (TypeError, ValueError, OverflowError):
        return False


def _no_time(time: object, step: float) -> RecomposeError:
    return RecomposeError(
        f"the time {shown(time)} cannot be placed; it must be a number, finite, and not so large that {step!r} more"
        " makes no difference"
    )
