"""All figures as one Markdown text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lab.papers.claims import as_table, markdown
from lab.papers.prasaad import claims
from lab.papers.prasaad.figures import ASK, CAPACITY, CROWDING, RING, SEND, SLICE, WINDOW, Figure


def report(figures: Sequence[Figure], facts: Mapping[str, str]) -> str:
    """Claims first, then a table a figure, and what they were made with."""
    parts = [("What it shows", as_table(claims.all_of({figure.name: figure for figure in figures})))]
    parts += [(f"Figure {figure.name}: {figure.title}", _table(figure)) for figure in figures]
    told = {**facts, "assumed": _assumed()}
    parts.append(("Facts", "\n".join(f"- {name}: {value}" for name, value in told.items())))
    return "\n\n".join(f"## {title}\n\n{text}" for title, text in parts) + "\n"


def _assumed() -> str:
    return (
        f"a question costs {ASK:.1%} and an output {SEND:.1%} of what an input costs in the pipeline, a further worker "
        f"at an operator {CROWDING:.0%} of its time; slice {SLICE:g} inputs, window {WINDOW:g}, C "
        f"{CAPACITY} tuples, ring {RING:,}; single operators (9, 10, 12, 13) without these"
    )


def _table(figure: Figure) -> str:
    head = [*figure.varies, "inputs/s", "of the bound", "latency, ms", "worker time an input, µs", "longest worklists"]
    lines = []
    for varied, run in figure.rows:
        figures = (f"{run.throughput_per_s:,.0f}", f"{run.share:.2f}", f"{run.latency_ms:.3g}", f"{run.worker_us:.3g}")
        lines.append([*map(str, varied), *figures, ", ".join(f"{longest:,}" for longest in run.longest)])
    return markdown(head, lines)
