"""Summarize the runs of an experiment: medians of each contender, and strategies against the best fixed composition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import ceil, inf, sqrt
from statistics import fmean, median, stdev
from typing import Any

from lab.experiments.contender import Measurement, Point
from lab.experiments.spec import Experiment

SUSTAINED = 0.9
"""Share of the sustainable rate up to which a rate is expected to be followed."""
SPAN_ITEMS = 20


@dataclass(frozen=True, slots=True)
class Tracking:
    """Rate of entering items over the requested one while that can be sustained; after an overload some leave later."""

    achieved_of_asked: float
    """Mean achieved rate divided by the mean requested rate."""
    shape_error: float
    """Root mean square of the difference, divided by the mean requested rate."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean and standard deviation over the repetitions; deviations are None for a single one."""

    mean: float
    deviation: float | None

    @staticmethod
    def of(values: Sequence[float | None]) -> Spread | None:
        """Return None if nothing is known."""
        known = [value for value in values if value is not None]
        return Spread(fmean(known), stdev(known) if len(known) > 1 else None) if known else None


@dataclass(frozen=True, slots=True)
class Row:
    """Medians over the repetitions of a contender, and the spread of what is compared."""

    achieved_per_s: float
    asked_per_s: float
    latency_ms: float | None
    met_share: float | None
    workers: float
    switches: float
    trials: float
    settled_on: tuple[str, ...]
    """Composition at the end of each run."""
    tracking: Tracking | None
    achieved: Spread | None = None
    latency: Spread | None = None
    inside_ms: float | None = None
    """Latency from when a worker took an item; None: unknown."""

    @property
    def sustained_per_s(self) -> float:
        """Sustained rate; if it exceeds the requested rate, a backlog of the warm-up is being cleared."""
        return min(self.achieved_per_s, self.asked_per_s)

    def as_json(self) -> dict[str, Any]:
        told = asdict(self)
        tracking = told.pop("tracking")
        return told | (tracking or {})


@dataclass(frozen=True, slots=True)
class AgainstStatic:
    """A strategy over the best fixed composition in each figure (Vogel et al., figures 7 and 8)."""

    throughput: float | None
    latency: float | None


@dataclass(frozen=True, slots=True)
class Findings:
    title: str
    metadata: Mapping[str, str]
    rows: Mapping[str, Row]
    against_best_static: Mapping[str, AgainstStatic] | None
    """Ratios of each strategy; None when no composition was kept fixed."""

    def as_json(self) -> dict[str, Any]:
        """Return the content of ``results.json``, without what does not apply."""
        rows = {name: row.as_json() for name, row in self.rows.items()}
        told = {"title": self.title, "metadata": dict(self.metadata), "rows": rows}
        if self.against_best_static is None:
            return told
        return told | {"against_best_static": {name: asdict(each) for name, each in self.against_best_static.items()}}


def results(
    experiment: Experiment, runs: Sequence[Measurement], facts: Mapping[str, str], sustainable_per_s: float = inf
) -> Findings:
    names = list(dict.fromkeys(run.contender for run in runs))
    limit_per_s = SUSTAINED * sustainable_per_s
    rows = {name: _row(experiment, [run for run in runs if run.contender == name], limit_per_s) for name in names}
    return Findings(experiment.title, facts, rows, _against_static(experiment, rows))


def _row(experiment: Experiment, runs: Sequence[Measurement], limit_per_s: float) -> Row:
    latencies = [run.latency_ms for run in runs if run.latency_ms is not None]
    inside = [run.inside_ms for run in runs if run.inside_ms is not None]
    shares = [run.met_share for run in runs if run.met_share is not None]
    return Row(
        achieved_per_s=median(run.achieved_per_s for run in runs),
        asked_per_s=median(run.asked_per_s for run in runs),
        latency_ms=median(latencies) if latencies else None,
        met_share=median(shares) if shares else None,
        workers=median(run.workers for run in runs),
        switches=median(run.switches for run in runs),
        trials=median(run.trials for run in runs),
        settled_on=tuple(run.samples[-1].composition for run in runs if run.samples),
        tracking=_tracking(experiment, runs, limit_per_s),
        achieved=Spread.of([run.achieved_per_s for run in runs]),
        latency=Spread.of(latencies),
        inside_ms=median(inside) if inside else None,
    )


def _tracking(experiment: Experiment, runs: Sequence[Measurement], limit_per_s: float) -> Tracking | None:
    """Compare the rates while the requested rate is at most ``limit_per_s``."""
    pairs = [span[:2] for run in runs for span in _sustainable(_spans(run, experiment.warm_up_s), limit_per_s)]
    asked = fmean(each for _, each in pairs) if pairs else 0.0
    if not asked:
        return None
    error = sqrt(fmean((got - each) ** 2 for got, each in pairs)) / asked
    return Tracking(fmean(got for got, _ in pairs) / asked, error)


Span = tuple[float, float, float]
"""Achieved, requested and highest requested items/s."""


def _sustainable(spans: Sequence[Span], limit_per_s: float) -> list[Span]:
    """Return the spans that request at most ``limit_per_s``, as did the span before; else a full buffer blocks."""
    before = [(0.0, 0.0, 0.0), *spans]
    return [span for last, span in zip(before, spans, strict=False) if max(last[2], span[2]) <= limit_per_s]


def _spans(run: Measurement, warm_up_s: float) -> list[Span]:
    """Return spans of at least a second with ``SPAN_ITEMS`` on average, so that whole items cause no error."""
    counted = [sample for sample in run.samples if sample.at_s > warm_up_s]
    if len(counted) < 2 or not run.asked_per_s:
        return []
    gap_s = (counted[-1].at_s - counted[0].at_s) / (len(counted) - 1)
    size = max(2, ceil(SPAN_ITEMS / (run.asked_per_s * gap_s)))
    spans = [counted[start : start + size] for start in range(0, len(counted) - size + 1, size)]
    asked = [[sample.rate_per_s or 0.0 for sample in span] for span in spans]
    return [(fmean(map(_entered_per_s, span)), fmean(each), max(each)) for span, each in zip(spans, asked, strict=True)]


def _entered_per_s(sample: Point) -> float:
    return sample.throughput_per_s if sample.entered_per_s is None else sample.entered_per_s


def _against_static(experiment: Experiment, rows: Mapping[str, Row]) -> dict[str, AgainstStatic] | None:
    fixed = [row for name, row in rows.items() if name not in experiment.strategies]
    if not fixed:
        return None
    best_rate = max(row.sustained_per_s for row in fixed)
    best_latency = min((row.latency_ms for row in fixed if row.latency_ms is not None), default=None)
    return {
        name: AgainstStatic(
            rows[name].sustained_per_s / best_rate if best_rate else None, _ratio(rows[name].latency_ms, best_latency)
        )
        for name in experiment.strategies
    }


def _ratio(value: float | None, other: float | None) -> float | None:
    return value / other if value is not None and other else None
