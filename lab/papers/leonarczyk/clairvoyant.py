"""The best reachable hit rate: a controller that knows what no controller can, and misses by a bundle's noise alone.

Without it a hit of 80 % says little: it may be half or all of what the noise of a machine leaves.
"""

from __future__ import annotations

from bisect import bisect_right

from control.bundles.port import BatchController, BundleOpening, Choice, DeliveredBundle
from lab.papers.leonarczyk.grid import TARGET_MS, Row, Setup, row_of, work_of
from lab.papers.leonarczyk.plant import CostLaw, Pipeline, simulate
from lab.papers.leonarczyk.published import THRESHOLDS
from lab.papers.leonarczyk.workload import Workload

AIMS = (0.8, 0.85, 0.9, 0.94, 0.96, 0.98, 1.0)
"""As shares of the target. A bundle is later than its own work now and then, behind a slow one, never earlier: so the
best aim is below the target, and how far depends on the noise."""
MOST_ITEMS = 4096


class Clairvoyant(BatchController):
    """Knows the law, the load of every tuple to come and the drift of now; takes what is nearest to its aim."""

    name = "clairvoyant"

    def __init__(self, workload: Workload, law: CostLaw, seed: int, aim_s: float) -> None:
        self._work, self._tuples, self._aim_s = work_of(workload, law), len(workload.loads), aim_s
        self._drift = law.drift(seed)

    def delivered(self, bundle: DeliveredBundle) -> None:
        """It has nothing to learn."""

    def next(self, opening: BundleOpening) -> Choice:
        first, aim_s = opening.first, self._aim_s / next(self._drift)
        sizes = range(1, min(MOST_ITEMS, self._tuples - first) + 1)
        above = bisect_right(sizes, aim_s, key=lambda size: self._work.mean_s(first, size))
        around = sizes[max(above - 1, 0) : above + 1]
        return Choice(min(around, key=lambda size: abs(self._work.mean_s(first, size) - aim_s)), self.name)


def reachable(workload: Workload, pipeline: Pipeline, repetition: int = 0) -> Row:
    """What the clairvoyant comes to at 5 %, with the best of its aims, under the noise of that repetition."""
    rows = [_aimed(aim, workload, pipeline, repetition) for aim in AIMS]
    return max(rows, key=lambda row: row.figures.itemized_hit)


def _aimed(aim: float, workload: Workload, pipeline: Pipeline, repetition: int) -> Row:
    seed = 1 + repetition
    controller = Clairvoyant(workload, pipeline.law, seed, aim * TARGET_MS / 1e3)
    trace = simulate(controller, workload.loads, pipeline, seed, work_of(workload, pipeline.law))
    return row_of(Setup(controller.name, (("aim", aim),)), THRESHOLDS[0], repetition, trace, workload)
