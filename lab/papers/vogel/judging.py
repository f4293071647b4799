"""Verdicts on what is printed, from recorded runs, and their wording.

An order of two means counts as reproduced when they differ by more than both standard deviations, and as a trend
otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean, stdev

from lab.papers.report import Verdict
from lab.papers.vogel.record import Run

POINTS = 5.0
"""Percentage points within which a printed difference counts as reproduced."""
EQUAL = 0.05
"""Share within which throughputs count as equal."""


def command(experiment: str) -> str:
    return f"recompose experiment lab/benchmarks/experiments/{experiment}.yaml"


def values(runs: Sequence[Run], of: Callable[[Run], float | None]) -> list[float]:
    return [value for run in runs if (value := of(run)) is not None]


def latency(run: Run) -> float | None:
    return run.latency_ms


def rate(run: Run) -> float:
    return run.achieved_per_s


def shown(found: Sequence[float], digits: int = 0, unit: str = "", times: float = 1.0) -> str:
    """Mean ± standard deviation."""
    spread = f" ± {times * spread_of(found):.{digits}f}" if len(found) > 1 else ""
    return f"{times * fmean(found):.{digits}f}{spread}{unit}"


def spread_of(found: Sequence[float]) -> float:
    return stdev(found) if len(found) > 1 else 0.0


def less(small: Sequence[float], large: Sequence[float]) -> Verdict:
    """Return the verdict on a mean that is printed as smaller than the other."""
    margin = fmean(large) - fmean(small)
    if margin <= 0:
        return "not reproduced"
    return "reproduced" if margin > max(spread_of(small), spread_of(large)) else "trend only"


def worst(*verdicts: Verdict) -> Verdict:
    """Return the verdict on a statement of several parts."""
    order: list[Verdict] = ["reproduced", "trend only", "not reproduced", "not run"]
    return max(verdicts, key=order.index)


def holds(found: bool) -> Verdict:
    return "reproduced" if found else "not reproduced"


def near(found: float, printed: float) -> Verdict:
    """Return the verdict on a printed difference in per cent."""
    if abs(found - printed) <= POINTS:
        return "reproduced"
    return "trend only" if found * printed > 0 else "not reproduced"
