"""Verdicts on what is printed, from recorded runs. An order of two means counts as reproduced when they differ by more
than both standard deviations, and as a trend otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev

from lab.papers.report import Verdict
from lab.papers.vogel.record import Run

NEAR = 1 / 3
"""Share of a printed difference by which ours may be off and count as reproduced."""
EQUAL = 0.05
"""Share within which throughputs count as equal."""


def command(experiment: str) -> str:
    return f"recompose experiment lab/benchmarks/experiments/{experiment}.yaml"


def values(runs: Sequence[Run], name: str) -> list[float]:
    """Return a field of the runs, where it is known."""
    return [float(value) for run in runs if (value := getattr(run, name)) is not None]


def shown(found: Sequence[float], digits: int = 0, times: float = 1.0) -> str:
    """Mean ± standard deviation."""
    spread = f" ± {times * _spread(found):.{digits}f}" if len(found) > 1 else ""
    return f"{times * fmean(found):.{digits}f}{spread}"


def less(small: Sequence[float], large: Sequence[float]) -> Verdict:
    """Return the verdict on a mean that is printed as smaller than the other."""
    margin = fmean(large) - fmean(small)
    if margin <= 0:
        return "not reproduced"
    return "reproduced" if margin > max(_spread(small), _spread(large)) else "trend only"


def _spread(found: Sequence[float]) -> float:
    return stdev(found) if len(found) > 1 else 0.0


def worst(*verdicts: Verdict) -> Verdict:
    """Return the verdict on a statement of several parts."""
    order: list[Verdict] = ["reproduced", "trend only", "not reproduced", "not run"]
    return max(verdicts, key=order.index)


def holds(found: bool) -> Verdict:
    return "reproduced" if found else "not reproduced"


def near(found: float, printed: float) -> Verdict:
    """Return the verdict on a printed difference in per cent."""
    if abs(found - printed) <= NEAR * abs(printed):
        return "reproduced"
    return "trend only" if found * printed > 0 else "not reproduced"
