"""Claims of the comparison and their verdicts: the published order, published values, and ours against them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from lab.papers.claims import Claim
from lab.papers.leonarczyk import published
from lab.papers.leonarczyk.drawn import Against
from lab.papers.leonarczyk.grid import OURS, PUBLISHED
from lab.papers.leonarczyk.tables import Rows, itemized_hit, mad_distance

STRICTEST = 0.05
POOR = ("spike", "binary", "wave")
"""Patterns that every published controller is poor on."""
AGREES, HITS_TIMES, MAD_TIMES, POOR_HIT, NEVER_BELOW = 0.10, 1.5, 0.7, 0.5, 0.05


def published_order(rows: Rows) -> Iterator[Claim]:
    """On the phase workload, 5 %."""
    hits, distances = _bests(rows)
    by_hit = sorted(PUBLISHED, key=lambda name: -hits[name])
    by_distance = sorted(PUBLISHED, key=lambda name: distances[name])
    yield Claim("itemized hit: pmbaf and pid best", " > ".join(by_hit), set(by_hit[:2]) == {"pmbaf", "pid"})
    yield Claim("MAD distance: pmbaf and pid best", " < ".join(by_distance), set(by_distance[:2]) == {"pmbaf", "pid"})
    yield Claim("MAD distance: faf worst", by_distance[-1], by_distance[-1] == "faf")
    off = {name: hits[name] - published.ITEMIZED_HIT[name][0] / 100 for name in PUBLISHED}
    told = ", ".join(f"{name} {100 * each:+.1f}" for name, each in off.items())
    yield Claim(
        "itemized hits within 10 points of the published", told, all(abs(each) <= AGREES for each in off.values())
    )


def ours(rows: Rows) -> Iterator[Claim]:
    """Untouched defaults on the phase workload, 5 %, against the best setup of the best of the six."""
    hits, distances = _bests(rows)
    hit, distance = (rows.best(OURS, STRICTEST, *each).value for each in ((itemized_hit, True), (mad_distance, False)))
    ratio = hit / max(hits.values())
    yield Claim(
        f"itemized hit at least {HITS_TIMES} times the best", f"{hit:.1%}, {ratio:.2f} times", ratio >= HITS_TIMES
    )
    ratio = distance / min(distances.values())
    yield Claim(
        f"MAD distance at most {MAD_TIMES} times the best", f"{distance:.1%}, {ratio:.2f} times", ratio <= MAD_TIMES
    )
    row = next(row for row in rows.of(OURS) if row.threshold == STRICTEST)
    for pattern in POOR:
        share = row.by_pattern[pattern].itemized_hit
        yield Claim(f"itemized hit on {pattern} at least {POOR_HIT:.0%}", f"{share:.1%}", share >= POOR_HIT)


def on_drawn(cases: Sequence[Against]) -> Iterator[Claim]:
    """The same on workloads drawn at random."""
    worst = min(case.ours - case.best for case in cases)
    yield Claim(
        "never more than 5 points below the best of the six", f"worst {100 * worst:+.1f}", worst >= -NEVER_BELOW
    )
    for against, theirs in (
        ("tuned to it", [case.best for case in cases]),
        ("as published", [case.advised for case in cases]),
    ):
        ratios = sorted(case.ours / best for case, best in zip(cases, theirs, strict=True))
        text = f"itemized hit at least {HITS_TIMES} times the best of the six, {against}"
        yield Claim(text, _spread(ratios), ratios[0] >= HITS_TIMES)
    ratios = sorted(case.ours_mad / case.best_mad for case in cases)
    yield Claim(
        f"MAD distance at most {MAD_TIMES} times the best, tuned to it", _spread(ratios), ratios[-1] <= MAD_TIMES
    )


def _spread(ratios: Sequence[float]) -> str:
    return f"{ratios[0]:.2f} … {ratios[-1]:.2f}, median {median(ratios):.2f}"


def _bests(rows: Rows) -> tuple[dict[str, float], dict[str, float]]:
    """Itemized hits and MAD distances of the six, each of its best setup."""
    hits = {name: rows.best(name, STRICTEST, itemized_hit).value for name in PUBLISHED}
    return hits, {name: rows.best(name, STRICTEST, mad_distance, False).value for name in PUBLISHED}
