"""Puts a report together: plots with a sentence each, and the decisions with their candidates."""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from datapipe.report import plots, style, summary
from datapipe.report.data import RunData

Plot = tuple[str, str, str, Callable[[RunData], Figure | None]]
PLOTS: tuple[Plot, ...] = (
    ("rates", "Input rate and throughput", "Where throughput stays below the input rate, items wait.", plots.rates),
    (
        "latency",
        "Latency and the SLO",
        "Arrival at the source to delivery. Grey: from the target to the bound.",
        plots.latency,
    ),
    ("compositions", "Composition", "One colour for each; lines are switches, dotted ones failed.", plots.compositions),
    ("service-times", "Service times", "Mean time a stage spends on an item while busy.", plots.service_times),
    ("slo-hits", "SLO met", "Share of the manager's turns with a verdict that said met.", plots.slo_hits),
    ("boxes", "Latency by composition", "Median, quartiles; whiskers at 5 and 95 %.", plots.boxes),
    (
        "predictions",
        "Prediction and outcome",
        "Predicted at the decision; measured until the next one.",
        plots.predictions,
    ),
    ("drains", "Drain of switches", "What was expected when it began, the bound, and what it took.", plots.drains),
)
CANDIDATES = 40
"""Of a decision that are shown; the rest is counted."""


def build(run: RunData, pngs: Path | None = None) -> str:
    """The page. With ``pngs`` each plot is also written there as ``NAME.png``."""
    sections = [_head(run)]
    for name, title, sentence, plot in PLOTS:
        made = plot(run)
        sections.append(_section(name, title, sentence, made))
        if pngs is not None and made is not None:
            write_whole(pngs / f"{name}.png", style.png(made))
    sections.append(f'<h2 id="decisions">Decisions</h2>{"".join(_decisions(run)) or NOTHING}')
    return style.page(f"{run.app}: {run.began:%Y-%m-%d %H:%M} UTC", sections)


NOTHING = '<p class="note">Nothing of it in this period.</p>'


def _section(name: str, title: str, sentence: str, made: Figure | None) -> str:
    drawn = NOTHING if made is None else f"<figure>{style.svg(made)}</figure>"
    return f'<h2 id="{name}">{title}</h2><p class="note">{sentence}</p>{drawn}'


def _head(run: RunData) -> str:
    length_s = float(run.seconds(run.snapshots, "at")[-1])
    until = run.began + timedelta(seconds=length_s)
    words = f"{run.began:%Y-%m-%d %H:%M:%S} to {until:%Y-%m-%d %H:%M:%S} UTC, {length_s:,.0f} s. Times are in UTC."
    facts = "".join(f"<dt>{html.escape(name)}</dt><dd>{html.escape(said)}</dd>" for name, said in summary.rows(run))
    return f'<p class="note">{words}</p><dl>{facts}</dl>'


def _decisions(run: RunData) -> Iterator[str]:
    for each in run.decisions:
        at = run.began + timedelta(seconds=each["at_s"])
        title = f"{at:%H:%M:%S} · {each['trigger']}: {each['from']} → {each['to']}"
        outcome = f"<p>Outcome: {html.escape(each['outcome'])}</p>" if each.get("outcome") else ""
        reason = f"<p>{html.escape(each['reason'])}</p>"
        yield f"<details><summary>{html.escape(title)}</summary>{reason}{outcome}{_candidates(each)}</details>"


def _candidates(decision: dict[str, Any]) -> str:
    heads = (
        "composition",
        "workers",
        "status",
        "predicted items/s",
        "predicted ms",
        "measured items/s",
        "measured ms",
        "why",
    )
    keys = (
        "name", "workers", "status", "predicted_throughput_per_s", "predicted_latency_ms",
        "measured_throughput_per_s", "measured_latency_ms", "reason",
    )  # fmt: skip
    rows = [[candidate[key] for key in keys] for candidate in decision["candidates"][:CANDIDATES]]
    left = len(decision["candidates"]) - len(rows)
    return style.table(heads, rows) + (f'<p class="note">and {left} more</p>' if left else "")


def write_whole(path: Path, content: bytes) -> None:
    """All of the file or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    hidden = path.with_name(f".{path.name}.tmp")
    try:
        hidden.write_bytes(content)
        os.replace(hidden, path)
    finally:
        hidden.unlink(missing_ok=True)
