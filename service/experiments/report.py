"""What an experiment found: figures, a table, and one HTML file that needs nothing from outside."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape
from math import ceil, inf, sqrt
from statistics import fmean, median
from typing import Any

from service.experiments.contender import Run, Sample
from service.experiments.spec import Experiment

COLUMNS = ("contender", "items/s", "asked", "latency ms", "SLO met", "workers", "switches", "trials")
SUSTAINED = 0.9
"""Share of the sustainable rate up to which a rate is expected to be followed."""
SPAN_ITEMS = 20
STYLE = """body{font:16px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;color:#1c2430}
img{max-width:100%}table{border-collapse:collapse;margin:1rem 0}td,th{padding:.25rem .8rem;text-align:right;
border-bottom:1px solid #d5dae1}td:first-child,th:first-child{text-align:left}h2{margin-top:2.5rem}
.facts{color:#4a5563;font-size:.9rem}"""


def results(
    experiment: Experiment, runs: Sequence[Run], facts: Mapping[str, Any], sustainable_per_s: float = inf
) -> dict[str, Any]:
    """``results.json``: medians over the repetitions, and what they are compared with."""
    names = list(dict.fromkeys(run.contender for run in runs))
    limit_per_s = SUSTAINED * sustainable_per_s
    rows = {name: _row(experiment, [run for run in runs if run.contender == name], limit_per_s) for name in names}
    return {"title": experiment.title, "metadata": dict(facts), "rows": rows, **_against_static(experiment, rows)}


def _row(experiment: Experiment, runs: Sequence[Run], limit_per_s: float) -> dict[str, Any]:
    latencies = [run.latency_ms for run in runs if run.latency_ms is not None]
    shares = [run.met_share for run in runs if run.met_share is not None]
    return {
        "achieved_per_s": median(run.achieved_per_s for run in runs),
        "asked_per_s": median(run.asked_per_s for run in runs),
        "latency_ms": median(latencies) if latencies else None,
        "met_share": median(shares) if shares else None,
        "workers": median(run.workers for run in runs),
        "switches": median(run.switches for run in runs),
        "trials": median(run.trials for run in runs),
        **_tracking(experiment, runs, limit_per_s),
        "settled_on": [run.samples[-1].composition for run in runs if run.samples],
    }


def _tracking(experiment: Experiment, runs: Sequence[Run], limit_per_s: float) -> dict[str, float]:
    """How the items that enter follow the asked rate while that is at most ``limit_per_s``: the mean achieved over the
    mean asked, and the root mean square of the difference over the mean asked. (Those that leave follow later, and
    after an overload a backlog with them.)"""
    pairs = [pair for run in runs for pair in _sustainable(_spans(run, experiment.warm_up_s), limit_per_s)]
    asked = fmean(each for _, each in pairs) if pairs else 0.0
    if not asked:
        return {}
    error = sqrt(fmean((got - each) ** 2 for got, each in pairs)) / asked
    return {"achieved_of_asked": fmean(got for got, _ in pairs) / asked, "shape_error": error}


def _sustainable(spans: Sequence[tuple[float, float]], limit_per_s: float) -> list[tuple[float, float]]:
    """Those that do not ask for more; nor did the one before, whose full buffers would hold the source back."""
    before = [(0.0, 0.0), *spans]
    return [span for last, span in zip(before, spans, strict=False) if max(last[1], span[1]) <= limit_per_s]


def _spans(run: Run, warm_up_s: float) -> list[tuple[float, float]]:
    """Achieved and asked items/s, over spans of a second or so many that they have ``SPAN_ITEMS`` in the mean: that
    items are whole is no error of the rate."""
    counted = [sample for sample in run.samples if sample.at_s > warm_up_s]
    if len(counted) < 2 or not run.asked_per_s:
        return []
    gap_s = (counted[-1].at_s - counted[0].at_s) / (len(counted) - 1)
    size = max(2, ceil(SPAN_ITEMS / (run.asked_per_s * gap_s)))
    spans = [counted[start : start + size] for start in range(0, len(counted) - size + 1, size)]
    return [(fmean(map(_entered_per_s, span)), fmean(sample.rate_per_s or 0.0 for sample in span)) for span in spans]


def _entered_per_s(sample: Sample) -> float:
    return sample.throughput_per_s if sample.entered_per_s is None else sample.entered_per_s


def _against_static(experiment: Experiment, rows: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Each strategy against the best fixed composition in each figure (Vogel et al., figures 7 and 8)."""
    fixed = [row for name, row in rows.items() if name not in experiment.strategies]
    if not fixed:
        return {}
    best_rate = max(_sustained_per_s(row) for row in fixed)
    best_latency = min((row["latency_ms"] for row in fixed if row["latency_ms"] is not None), default=None)
    return {
        "against_best_static": {
            name: {
                "throughput": _sustained_per_s(rows[name]) / best_rate if best_rate else None,
                "latency": _ratio(rows[name]["latency_ms"], best_latency),
            }
            for name in experiment.strategies
        }
    }


def _sustained_per_s(row: Mapping[str, Any]) -> float:
    """More than was asked for is a backlog of the warm-up that is worked off."""
    return float(min(row["achieved_per_s"], row["asked_per_s"]))


def _ratio(value: float | None, other: float | None) -> float | None:
    return value / other if value is not None and other else None


def html(found: Sequence[tuple[Experiment, Mapping[str, Any], Mapping[str, bytes]]]) -> str:
    """One page over all experiments: their plots inline, their tables, the facts of their runs."""
    parts = [_section(experiment, result, images) for experiment, result, images in found]
    title = "Recompose: experiments"
    head = f'<meta charset="utf-8"><title>{title}</title><style>{STYLE}</style>'
    body = f"<h1>{title}</h1>{''.join(parts)}"
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{body}</body></html>'


def _section(experiment: Experiment, result: Mapping[str, Any], images: Mapping[str, bytes]) -> str:
    pictures = "".join(_image(f"{experiment.title}: {name}", png) for name, png in images.items())
    facts = ", ".join(f"{name} {value}" for name, value in result["metadata"].items())
    ratios = "".join(
        f"<p>{escape(name)}: {_shown(each['throughput'], 3)} of the best fixed throughput, "
        f"{_shown(each['latency'], 3)} of the best fixed latency.</p>"
        for name, each in result.get("against_best_static", {}).items()
    )
    return (
        f"<h2>{escape(experiment.title)}</h2><p>{escape(experiment.shows)}</p>{pictures}{_table(result)}{ratios}"
        f'<p class="facts">{escape(experiment.app)} on {experiment.driver} workers; {escape(facts)}</p>'
    )


def _image(says: str, png: bytes) -> str:
    return f'<img alt="{escape(says)}" src="data:image/png;base64,{base64.b64encode(png).decode()}">'


def _table(result: Mapping[str, Any]) -> str:
    head = "".join(f"<th>{name}</th>" for name in COLUMNS)
    rows = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells(n, r))}</tr>" for n, r in result["rows"].items()
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def cells(name: str, row: Mapping[str, Any]) -> list[str]:
    share = row["met_share"]
    return [
        name,
        _shown(row["achieved_per_s"], 2),
        _shown(row["asked_per_s"], 2),
        _shown(row["latency_ms"], 0),
        "–" if share is None else f"{share:.0%}",
        _shown(row["workers"], 1),
        _shown(row["switches"], 0),
        _shown(row["trials"], 0),
    ]


def _shown(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"
