"""The data of the figures of Leonarczyk 2024, a table each: a head and its lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from control.bundles.published import faf, mbaf, pbaf, pbaf_wt, pmbaf
from lab.papers.leonarczyk import tables
from lab.papers.leonarczyk.grid import OURS, PUBLISHED, STEPPING, STEPS, TARGET_MS, Setup, trace_of
from lab.papers.leonarczyk.plant import Floats, Pipeline, Trace, Workload
from lab.papers.leonarczyk.tables import Rows

STRICTEST = 0.05
FIXED_SIZES = (1, 2, 5, 10, 20, 35, 50, 75, 100, 115, 150, 200, 250, 300, 400, 500)
POINTS = 2000
"""Points of a line over the tuples of a run."""
LATENCIES = range(1, 121)
"""Milliseconds of figure 4.2."""
RULES = {"faf": faf, "pbaf": pbaf, "pbaf-wt": pbaf_wt, "mbaf": mbaf, "pmbaf": pmbaf}
REACTIVE = Setup("pmbaf", (("step", 10.0), ("sample", 1)), STRICTEST)
PID = Setup("pid", (("kp", 10.0), ("ki", 15.0), ("kd", 3.0), ("sample", 1)))
"""Best in table 5.5."""
SLOW = Setup("pmbaf", (("step", 1.0), ("sample", 1)), STRICTEST)
"""The paper does not say which controller figures 5.6 and 5.7 show; this one's reactive setup is best in table 5.4."""


@dataclass(frozen=True, slots=True)
class Data:
    head: Sequence[str]
    lines: Sequence[Sequence[object]]


def steps_by_latency() -> Data:
    """Return figure 4.2: the change of the size by the latency. Target 50 ms, threshold 10 %, step 10."""
    lines = [(name, ms, 10 * rule(ms, 50.0, 0.1)) for name, rule in RULES.items() for ms in LATENCIES]
    return Data(("controller", "latency_ms", "step"), lines)


def loads(workload: Workload) -> Data:
    """Return figure 4.4: the load of every pattern's tuples."""
    lines = [
        (phase.pattern, tuple_, float(workload.loads[tuple_]))
        for phase, (first, end) in zip(workload.phases, workload.bounds, strict=True)
        for tuple_ in np.linspace(first, end - 1, POINTS, dtype=int).tolist()
    ]
    return Data(("pattern", "tuple", "load"), lines)


def example(spike: float = 0.0) -> Data:
    """Figures 4.5 and 4.6: latencies, in targets, that rise evenly from the target to 1.4 of it.

    With that, the MAD distance is 20 % and the SD distance 23 %, as printed. Figure 4.6 has two spikes more, ``spike``
    above the target. Their extent is not printed: 38 of a thousand bundles each, here.
    """
    latencies = 1 + 0.4 * np.linspace(0, 1, 1000)
    for first in (100, 850) if spike else ():
        latencies[first : first + 38] = 1 + spike
    return Data(("batch", "latency"), list(enumerate(latencies.tolist())))


SPIKE = 1.9
"""Two spikes of 2.9 times the target give both distances printed with figure 4.6: 33 and 57 %."""


def fixed(size: int) -> Setup:
    return Setup("fixed", (("first", size),))


def fixed_sizes(workload: Workload, pipeline: Pipeline) -> Data:
    """Return figure 5.1: latency and throughput by bundle size."""
    lines = []
    for size in FIXED_SIZES:
        trace = trace_of(fixed(size), workload, pipeline, 0)
        lines.append((size, float(trace.latencies_s.mean()) * 1e3, len(workload.loads) / trace.ended_s))
    return Data(("size", "latency_ms", "items_per_s"), lines)


def over_tuples(named: Mapping[str, Setup], workload: Workload, pipeline: Pipeline) -> Data:
    """Return figures 5.2, 5.6 and 5.7: latency, size and load over the tuples."""
    lines: list[tuple[object, ...]] = []
    for name, setup in named.items():
        trace = trace_of(setup, workload, pipeline, 0)
        for k in _thinned(trace):
            first = int(trace.firsts[k])
            load = float(workload.loads[first])
            lines.append((name, first, float(trace.latencies_s[k]) * 1e3, int(trace.sizes[k]), load))
    return Data(("setup", "tuple", "latency_ms", "size", "load"), lines)


def by_step(rows: Rows) -> Data:
    """Return figure 5.3: the best itemized hit at 5 % of every step."""
    lines = [
        (controller, step, max(_mean_hits(rows, controller, step).values()))
        for controller in STEPPING
        for step in STEPS
    ]
    return Data(("controller", "step", "itemized_hit"), lines)


def _mean_hits(rows: Rows, controller: str, step: float) -> dict[Setup, float]:
    """Return the mean itemized hits of each setup with that step."""
    means = rows.means(controller, STRICTEST, tables.itemized_hit)
    return {setup: value for setup, value in means.items() if dict(setup.values)["step"] == step}


def cumulative(setup: Setup, workload: Workload, pipeline: Pipeline) -> Data:
    """Return figure 5.4: both hits over the course of the run."""
    trace = trace_of(setup, workload, pipeline, 0)
    hit = np.abs(trace.latencies_s * 1e3 / TARGET_MS - 1) <= STRICTEST
    batched = np.cumsum(hit) / np.arange(1, len(hit) + 1)
    itemized = np.cumsum(hit * trace.sizes) / np.cumsum(trace.sizes)
    lines = [(int(trace.firsts[k]), float(batched[k]), float(itemized[k])) for k in _thinned(trace)]
    return Data(("tuple", "batched_hit", "itemized_hit"), lines)


def by_pattern_and_sample(rows: Rows) -> Data:
    """Return figure 5.5: batched hit of FAF, step 5, threshold 5 %."""
    lines = [
        (pattern, dict(row.setup.values)["sample"], figures.batched_hit)
        for row in rows.of("faf")
        if row.threshold == STRICTEST and dict(row.setup.values)["step"] == 5
        for pattern, figures in row.by_pattern.items()
    ]
    return Data(("pattern", "sample", "batched_hit"), lines)


def best(rows: Rows) -> Data:
    """Return figure 5.8: the best of every controller in every figure at 5 %."""
    lines = [
        (name, *(rows.best(name, STRICTEST, each.value, each.highest).value for each in tables.FIGURES.values()))
        for name in (*PUBLISHED, OURS)
    ]
    return Data(("controller", *tables.FIGURES), lines)


def pid_terms(setup: Setup, workload: Workload, pipeline: Pipeline, points: int | None = POINTS) -> Data:
    """Figure 5.9: what the terms of PID add to the size. Of a run that decides on every latency, from its latencies.

    ``points``: None for every bundle.
    """
    gains, trace = setup.settings().gains, trace_of(setup, workload, pipeline, 0)
    error: Floats = 1 - trace.latencies_s * 1e3 / TARGET_MS
    change = np.diff(error, prepend=0.0)
    lines = [
        (int(trace.firsts[k]), gains.kp * float(error[k]), gains.kd * float(change[k]), int(trace.sizes[k]))
        for k in (_thinned(trace) if points else range(len(trace.sizes)))
    ]
    return Data(("tuple", "p_term", "d_term", "size"), lines)


def _thinned(trace: Trace) -> Iterator[int]:
    """Return bundles that are evenly spread over the tuples."""
    wanted = np.linspace(0, trace.firsts[-1], POINTS)
    return iter(np.unique(trace.firsts.searchsorted(wanted)).tolist())


def all_of(rows: Rows, workload: Workload, pipeline: Pipeline) -> dict[str, Data]:
    """Return the data of all figures, by number."""
    sizes = {f"fixed {size}": fixed(size) for size in (1, 50, 100)}
    drawn: dict[str, Callable[[], Data]] = {
        "4.2": steps_by_latency,
        "4.4": lambda: loads(workload),
        "4.5": example,
        "4.6": lambda: example(SPIKE),
        "5.1": lambda: fixed_sizes(workload, pipeline),
        "5.2": lambda: over_tuples(sizes, workload, pipeline),
        "5.3": lambda: by_step(rows),
        "5.4": lambda: cumulative(REACTIVE, workload, pipeline),
        "5.5": lambda: by_pattern_and_sample(rows),
        "5.6": lambda: over_tuples({"slow convergence": SLOW}, workload, pipeline),
        "5.7": lambda: over_tuples({"reactive": REACTIVE, "ours": Setup(OURS)}, workload, pipeline),
        "5.8": lambda: best(rows),
        "5.9": lambda: pid_terms(PID, workload, pipeline),
    }
    return {number: make() for number, make in drawn.items()}
