"""Report experiments in one HTML file that needs nothing from outside."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from datapipe.report.plots import page, table
from lab.experiments.figures import Findings, Row, Spread
from lab.experiments.spec import Experiment

COLUMNS = ("contender", "items/s", "asked", "latency ms", "inside ms", "SLO met", "workers", "switches", "trials")


@dataclass(frozen=True, slots=True)
class Finding:
    """An experiment, what it found, and its plots as PNG by name."""

    experiment: Experiment
    results: Findings
    images: Mapping[str, bytes]


def html(found: Sequence[Finding]) -> str:
    """Return one page over all experiments: plots inline, tables, and the facts of the runs."""
    return page("Recompose: experiments", [_section(each.experiment, each.results, each.images) for each in found])


def _section(experiment: Experiment, found: Findings, images: Mapping[str, bytes]) -> str:
    pictures = "".join(_image(f"{experiment.title}: {name}", png) for name, png in images.items())
    facts = ", ".join(f"{name} {value}" for name, value in found.metadata.items())
    ratios = "".join(
        f"<p>{escape(name)}: {_shown(each.throughput, 3)} of the best fixed throughput, "
        f"{_shown(each.latency, 3)} of the best fixed latency.</p>"
        for name, each in (found.against_best_static or {}).items()
    )
    rows = table(COLUMNS, [cells(name, row) for name, row in found.rows.items()])
    return (
        f"<h2>{escape(experiment.title)}</h2><p>{escape(experiment.shows)}</p>{pictures}{rows}{ratios}"
        f'<p class="note">{escape(experiment.app)} on {experiment.driver} workers; {escape(facts)}</p>'
    )


def _image(says: str, png: bytes) -> str:
    return f'<img alt="{escape(says)}" src="data:image/png;base64,{base64.b64encode(png).decode()}">'


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
    """Return mean ± standard deviation of several repetitions."""
    if spread is None or spread.deviation is None:
        return _shown(median, digits)
    return f"{_shown(spread.mean, digits)} ± {_shown(spread.deviation, digits)}"


def _shown(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"
