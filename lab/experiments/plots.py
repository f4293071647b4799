"""Plots of an experiment, as PNG."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from datapipe.report.plots import BANDS, DELIVERED, MEAN, OFFERED, band_colour
from lab.experiments.contender import Measurement, Point
from lab.experiments.figures import Spread
from lab.experiments.spec import Experiment

matplotlib.use("Agg")
Values = Callable[[Point], float | None]
INK = (BANDS[0], BANDS[2], BANDS[3], BANDS[4], BANDS[5], BANDS[7])
"""The page's colours."""

LEGIBLE = 0.05
"""Minimum share of the run that a band needs to get a name."""
_AXES = {"throughput": 0, "latency": 1}
"""The panel of each SLO metric."""


def plots(experiment: Experiment, runs: Sequence[Measurement]) -> dict[str, bytes]:
    """Name → PNG. Over time: the first repetition of every strategy; as bars: mean and standard deviation of each."""
    if experiment.plot == "bars":
        return {"compared": _png(_bars(experiment, runs))}
    first = [run for run in runs if run.repetition == 0]
    return {run.contender: _png(_over_time(experiment, run)) for run in first}


def _over_time(experiment: Experiment, run: Measurement) -> Figure:
    resources = any(sample.cpu_percent is not None for sample in run.samples)
    bundles = bool(experiment.input.batch_steps)
    heights = [3, 3, 0.5, 1.2, *([1.2] if bundles else []), *([2] if resources else [])]
    figure = Figure(figsize=(10, 0.85 * sum(heights)), layout="constrained")
    axes: Any = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights)
    _line(axes[0], run, lambda s: s.rate_per_s, "input rate", OFFERED, "--")
    _line(axes[0], run, lambda s: s.throughput_per_s, "throughput", DELIVERED)
    axes[0].set_ylabel("items/s")
    _line(axes[1], run, lambda s: s.latency_ms, "latency, mean", MEAN)
    _line(axes[1], run, lambda s: s.inside_ms, "from a worker's hand on", INK[2], ":")
    axes[1].set_ylabel("ms")
    axes[1].set_yscale("log")
    _bound(experiment, axes)
    _composition(axes[2], run)
    _line(axes[3], run, lambda s: float(s.workers), "workers", INK[5])
    axes[3].set_ylim(bottom=0)
    if bundles:
        _line(axes[4], run, lambda s: s.batch_items, "items in a batch, at the sink", INK[4])
    if resources:
        _line(axes[-1], run, lambda s: s.cpu_percent, "CPU [% of a core]", INK[2])
        _line(axes[-1], run, lambda s: s.memory_mb, "memory in use [MB]", INK[3])
    for axis in (*axes[:2], *axes[3:]):
        _start_up(axis, experiment)
        axis.legend(loc="upper left", bbox_to_anchor=(1.01, 1), borderaxespad=0, fontsize=8, frameon=False)
    axes[-1].set_xlim(left=0)
    axes[-1].set_xlabel("s")
    figure.suptitle(f"{experiment.title} — {run.contender}")
    return figure


def _start_up(axis: Any, experiment: Experiment) -> None:
    """Mark the time that tables leave out."""
    if experiment.warm_up_s:
        axis.axvspan(0, experiment.warm_up_s, color="#888", alpha=0.15, linewidth=0, label="start-up, not counted")


def _line(axis: Any, run: Measurement, value: Values, label: str, colour: str, style: str = "-") -> None:
    points = [(sample.at_s, value(sample)) for sample in run.samples]
    known = [(at_s, y) for at_s, y in points if y is not None]
    axis.plot([at_s for at_s, _ in known], [y for _, y in known], style, color=colour, label=label, linewidth=1.2)


def _bound(experiment: Experiment, axes: Any) -> None:
    objective = experiment.objective
    for slo in objective.each if objective is not None else ():
        if not isinstance(slo.target, str):
            axes[_AXES[slo.metric]].axhline(float(slo.target), color=INK[4], linewidth=1, label="SLO")


def _composition(axis: Any, run: Measurement) -> None:
    """Draw the active composition as coloured bands, with names if there is room."""
    begin = 0.0
    for sample, later in zip(run.samples, [*run.samples[1:], None], strict=True):
        if later is None or later.composition != sample.composition:
            axis.axvspan(begin, sample.at_s, color=band_colour(sample.composition), alpha=0.35, linewidth=0)
            if sample.at_s - begin > LEGIBLE * run.samples[-1].at_s:
                axis.text((begin + sample.at_s) / 2, 0.5, sample.composition, ha="center", va="center", fontsize=8)
            begin = sample.at_s
    axis.set_yticks([])


def _bars(experiment: Experiment, runs: Sequence[Measurement]) -> Figure:
    names = list(dict.fromkeys(run.contender for run in runs))
    figure = Figure(figsize=(9, 6), layout="constrained")
    axes: Any = figure.subplots(2, 1, sharex=True)
    rates = [Spread.of([run.achieved_per_s for run in runs if run.contender == name]) for name in names]
    latencies = [Spread.of([run.latency_ms for run in runs if run.contender == name]) for name in names]
    colours = [INK[1] if name in experiment.strategies else INK[0] for name in names]
    for axis, spreads, label in ((axes[0], rates, "items/s"), (axes[1], latencies, "latency, ms")):
        deviations = [each.deviation or 0.0 if each else 0.0 for each in spreads]
        axis.bar(names, [each.mean if each else 0.0 for each in spreads], yerr=deviations, color=colours, capsize=3)
        axis.set_ylabel(label)
        axis.set_yscale("log")
    axes[1].set_xlabel("composition or strategy")
    figure.suptitle(experiment.title)
    return figure


def _png(figure: Figure) -> bytes:
    written = io.BytesIO()
    figure.savefig(written, format="png", dpi=110, metadata={"Software": None})
    return written.getvalue()
