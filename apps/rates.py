"""Input-rate patterns: pure functions from elapsed seconds to items/s.

The patterns are those of Garcia et al. 2023 (SPBench), section 3.3, in closed form: the paper steps a frequency
variable whenever an item arrives, here the rate follows from the elapsed time alone, so it does not depend on how often
it is asked for. Any other callable of the same shape is a pattern too (``Custom``).
"""

import inspect
import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from compositions.errors import RecomposeError
from compositions.wording import figure

Rate = Callable[[float], float]
"""A function from seconds since the pattern was set to items/s (0 or more, finite)."""


@dataclass(frozen=True)
class Fixed:
    """A constant rate."""

    rate_per_s: float

    def __post_init__(self) -> None:
        _require_positive("rate_per_s", self.rate_per_s)

    def __call__(self, elapsed_s: float) -> float:
        return self.rate_per_s


@dataclass(frozen=True)
class _Ranged:
    """The common part of the paper's patterns: a period in seconds and a range in items/s."""

    period_s: float
    min_per_s: float
    max_per_s: float

    def __post_init__(self) -> None:
        _require_positive("period_s", self.period_s)
        if not 0 <= self.min_per_s < self.max_per_s < math.inf:
            raise RecomposeError(
                f"min_per_s = {figure(self.min_per_s, 6)}, max_per_s = {figure(self.max_per_s, 6)}: "
                "must be 0 <= min_per_s < max_per_s"
            )

    @property
    def span_per_s(self) -> float:
        return self.max_per_s - self.min_per_s

    def phase(self, elapsed_s: float) -> float:
        """Return the position in the cycle, 0 ≤ phase < 1."""
        return (elapsed_s / self.period_s) % 1.0


class Wave(_Ranged):
    """Sine around the middle of the range, starting there and rising (section 3.3.1, equation 1)."""

    def __call__(self, elapsed_s: float) -> float:
        amplitude = self.span_per_s / 2
        return amplitude * math.sin(2 * math.pi * self.phase(elapsed_s)) + amplitude + self.min_per_s


class Binary(_Ranged):
    """Minimum for half a period, then maximum for the other half (section 3.3.2)."""

    def __call__(self, elapsed_s: float) -> float:
        return self.min_per_s if self.phase(elapsed_s) < 0.5 else self.max_per_s


class Increasing(_Ranged):
    """Linear from minimum to maximum over one period, then maximum (section 3.3.3)."""

    def __call__(self, elapsed_s: float) -> float:
        return self.min_per_s + self.span_per_s * min(1.0, elapsed_s / self.period_s)


class Decreasing(_Ranged):
    """Linear from maximum to minimum over one period, then minimum (section 3.3.3)."""

    def __call__(self, elapsed_s: float) -> float:
        return self.max_per_s - self.span_per_s * min(1.0, elapsed_s / self.period_s)


@dataclass(frozen=True)
class Spike(_Ranged):
    """Minimum, then a linear ramp to the maximum in the last ``size_percent`` of each period (section 3.3.4)."""

    size_percent: float = 10.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.size_percent <= 100:
            raise RecomposeError(f"size_percent = {figure(self.size_percent, 6)}: must be above 0 and at most 100")

    def __call__(self, elapsed_s: float) -> float:
        size = self.size_percent / 100
        into = self.phase(elapsed_s) - (1 - size)
        return self.min_per_s + self.span_per_s * max(0.0, into / size)


@dataclass(frozen=True)
class Trace:
    """Recorded arrivals, compressed or stretched to ``period_s`` and repeated.

    The rate is constant within each of ``BINS`` equal bins of the period: the arrivals that fall into the bin, divided
    by its length, so that one period brings as many items as were recorded. With ``max_per_s`` all rates are scaled
    so that the busiest bin has that one.
    """

    arrivals_s: tuple[float, ...]
    period_s: float
    max_per_s: float | None = None

    BINS = 100

    def __post_init__(self) -> None:
        _require_positive("period_s", self.period_s)
        if self.max_per_s is not None:
            _require_positive("max_per_s", self.max_per_s)
        if len(set(self.arrivals_s)) < 2:
            raise RecomposeError("a trace must have arrivals at two or more different times, or it has no duration")

    def __call__(self, elapsed_s: float) -> float:
        return self._rates_per_s[int((elapsed_s / self.period_s) % 1.0 * self.BINS)]

    @cached_property
    def _rates_per_s(self) -> tuple[float, ...]:
        times = sorted(self.arrivals_s)
        length_s = times[-1] - times[0]
        edges = [bisect_left(times, times[0] + length_s * k / self.BINS) for k in range(self.BINS)]
        counts = [stop - start for start, stop in zip(edges, [*edges[1:], len(times)], strict=True)]
        scale = self.BINS / self.period_s if self.max_per_s is None else self.max_per_s / max(counts)
        return tuple(count * scale for count in counts)


@dataclass(frozen=True)
class Custom:
    """A user's function of the elapsed seconds, and optionally of the items, since the pattern was set (section 3.4).

    Listing 1, 10 items/s and 0.5 more with each item, is ``lambda elapsed_s, items: 10 + 0.5 * items``. All rates are
    multiplied by ``factor``. Raises: RecomposeError at the call when the function returns anything but a finite rate of
    0 or more.
    """

    function: Callable[..., float]
    factor: float = 1.0

    def __call__(self, elapsed_s: float, items: float = 0.0) -> float:
        rate_per_s = self.function(elapsed_s, items) if self.counts_items else self.function(elapsed_s)
        if not (isinstance(rate_per_s, int | float) and 0 <= rate_per_s < math.inf):
            raise RecomposeError(
                f"the custom pattern returned {rate_per_s!r} at {figure(elapsed_s, 6)} s; "
                "must be items/s, 0 or more and finite"
            )
        return self.factor * rate_per_s

    @cached_property
    def counts_items(self) -> bool:
        """Return whether the function takes the number of items."""
        try:
            inspect.signature(self.function).bind(0.0, 0.0)
        except (TypeError, ValueError):  # one parameter, or an unknown signature, as of a builtin
            return False
        return True


def rate_now(rate: Rate, elapsed_s: float, items: float) -> float:
    """Return the rate after this time in seconds and this number of items since the pattern was set."""
    return rate(elapsed_s, items) if isinstance(rate, Custom) else rate(elapsed_s)


def _require_positive(name: str, value: float) -> None:
    if not 0 < value < math.inf:
        raise RecomposeError(f"{name} = {figure(value, 6)}: must be above 0 and finite")
