"""Build a report: plots with a sentence each, and the decisions with their candidates."""

import html
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from matplotlib.figure import Figure

from compositions.errors import RecomposeError
from compositions.wording import figure
from datapipe.report import plots
from datapipe.report.data import Period, RunData, apps_in, load

UNITS = {"latency": "ms", "throughput": "items/s"}
LONGEST_S = 15.0
"""Maximum interval between two snapshots; a longer one counts as a gap."""
DECISIONS = 500
"""Maximum number of decisions shown, the latest ones."""


def summary_rows(run: RunData) -> Sequence[tuple[str, str]]:
    return [
        ("objective", _objective(run)),
        ("met", _met(run)),
        *_items(run),
        ("workers", _workers(run)),
        ("CPU of the stages", _cpu(run)),
        ("decisions, switches", f"{len(run.decisions)}, {len(run.switches)}"),
    ]


def _objective(run: RunData) -> str:
    """Return the last objective that was set, as text."""
    known = run.snapshots.filter(pc.is_valid(run.snapshots.column("slo_metric")))
    if not known.num_rows:
        return "none"
    metric, target, bound = (known.column(f"slo_{name}")[-1].as_py() for name in ("metric", "target", "bound"))
    unit = UNITS.get(metric, "")
    told = "the input rate" if target is None else f"{figure(target, 4)} {unit}"
    return f"{metric} {told}" + ("" if bound is None else f" (violated beyond {figure(bound, 4)} {unit})")


def _met(run: RunData) -> str:
    verdicts = run.snapshots.column("slo_status").to_pylist()
    met, judged = verdicts.count("met"), sum(verdict in ("met", "violated", "infeasible") for verdict in verdicts)
    return f"{met / judged:.1%} of the time with a verdict" if judged else "no verdict"


def _items(run: RunData) -> Sequence[tuple[str, str]]:
    lost = ", ".join(f"{run.counts[fate]:,} {fate}" for fate in ("failed", "shed") if run.counts[fate])
    delivered = run.items.filter(pc.equal(run.items.column("outcome"), "delivered"))
    if not delivered.num_rows:
        return [("items", f"0 delivered{lost and f', {lost}'}")]
    out, came = (delivered.column(name).cast(pa.int64()).to_numpy() for name in ("delivered", "arrived"))
    latency_ms = (out - came) / 1e3
    span_s = (out.max() - out.min()) / 1e6
    rate = f", {figure(run.counts['delivered'] / span_s)} a second" if span_s > 0 else ""
    p95 = float(np.percentile(latency_ms, 95))
    return [
        ("items", f"{run.counts['delivered']:,} delivered{rate}{lost and f', {lost}'}"),
        ("latency", f"mean {figure(float(latency_ms.mean()))} ms, 95th percentile {figure(p95)} ms"),
    ]


def _workers(run: RunData) -> str:
    at_s, workers = run.seconds(run.snapshots, "at"), np.asarray(run.snapshots.column("workers").to_pylist(), float)
    lengths_s = np.minimum(np.diff(at_s), LONGEST_S * run.every["snapshots"])
    if not lengths_s.sum() > 0:
        return "not known"
    worker_s = float(workers[:-1] @ lengths_s)
    mean = figure(worker_s / float(lengths_s.sum()))
    return f"{mean} on average, {figure(worker_s)} worker-seconds, spares among them"


def _cpu(run: RunData) -> str:
    stages: Any = run.items.column("stages").combine_chunks().flatten()
    cpu_s = (pc.sum(stages.field("cpu_ns")).as_py() or 0) / 1e9 * run.every["items"]
    length_s = float(run.seconds(run.snapshots, "at")[-1])
    cores = f", {figure(cpu_s / length_s, 2)} cores on average" if length_s > 0 else ""
    return f"{figure(cpu_s)} s{cores}"


Plot = tuple[str, str, str, Callable[[RunData], Figure | None]]
PLOTS: tuple[Plot, ...] = (
    ("rates", "Input rate and throughput", "Where throughput stays below the input rate, items wait.", plots.rates),
    ("latency", "Latency and the SLO", "Arrival at the source to delivery. Grey: from the target to the bound.",
     plots.latency),
    ("compositions", "Composition", "One colour each; lines are switches, dotted ones failed.", plots.compositions),
    ("service-times", "Service times", "Mean time that a stage works on an item.", plots.service_times),
    ("slo-hits", "SLO met", "Share of the manager's verdicts that said met.", plots.slo_hits),
    ("boxes", "Latency by composition", "Median, quartiles; whiskers at 5 and 95 %.", plots.boxes),
    ("predictions", "Prediction and outcome",
     "Predicted at the decision; measured ten seconds later, unless another decision came before.", plots.predictions),
    ("calibration", "Items in time, predicted and measured",
     "In the ten seconds after each decision; triangles: nine of ten should be above them, by earlier outcomes.",
     plots.calibration),
    ("drains", "Drain of switches", "Expected duration at the start, upper bound, actual duration.", plots.drains),
)  # fmt: skip
CANDIDATES = 40
"""Maximum number of candidates shown per decision; the rest is counted."""


def build(run: RunData, pngs: Path | None = None) -> str:
    """Return the page. ``pngs``: a folder to which each plot is also written as ``NAME.png``."""
    sections = [_head(run)]
    for name, title, sentence, plot in PLOTS:
        made = plot(run)
        sections.append(_section(name, title, sentence, made))
        if pngs is not None and made is not None:
            write_whole(pngs / f"{name}.png", plots.png(made))
    sections.append(f'<h2 id="decisions">Decisions</h2>{"".join(_decisions(run)) or NOTHING}')
    return plots.page(f"{run.app}: {run.began:%Y-%m-%d %H:%M} UTC", sections)


def fleet(directory: Path, period: Period) -> str:
    """Return a page with a row for each app that was active in the period. Raises: RecomposeError where none was."""
    rows = []
    for app in apps_in(directory):
        with suppress(RecomposeError):  # the app was not active in the period
            rows.append({"app": app, **dict(summary_rows(load(directory, app, period)))})
    if not rows:
        raise RecomposeError(f"{str(directory)!r} has no telemetry in this period; change --since or --until")
    heads = list(dict.fromkeys(name for row in rows for name in row))
    return plots.page("All apps", [plots.table(heads, [[row.get(name) for name in heads] for row in rows])])


NOTHING = '<p class="note">No such data in this period.</p>'


def _section(name: str, title: str, sentence: str, made: Figure | None) -> str:
    drawn = NOTHING if made is None else f"<figure>{plots.svg(made)}</figure>"
    return f'<h2 id="{name}">{title}</h2><p class="note">{sentence}</p>{drawn}'


def _head(run: RunData) -> str:
    length_s = float(run.seconds(run.snapshots, "at")[-1])
    until = run.began + timedelta(seconds=length_s)
    words = f"{run.began:%Y-%m-%d %H:%M:%S} to {until:%Y-%m-%d %H:%M:%S} UTC, {length_s:,.0f} s. Times are in UTC."
    read = [f"every {count}th of the {kind}" for kind, count in run.every.items() if count > 1]
    words += f" Read: {' and '.join(read)}; items are counted whole." if read else ""
    facts = "".join(f"<dt>{html.escape(name)}</dt><dd>{html.escape(said)}</dd>" for name, said in summary_rows(run))
    return f'<p class="note">{words}</p><dl>{facts}</dl>'


def _decisions(run: RunData) -> Iterator[str]:
    if len(run.decisions) > DECISIONS:
        yield f'<p class="note">The latest {DECISIONS} of {len(run.decisions):,}.</p>'
    for each in run.decisions[-DECISIONS:]:
        at = run.began + timedelta(seconds=each["at_s"])
        title = f"{at:%H:%M:%S} · {each['trigger']}: {each['from']} → {each['to']}"
        outcome = f"<p>Outcome: {html.escape(each['outcome'])}</p>" if each.get("outcome") else ""
        reason = f"<p>{html.escape(each['reason'])}</p>"
        yield f"<details><summary>{html.escape(title)}</summary>{reason}{outcome}{_candidates(each)}</details>"


def _candidates(decision: dict[str, Any]) -> str:
    columns = {
        "composition": "name", "workers": "workers", "status": "status",
        "predicted items/s": "predicted_throughput_per_s", "predicted ms": "predicted_latency_ms",
        "measured items/s": "measured_throughput_per_s", "measured ms": "measured_latency_ms", "why": "reason",
    }  # fmt: skip
    rows = [[candidate[key] for key in columns.values()] for candidate in decision["candidates"][:CANDIDATES]]
    left = len(decision["candidates"]) - len(rows)
    return plots.table(list(columns), rows) + (f'<p class="note">and {left} more</p>' if left else "")


def write_whole(path: Path, content: bytes) -> None:
    """Write a file atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    hidden = path.with_name(f".{path.name}.tmp")
    try:
        hidden.write_bytes(content)
        os.replace(hidden, path)
    finally:
        hidden.unlink(missing_ok=True)
