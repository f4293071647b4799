"""Reports of the papers' comparisons: findings and their verdicts, Markdown tables, and CSV files."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Literal


def write_csv(path: Path, head: Sequence[str], lines: Iterable[Sequence[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(head)
        writer.writerows(lines)


Verdict = Literal["reproduced", "trend only", "not reproduced", "not run"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A figure or table of a paper: the printed result, ours, and a verdict computed from both."""

    item: str
    printed: str
    ours: str
    verdict: Verdict
    why: str
    command: str


def of_findings(found: Iterable[Finding]) -> str:
    """Return a table in Markdown."""
    head = ["item", "printed", "ours", "reproduced"]
    short = {"reproduced": "yes", "not reproduced": "no"}
    lines = [
        [each.item, each.printed, each.ours, ": ".join(filter(None, [short.get(each.verdict, each.verdict), each.why]))]
        for each in found
    ]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *lines))


NEAR = 1 / 3
"""Share of a printed difference by which ours may differ and still count as reproduced."""
EQUAL = 0.05
"""Share within which throughputs count as equal."""


def command(experiment: str) -> str:
    return f"recompose experiment lab/benchmarks/experiments/{experiment}.yaml"


def between(found: Collection[float], form: str = ".2f") -> str:
    """Return the lowest and the highest value."""
    low, high = (f"{each:{form}}" for each in (min(found), max(found)))
    return low if low == high else f"{low} to {high}"


def less(small: Sequence[float], large: Sequence[float]) -> Verdict:
    """Return the verdict on a mean that the paper prints as smaller than another."""
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
    """Return the verdict on a difference printed in per cent."""
    if abs(found - printed) <= NEAR * abs(printed):
        return "reproduced"
    return "trend only" if found * printed > 0 else "not reproduced"
