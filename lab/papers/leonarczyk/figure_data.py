"""The data of figures 5.1 to 5.9 of Leonarczyk 2024, a table each: a head and its lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lab.papers.leonarczyk import tables
from lab.papers.leonarczyk.grid import OURS, PUBLISHED, STEPPING, STEPS, TARGET_MS, Setup, trace_of
from lab.papers.leonarczyk.plant import Floats, Pipeline, Trace, Workload
from lab.papers.leonarczyk.tables import Rows

STRICTEST = 0.05
FIXED_SIZES = (1, 2, 5, 10, 20, 35, 50, 75, 100, 115, 150, 200, 250, 300, 400, 500)
POINTS = 2000
"""Points of a line over the tuples of a run."""
REACTIVE = Setup("pmbaf", (("step", 10.0), ("sample", 1)), STRICTEST)
SLOW = Setup("pmbaf", (("step", 1.0), ("sample", 1)), STRICTEST)
"""Which controller figures 5.6 and 5.7 show is not said: here the one whose reactive setup is best in table 5.4."""


@dataclass(frozen=True, slots=True)
class Data:
    head: Sequence[str]
    lines: Sequence[Sequence[object]]


def fixed(size: int) -> Setup:
    return Setup("fixed", (("first", size),))


def fixed_sizes(workload: Workload, pipeline: Pipeline) -> Data:
    """Figure 5.1: latency and throughput by the size of bundles."""
    lines = []
    for size in FIXED_SIZES:
        trace = trace_of(fixed(size), workload, pipeline, 0)
        lines.append((size, float(trace.latencies_s.mean()) * 1e3, len(workload.loads) / trace.ended_s))
    return Data(("size", "latency_ms", "items_per_s"), lines)


def over_tuples(named: Mapping[str, Setup], workload: Workload, pipeline: Pipeline) -> Data:
    """Figures 5.2, 5.6, 5.7: latency and size over the tuples, and their load."""
    lines: list[tuple[object, ...]] = []
    for name, setup in named.items():
        trace = trace_of(setup, workload, pipeline, 0)
        for k in _thinned(trace):
            first = int(trace.firsts[k])
            load = float(workload.loads[first])
            lines.append((name, first, float(trace.latencies_s[k]) * 1e3, int(trace.sizes[k]), load))
    return Data(("setup", "tuple", "latency_ms", "size", "load"), lines)


def by_step(rows: Rows) -> Data:
    """Figure 5.3: the best itemized hit at 5 % of every step."""
    lines = [
        (controller, step, max(_mean_hits(rows, controller, step).values()))
        for controller in STEPPING
        for step in STEPS
    ]
    return Data(("controller", "step", "itemized_hit"), lines)


def _mean_hits(rows: Rows, controller: str, step: float) -> dict[Setup, float]:
    """Itemized, by setup with that step."""
    means = rows.means(controller, STRICTEST, tables.itemized_hit)
    return {setup: value for setup, value in means.items() if dict(setup.values)["step"] == step}


def cumulative(setup: Setup, workload: Workload, pipeline: Pipeline) -> Data:
    """Figure 5.4: both hits as the run goes on."""
    trace = trace_of(setup, workload, pipeline, 0)
    hit = np.abs(trace.latencies_s * 1e3 / TARGET_MS - 1) <= STRICTEST
    batched = np.cumsum(hit) / np.arange(1, len(hit) + 1)
    itemized = np.cumsum(hit * trace.sizes) / np.cumsum(trace.sizes)
    lines = [(int(trace.firsts[k]), float(batched[k]), float(itemized[k])) for k in _thinned(trace)]
    return Data(("tuple", "batched_hit", "itemized_hit"), lines)


def by_pattern_and_sample(rows: Rows) -> Data:
    """Figure 5.5: batched hit of FAF, step 5, threshold 5 %."""
    lines = [
        (dict(row.setup.values)["sample"], pattern, figures.batched_hit)
        for row in rows.of("faf")
        if row.threshold == STRICTEST and dict(row.setup.values)["step"] == 5
        for pattern, figures in row.by_pattern.items()
    ]
    return Data(("sample", "pattern", "batched_hit"), lines)


def best(rows: Rows) -> Data:
    """Figure 5.8: the best of every controller in every figure at 5 %."""
    lines = [
        (name, *(rows.best(name, STRICTEST, each.value, each.highest).value for each in tables.FIGURES.values()))
        for name in (*PUBLISHED, OURS)
    ]
    return Data(("controller", *tables.FIGURES), lines)


def pid_terms(setup: Setup, workload: Workload, pipeline: Pipeline) -> Data:
    """Figure 5.9: what the terms of PID add to the size. Of a run that decides on every latency, from its latencies."""
    gains, trace = setup.settings().gains, trace_of(setup, workload, pipeline, 0)
    error: Floats = 1 - trace.latencies_s * 1e3 / TARGET_MS
    change = np.diff(error, prepend=0.0)
    lines = [
        (int(trace.firsts[k]), gains.kp * float(error[k]), gains.kd * float(change[k]), int(trace.sizes[k]))
        for k in _thinned(trace)
    ]
    return Data(("tuple", "p_term", "d_term", "size"), lines)


def _thinned(trace: Trace) -> Iterator[int]:
    """Bundles evenly over the tuples."""
    wanted = np.linspace(0, trace.firsts[-1], POINTS)
    return iter(np.unique(trace.firsts.searchsorted(wanted)).tolist())


def all_of(rows: Rows, workload: Workload, pipeline: Pipeline) -> dict[str, Data]:
    """Return the data of all figures, by number."""
    best_pmbaf = rows.best("pmbaf", STRICTEST, tables.itemized_hit).setup
    best_pid = rows.best("pid", STRICTEST, tables.itemized_hit).setup
    every = replace(best_pid, values=tuple((n, 1 if n == "sample" else v) for n, v in best_pid.values))
    sizes = {f"fixed {size}": fixed(size) for size in (1, 50, 100)}
    drawn: dict[str, Callable[[], Data]] = {
        "5.1": lambda: fixed_sizes(workload, pipeline),
        "5.2": lambda: over_tuples(sizes, workload, pipeline),
        "5.3": lambda: by_step(rows),
        "5.4": lambda: cumulative(best_pmbaf, workload, pipeline),
        "5.5": lambda: by_pattern_and_sample(rows),
        "5.6": lambda: over_tuples({"slow convergence": SLOW}, workload, pipeline),
        "5.7": lambda: over_tuples({"reactive": REACTIVE, "ours": Setup(OURS)}, workload, pipeline),
        "5.8": lambda: best(rows),
        "5.9": lambda: pid_terms(every, workload, pipeline),
    }
    return {number: make() for number, make in drawn.items()}
