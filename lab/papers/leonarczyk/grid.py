"""The grid of Leonarczyk 2024, section 5.3: 400 combinations of the five that go by steps, 480 of ``pid``, and ours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import product
from math import sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from compositions.batch_settings import BatchSettings
from control.bundles import make_batch_controller
from lab.papers.leonarczyk.plant import CostLaw, Pipeline, Trace, Work, Workload, simulate
from lab.papers.leonarczyk.published import THRESHOLDS

TARGET_MS = 3.0
STEPS, SAMPLES = (1.0, 5.0, 10.0, 15.0, 20.0), (1, 5, 10, 20)
KP, KI, KD = (0.0, 5.0, 10.0, 15.0, 20.0, 30.0), (5.0, 15.0, 25.0, 35.0, 50.0), (0.0, 0.5, 3.0, 5.0)
BANDED = ("faf", "pbaf", "mbaf", "pmbaf")
STEPPING = ("faf", "pbaf", "pbaf-wt", "mbaf", "pmbaf")
PUBLISHED = (*STEPPING, "pid")
OURS = "slo-batch"


@dataclass(frozen=True, slots=True)
class BundleFigures:
    """How bundles kept a latency target, shares 0..1 (Leonarczyk 2024, section 4.3: batches)."""

    batched_hit: float
    """Share of the bundles whose latency was within the band around the target (equation 4.2)."""
    itemized_hit: float
    """Share of the items in these bundles (equation 4.3)."""
    mad_distance: float
    """Mean absolute distance from the target, as a share of it (equation 4.4)."""
    sd_distance: float
    """Root of the mean squared distance from the target, as a share of it (equation 4.5).

    **Erratum.** There the number of bundles stands outside the root, so that the distance of the same latencies would
    shrink with their number; its text calls it the standard deviation around the target, for which it stands inside."""


def bundle_figures(
    latencies_s: npt.ArrayLike, items: npt.ArrayLike, target_s: float, threshold: float
) -> BundleFigures | None:
    """Return the measures for bundles with these latencies and numbers of items; ``None`` without any.

    The band is [target · (1 − threshold), target · (1 + threshold)], its ends included.
    """
    latency_s, size = np.asarray(latencies_s, dtype=np.float64), np.asarray(items, dtype=np.float64)
    if not latency_s.size:
        return None
    hit = (target_s * (1 - threshold) <= latency_s) & (latency_s <= target_s * (1 + threshold))
    distance = latency_s - target_s
    return BundleFigures(
        float(hit.mean()),
        float(size[hit].sum() / size.sum()),
        float(np.abs(distance).mean() / target_s),
        sqrt(float((distance**2).mean())) / target_s,
    )


@dataclass(frozen=True, slots=True)
class Setup:
    """One combination: settings by their plain names, in order."""

    controller: str
    values: tuple[tuple[str, float], ...] = ()
    threshold: float | None = None
    """None: the controller ignores it, so that one run serves every threshold."""

    def settings(self) -> BatchSettings:
        threshold = THRESHOLDS[0] if self.threshold is None else self.threshold
        return BatchSettings().overridden({"target_ms": TARGET_MS, "threshold": threshold, **dict(self.values)})


@dataclass(frozen=True, slots=True)
class Row:
    """The result of a setup at a threshold, in one repetition."""

    setup: Setup
    threshold: float
    repetition: int
    figures: BundleFigures
    by_pattern: Mapping[str, BundleFigures]
    bundles: int
    throughput_per_s: float


def setups(
    thresholds: Sequence[float] = THRESHOLDS, steps: Sequence[float] = STEPS, samples: Sequence[int] = SAMPLES
) -> list[Setup]:
    """Return all combinations of the thesis, and ours with its defaults."""
    stepped = [(("step", step), ("sample", sample)) for step, sample in product(steps, samples)]
    banded = [Setup(name, each, threshold) for name in BANDED for each in stepped for threshold in thresholds]
    free = [Setup("pbaf-wt", each) for each in stepped]
    gains = [(("kp", kp), ("ki", ki), ("kd", kd)) for kp, ki, kd in product(KP, KI, KD)]
    pid = [Setup("pid", (*each, ("sample", sample))) for each in gains for sample in samples]
    return [*banded, *free, *pid, Setup(OURS)]


def trace_of(setup: Setup, workload: Workload, pipeline: Pipeline, repetition: int) -> Trace:
    controller = make_batch_controller(setup.controller, setup.settings())
    return simulate(controller, workload.loads, pipeline, 1 + repetition, work_of(workload, pipeline.law))


@lru_cache(maxsize=2)
def work_of(workload: Workload, law: CostLaw) -> Work:
    """Return the summed work, once for all runs of a grid, because summing takes a quarter of a run."""
    return Work(workload.loads, law)


def rows_of(setup: Setup, workload: Workload, pipeline: Pipeline, repetition: int = 0) -> list[Row]:
    """Yield a row for every threshold that the run covers."""
    trace = trace_of(setup, workload, pipeline, repetition)
    thresholds = THRESHOLDS if setup.threshold is None else (setup.threshold,)
    return [row_of(setup, threshold, repetition, trace, workload) for threshold in thresholds]


def row_of(setup: Setup, threshold: float, repetition: int, trace: Trace, workload: Workload) -> Row:
    """Summarize ``trace``, in all and by pattern."""
    figures = _figures(trace, slice(None), threshold)
    assert figures is not None, "a workload has tuples"
    by_pattern = {}
    for phase, (first, end) in zip(workload.phases, workload.bounds, strict=True):
        part = _figures(trace, slice(*trace.firsts.searchsorted((first, end))), threshold)
        if part is not None:
            by_pattern[phase.pattern] = part
    throughput_per_s = len(workload.loads) / trace.ended_s
    return Row(setup, threshold, repetition, figures, by_pattern, len(trace.sizes), throughput_per_s)


def _figures(trace: Trace, part: slice, threshold: float) -> BundleFigures | None:
    return bundle_figures(trace.latencies_s[part], trace.sizes[part], TARGET_MS / 1e3, threshold)


# --- many of them ----------------------------------------------------------------------------------------------------

Job = tuple[Setup, int]


def run(jobs: Iterable[Job], pipeline: Pipeline, workers: int) -> Iterator[Row]:
    """Run all jobs, setup and repetition, on the thesis's workload, in ``workers`` processes; yield rows in order."""
    with ProcessPoolExecutor(workers) as pool:
        for rows in pool.map(_job, ((setup, pipeline, repetition) for setup, repetition in jobs), chunksize=4):
            yield from rows


def _job(job: tuple[Setup, Pipeline, int]) -> list[Row]:
    setup, pipeline, repetition = job
    return rows_of(setup, thesis_workload(), pipeline, repetition)


@cache
def thesis_workload() -> Workload:
    """Return the thesis's workload, created once per process."""
    return Workload.of()


def as_json(row: Row) -> dict[str, Any]:
    figures = row.figures
    return {
        "controller": row.setup.controller, **dict(row.setup.values), "threshold": row.threshold,
        "repetition": row.repetition, "batched_hit": figures.batched_hit, "itemized_hit": figures.itemized_hit,
        "mad_distance": figures.mad_distance, "sd_distance": figures.sd_distance,
        "itemized_by_pattern": {name: each.itemized_hit for name, each in row.by_pattern.items()},
        "bundles": row.bundles, "throughput_per_s": row.throughput_per_s,
    }  # fmt: skip
