"""Report the comparison as one Markdown text: claims and their verdicts, then the tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from lab.papers.leonarczyk import published, tables
from lab.papers.leonarczyk.drawn import Against
from lab.papers.leonarczyk.grid import OURS, PUBLISHED, Row
from lab.papers.leonarczyk.plant import Pipeline
from lab.papers.leonarczyk.tables import Rows, itemized_hit, mad_distance
from lab.papers.report import Claim, as_table, document, markdown

STRICTEST = 0.05
POOR = ("spike", "binary", "wave")
"""Patterns that every published controller is poor on."""
AGREES, HITS_TIMES, MAD_TIMES, POOR_HIT, NEVER_BELOW = 0.10, 1.5, 0.7, 0.5, 0.05


def published_order(rows: Rows) -> Iterator[Claim]:
    """Judge the published order on the phase workload, at 5 %."""
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
    """Judge our defaults on the phase workload, at 5 %, against the best setup of the best of the six."""
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
    """Judge the same on workloads drawn at random."""
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
    """Return itemized hits and MAD distances of the six, each with its best setup."""
    hits = {name: rows.best(name, STRICTEST, itemized_hit).value for name in PUBLISHED}
    return hits, {name: rows.best(name, STRICTEST, mad_distance, False).value for name in PUBLISHED}


# --- the report -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Comparison:
    """The results of all runs."""

    rows: Sequence[Row]
    repeated: Sequence[Row]
    """The best setups at 5 %, several times; may be empty."""
    cases: Sequence[Against]
    """May be empty, too."""
    reachable: Row
    """A clairvoyant's result on the thesis's workload,"""
    pipeline: Pipeline
    """and the pipeline that it goes through."""
    facts: Mapping[str, str]

    def text(self) -> str:
        rows = Rows(self.rows)
        parts = [
            ("Batch controllers", _law(self.pipeline)),
            (
                "What it shows",
                f"{as_table([*published_order(rows), *ours(rows)])}\n\n{tables.of_the_reachable(rows, self.reachable)}",
            ),
            ("SLO hit, best setups (tables 5.1 and 5.5)", tables.hits(rows)),
            (
                "Ten runs of the best setups at 5 %: mean and standard deviation (table 5.2)",
                tables.deviations(rows, self.repeated) if self.repeated else "–",
            ),
            ("Itemized hit by pattern, mean over all combinations (table 5.3)", tables.patterns(rows)),
            ("SLO distance, best setups (tables 5.4 and 5.5)", tables.distances(rows)),
            ("Gains of PID (table 5.5)", tables.gains(rows)),
            ("Workloads drawn at random", _drawn(self.cases) if self.cases else "–"),
        ]
        return document(parts, self.facts)


def _law(pipeline: Pipeline) -> str:
    law, least = pipeline.law, [a + b for a, b in zip(pipeline.law.a_ms, pipeline.law.b_ms, strict=True)]
    return (
        f"Virtual time. What a bundle costs is {law.origin}: a + b · n ms from source to sink, with a from "
        f"{law.a_ms[0]:.3g} to {law.a_ms[-1]:.3g} and b from {law.b_ms[0]:.3g} to {law.b_ms[-1]:.3g} from the easiest "
        f"to the hardest tuple, so {least[0]:.3g} to {least[-1]:.3g} ms unbatched; {law.cv:.1%} noise a bundle, "
        f"{law.drift_cv:.0%} drift every {law.drift_bundles} bundles, {law.outliers:.1%} of them held up by "
        f"{law.held_up - 1:.0%}; {pipeline.in_flight} bundles in flight. All values per cent."
    )


def _drawn(cases: Sequence[Against]) -> str:
    beyond = sum(HITS_TIMES * case.best > case.reachable for case in cases)
    told = f"{HITS_TIMES} times the best is more than a clairvoyant hits in {beyond} of {len(cases)}."
    return f"{as_table(on_drawn(cases))}\n\n{told}\n\n{_cases(cases)}"


def _cases(cases: Sequence[Against]) -> str:
    head = [
        "seed",
        "patterns",
        "ours",
        "best of the six, tuned",
        "by",
        "as published",
        "a clairvoyant",
        "MAD ours",
        "MAD best",
    ]
    lines = [
        [str(case.seed), ", ".join(case.patterns), _share(case.ours), _share(case.best), f"`{case.best_controller}`"]
        + [_share(each) for each in (case.advised, case.reachable, case.ours_mad, case.best_mad)]
        for case in cases
    ]
    return markdown(head, lines)


def _share(value: float) -> str:
    return f"{value:.1%}"
