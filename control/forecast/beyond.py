"""Beyond the list of compositions: could more replicas do what none of them can?"""

from __future__ import annotations

from itertools import islice

from compositions.capacity.prediction import Prediction
from compositions.capacity.widening import widened
from compositions.model import Composition
from control.forecast.expect import Unmeasured, expect
from control.reading import needed_rate
from control.situation import Situation
from profiler.service_time import stage_costs

_WIDTHS = 8
"""Looked at, each with one group doubled: far more than cores or patience last."""


def wanting(situation: Situation, composition: Composition) -> tuple[str, ...]:
    """Stages of ``composition`` of which more replicas are predicted to meet the objective with the cores there are;
    none where the cores limit it, or a stage that there is only one of. Raises: KeyError without a profile of each."""
    snapshot = situation.snapshot
    costs = {
        name: cost.of_bundle(snapshot.bundle_items)
        for name, cost in stage_costs(snapshot.stages, snapshot.cores).items()
    }
    wider = tuple(islice(widened(composition, costs, snapshot.hop_s, situation.stateful), _WIDTHS))
    predictions = expect(wider, snapshot)
    assert not isinstance(predictions, Unmeasured), "each stage had its cost"
    for each, told in zip(wider, predictions, strict=True):
        if _meets(situation, told):
            pairs = zip(composition.groups, each.groups, strict=True)
            return tuple(stage for now, then in pairs if then.replicas > now.replicas for stage in then.stages)
        if told.limited_by == "cores":
            break
    return ()


def _meets(situation: Situation, told: Prediction) -> bool:
    room = situation.objective.room(told.throughput_per_s, told.at, needed_rate(situation.snapshot))
    return room is not None and room >= 0 and not told.overloaded
