"""Beyond the list of compositions: could more replicas do what none of them can?"""

from __future__ import annotations

from dataclasses import replace

from compositions.capacity.prediction import Prediction
from compositions.model import Composition, Group, Pattern
from control.forecast.expect import Unmeasured, expect
from control.reading import needed_rate
from control.situation import Situation

_DOUBLINGS = 8
"""Of replicas, one group after the other: far more than cores or patience last."""


def wanting(situation: Situation, composition: Composition) -> tuple[str, ...]:
    """Stages of ``composition`` of which more replicas are predicted to meet the objective with the cores there are;
    none where the cores limit it, or a stage that there is only one of."""
    wider, stages = composition, dict[str, None]()
    for _ in range(_DOUBLINGS):
        predictions = expect([wider], situation.snapshot)
        if isinstance(predictions, Unmeasured):
            return ()
        told = predictions[0]
        if _meets(situation, told):
            return tuple(stages)
        group = wider.groups[told.bottleneck_group]
        if told.limited_by == "cores" or not situation.stateful.isdisjoint(group.stages):
            return ()
        stages.update(dict.fromkeys(group.stages))
        wider = _doubled(wider, told.bottleneck_group)
    return ()


def _meets(situation: Situation, told: Prediction) -> bool:
    objective, rate = situation.objective, needed_rate(situation.snapshot)
    value = objective.value(told.throughput_per_s, told.statistic(objective.slo.statistic))
    return bool(objective.met_by(value, rate)) and not told.overloaded


def _doubled(composition: Composition, at: int) -> Composition:
    group = composition.groups[at]
    more = Group(group.stages, Pattern.PAR, 2 * group.replicas)
    return replace(composition, groups=(*composition.groups[:at], more, *composition.groups[at + 1 :]))
