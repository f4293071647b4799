"""Apply the capacity model to compositions under the conditions that a snapshot shows.

``GET /compositions``, ``GET /what-if`` and the objective ``fastest`` use it. Strategy ``expected-cost`` has a model of
its own (:mod:`control.rule`), so its choice may differ.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from compositions.capacity.costs import PACED_ARRIVAL_CV, Array, Conditions, StageCost
from compositions.capacity.predict import predict_all
from compositions.capacity.prediction import Predictions
from compositions.capacity.table import CompositionTable
from compositions.model import Composition
from control.bundles.bundle_size import sizes_by_groups
from control.reading import needed_rate
from profiler.service_time import stage_costs
from profiler.snapshot import Snapshot

_POISSON_ARRIVAL_CV = 1.0


@dataclass(frozen=True, slots=True)
class Unmeasured:
    """The result if nothing can be predicted, because ``stage`` has no profile yet."""

    stage: str


def expect(
    compositions: CompositionTable | Sequence[Composition], snapshot: Snapshot, *, scale: float = 1.0
) -> Predictions | Unmeasured:
    """Return the predictions for ``compositions``; all measured times are multiplied by ``scale``."""
    table = compositions if isinstance(compositions, CompositionTable) else CompositionTable(compositions)
    missing = next((stage for stage in table.stages if snapshot.stage(stage) is None), None)
    if missing is not None:
        return Unmeasured(missing)
    measured = stage_costs(snapshot.stages, snapshot.cores)
    costs = {name: _scaled(cost, scale) for name, cost in measured.items()}
    cores = snapshot.cores if snapshot.cores_left is None else snapshot.cores_left
    # Counted arrivals come from independent users, a set rate from a paced source.
    arrival_cv = _POISSON_ARRIVAL_CV if snapshot.counted else PACED_ARRIVAL_CV
    now = Conditions(cores, snapshot.hop_s * scale, needed_rate(snapshot), arrival_cv=arrival_cv)
    alike = [  # compositions by their bundle limit; a smaller limit than now makes smaller bundles
        (rows, replace(now, bundle_items=min(snapshot.bundle_items, limit), bundle_limit=limit))
        for limit, rows in _by_size(table, snapshot)
    ]
    if len(alike) == 1:
        return predict_all(table, costs, alike[0][1])
    return Predictions.joined([(rows, predict_all(table.only(rows), costs, each)) for rows, each in alike])


def _by_size(table: CompositionTable, snapshot: Snapshot) -> list[tuple[float, npt.NDArray[np.intp]]]:
    """Return each limit of the bundle size, with the rows of the compositions that have it."""
    limits = np.where(np.isnan(table.bundle_items), _left_open(table, snapshot), table.bundle_items)
    return [(float(limit), np.flatnonzero(limits == limit)) for limit in np.unique(limits)] or [(1.0, np.arange(0))]


def _left_open(table: CompositionTable, snapshot: Snapshot) -> Array:
    """Return the bundle size of each composition for the case that it sets none itself."""
    left_open = snapshot.size_left_open
    if left_open is None:
        return np.full(len(table), max(snapshot.bundle_limit, snapshot.bundle_items))
    sizes = sizes_by_groups(snapshot.stages, snapshot.hop_s, left_open.target_s, len(table.stages))
    return left_open.times * np.array(sizes, dtype=float)[table.groups]


def _scaled(cost: StageCost, scale: float) -> StageCost:
    return replace(cost, service_s=cost.service_s * scale, cpu_s=cost.cpu_s * scale, gpu_s=cost.gpu_s * scale)
