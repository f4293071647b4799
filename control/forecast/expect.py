"""What the capacity model says of compositions under the conditions that a snapshot shows.

The one such call: the strategy ``model``, ``GET /compositions`` and ``GET /what-if`` all make it, so that nobody sees a
figure that the strategy does not start from. What the strategy has learned beyond it are corrections of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from compositions.capacity.costs import PACED_ARRIVAL_CV, Conditions, StageCost
from compositions.capacity.predict import predict_all
from compositions.capacity.prediction import Predictions
from compositions.capacity.table import CompositionTable
from compositions.model import Composition
from control.reading import needed_rate
from profiler.service_time import stage_costs
from profiler.snapshot import Snapshot

_POISSON_ARRIVAL_CV = 1.0


@dataclass(frozen=True, slots=True)
class Unmeasured:
    """Nothing can be predicted: ``stage`` has no profile yet."""

    stage: str


def expect(
    compositions: CompositionTable | Sequence[Composition], snapshot: Snapshot, *, scale: float = 1.0
) -> Predictions | Unmeasured:
    """What each of ``compositions``, of one app, would do if everything took ``scale`` times as long as measured."""
    table = compositions if isinstance(compositions, CompositionTable) else CompositionTable(compositions)
    missing = _unmeasured(table.stages, snapshot)
    if missing is not None:
        return missing
    costs = stage_costs(snapshot.stages, snapshot.cores)
    conditions = Conditions(
        snapshot.cores,
        snapshot.hop_s * scale,
        needed_rate(snapshot),
        arrival_cv=_arrival_cv(snapshot),
        bundle_items=snapshot.bundle_items,
        bundle_limit=snapshot.bundle_limit,
    )
    return predict_all(table, {name: _scaled(cost, scale) for name, cost in costs.items()}, conditions)


def _arrival_cv(snapshot: Snapshot) -> float:
    """Of the times between items: counted arrivals come from independent users, a set rate from a paced source."""
    windows = snapshot.input_rate_windows
    return _POISSON_ARRIVAL_CV if windows and windows[-1].counted else PACED_ARRIVAL_CV


def _unmeasured(stages: Iterable[str], snapshot: Snapshot) -> Unmeasured | None:
    return next((Unmeasured(stage) for stage in stages if snapshot.stage(stage) is None), None)


def _scaled(cost: StageCost, scale: float) -> StageCost:
    return replace(cost, service_s=cost.service_s * scale, cpu_s=cost.cpu_s * scale)
