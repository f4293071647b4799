"""The figures of a comparison that verdicts are given on, as JSON: ``recorded/figures.json`` has the last ones."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean
from typing import Any

import numpy as np

from lab.papers.leonarczyk import published, tables
from lab.papers.leonarczyk.figure_data import (
    PID,
    REACTIVE,
    SLOW,
    SPIKE,
    STRICTEST,
    Data,
    by_pattern_and_sample,
    by_step,
    example,
    fixed,
    fixed_sizes,
    pid_terms,
)
from lab.papers.leonarczyk.grid import bundle_figures, trace_of
from lab.papers.leonarczyk.plant import Pipeline, Workload
from lab.papers.leonarczyk.tables import FIGURES, Rows, printed_setup

EXTREMES = 200
"""Number of terms of PID over which the thesis takes the mean (section 5.3.3)."""


def figures_of(rows: Rows, repeated: Rows, workload: Workload, pipeline: Pipeline) -> dict[str, Any]:
    """Return all figures that ``page.lines`` judges: of a whole grid, and of the printed setups in several runs."""
    single = trace_of(fixed(1), workload, pipeline, 0).latencies_s * 1e3
    return {
        "cells": list(_cells(rows, repeated)),
        "patterns": {name: tables.by_pattern(rows, name) for name in published.BY_PATTERN},
        "fixed": fixed_sizes(workload, pipeline).lines,
        "single_ms": [float(np.quantile(single, share)) for share in (0.001, 0.999)],
        "steps": by_step(rows).lines,
        "samples": by_pattern_and_sample(rows).lines,
        "phases": _phases(repeated),
        "throughputs": throughputs(repeated),
        "terms": _terms(pid_terms(PID, workload, pipeline, points=None)),
        "examples": [_distances(example()), _distances(example(SPIKE))],
    }


def throughputs(repeated: Rows) -> list[float]:
    """Return the items/s of the slow and the reactive strategy, means over the repetitions."""
    return [fmean(repeated.runs(setup, STRICTEST, lambda row: row.throughput_per_s)) for setup in (SLOW, REACTIVE)]


def _cells(rows: Rows, repeated: Rows) -> Iterator[dict[str, Any]]:
    """Yield every cell of tables 5.1, 5.4 and 5.5, per cent."""
    for figure, each in FIGURES.items():
        for name, cells in each.printed.items():
            for threshold, cell in zip(published.THRESHOLDS, cells, strict=True):
                runs = repeated.runs(printed_setup(name, threshold, cell), threshold, each.value)
                best = rows.best(name, threshold, each.value, each.highest)
                mean, spread, best_value = (
                    round(100 * float(value), 2) for value in (np.mean(runs), np.std(runs, ddof=1), best.value)
                )
                yield {
                    "figure": figure, "controller": name, "threshold": threshold, "printed": cell.value,
                    "ours": mean, "deviation": spread, "with": dict(cell.values),
                    "best": best_value, "best with": dict(best.setup.values),
                }  # fmt: skip


def _phases(repeated: Rows) -> dict[str, list[float]]:
    """Return batched and itemized hits of PMBAF by pattern, with its best setup at 5 %: the course of figure 5.4."""
    setup = printed_setup("pmbaf", STRICTEST, published.ITEMIZED_HIT["pmbaf"][0])
    row = next(row for row in repeated.of("pmbaf") if row.setup == setup)
    return {name: [each.batched_hit, each.itemized_hit] for name, each in row.by_pattern.items()}


def _terms(terms: Data) -> list[float]:
    """Return the means of the lowest proportional and the highest derivative terms."""
    proportional, derivative = (np.sort([line[column] for line in terms.lines]) for column in (1, 2))
    return [float(proportional[:EXTREMES].mean()), float(derivative[-EXTREMES:].mean())]


def _distances(data: Data) -> list[float]:
    latencies = [float(str(line[1])) for line in data.lines]
    found = bundle_figures(latencies, np.ones(len(latencies)), 1.0, STRICTEST)
    assert found is not None, "an example has bundles"
    return [found.mad_distance, found.sd_distance]
