"""The comparison as one Markdown text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lab.papers.claims import as_table, markdown
from lab.papers.leonarczyk import claims, tables
from lab.papers.leonarczyk.drawn import Against
from lab.papers.leonarczyk.grid import Row
from lab.papers.leonarczyk.plant import Pipeline
from lab.papers.leonarczyk.tables import Rows


@dataclass(frozen=True, slots=True)
class Comparison:
    """All that was run."""

    rows: Sequence[Row]
    repeated: Sequence[Row]
    """The best setups at 5 %, several times; may be empty."""
    cases: Sequence[Against]
    """May be empty, too."""
    reachable: Row
    """What a clairvoyant comes to on the thesis's workload,"""
    pipeline: Pipeline
    """and the pipeline that it goes through."""
    facts: Mapping[str, str]

    def text(self) -> str:
        rows = Rows(self.rows)
        parts = [
            ("Batch controllers", _law(self.pipeline)),
            (
                "What it shows",
                f"{as_table([*claims.published_order(rows), *claims.ours(rows)])}\n\n"
                f"{tables.of_the_reachable(rows, self.reachable)}",
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
            ("Facts", "\n".join(f"- {name}: {value}" for name, value in self.facts.items())),
        ]
        return "\n\n".join(f"## {title}\n\n{text}" for title, text in parts) + "\n"


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
    beyond = sum(claims.HITS_TIMES * case.best > case.reachable for case in cases)
    told = f"{claims.HITS_TIMES} times the best is more than a clairvoyant hits in {beyond} of {len(cases)}."
    return f"{as_table(claims.on_drawn(cases))}\n\n{told}\n\n{_cases(cases)}"


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
