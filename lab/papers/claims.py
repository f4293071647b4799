"""Claims of a comparison and their verdicts; and tables, as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Claim:
    text: str
    measured: str
    met: bool


def as_table(found: Iterable[Claim]) -> str:
    lines = [[claim.text, claim.measured, "yes" if claim.met else "**no**"] for claim in found]
    return markdown(["claim", "measured", "met"], lines)


def markdown(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rule = ["---"] * len(head)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rule, *lines))
