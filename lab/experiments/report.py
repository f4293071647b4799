"""Report experiments in one HTML file that needs nothing from outside."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from lab.experiments.figures import Findings, Row, Spread
from lab.experiments.spec import Experiment

COLUMNS = ("contender", "items/s", "asked", "latency ms", "inside ms", "SLO met", "workers", "switches", "trials")
STYLE = """body{font:16px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;color:#1c2430}
img{max-width:100%}table{border-collapse:collapse;margin:1rem 0}td,th{padding:.25rem .8rem;text-align:right;
border-bottom:1px solid #d5dae1}td:first-child,th:first-child{text-align:left}h2{margin-top:2.5rem}
.facts{color:#4a5563;font-size:.9rem}"""


@dataclass(frozen=True, slots=True)
class Finding:
    """An experiment, what it found, and its plots as PNG by name."""

    experiment: Experiment
    results: Findings
    images: Mapping[str, bytes]


def html(found: Sequence[Finding]) -> str:
    """Return one page over all experiments: plots inline, tables, and the facts of the runs."""
    parts = [_section(each.experiment, each.results, each.images) for each in found]
    title = "Recompose: experiments"
    head = f'<meta charset="utf-8"><title>{title}</title><style>{STYLE}</style>'
    body = f"<h1>{title}</h1>{''.join(parts)}"
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{body}</body></html>'


def _section(experiment: Experiment, found: Findings, images: Mapping[str, bytes]) -> str:
    pictures = "".join(_image(f"{experiment.title}: {name}", png) for name, png in images.items())
    facts = ", ".join(f"{name} {value}" for name, value in found.metadata.items())
    ratios = "".join(
        f"<p>{escape(name)}: {_shown(each.throughput, 3)} of the best fixed throughput, "
        f"{_shown(each.latency, 3)} of the best fixed latency.</p>"
        for name, each in (found.against_best_static or {}).items()
    )
    return (
        f"<h2>{escape(experiment.title)}</h2><p>{escape(experiment.shows)}</p>{pictures}{_table(found)}{ratios}"
        f'<p class="facts">{escape(experiment.app)} on {experiment.driver} workers; {escape(facts)}</p>'
    )


def _image(says: str, png: bytes) -> str:
    return f'<img alt="{escape(says)}" src="data:image/png;base64,{base64.b64encode(png).decode()}">'


def _table(found: Findings) -> str:
    head = "".join(f"<th>{name}</th>" for name in COLUMNS)
    rows = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells(n, r))}</tr>" for n, r in found.rows.items()
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def cells(name: str, row: Row) -> list[str]:
    share = row.met_share
    return [
        name,
        _spread(row.achieved, row.achieved_per_s, 2),
        _shown(row.asked_per_s, 2),
        _spread(row.latency, row.latency_ms, 0),
        _shown(row.inside_ms, 0),
        "–" if share is None else f"{share:.0%}",
        _shown(row.workers, 1),
        _shown(row.switches, 0),
        _shown(row.trials, 0),
    ]


def _spread(spread: Spread | None, median: float | None, digits: int) -> str:
    """Mean ± standard deviation of several repetitions."""
    if spread is None or spread.deviation is None:
        return _shown(median, digits)
    return f"{_shown(spread.mean, digits)} ± {_shown(spread.deviation, digits)}"


def _shown(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"
