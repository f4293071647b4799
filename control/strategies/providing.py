"""The decisions of the strategy ``model`` while the load changes: provide for the expected load, in place if
possible."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from compositions.model import Composition, TransitionKind
from control.decisions import Trigger
from control.forecast.forecasts import Forecast, Forecasts
from control.situation import Situation
from control.strategies.base import Proposal, Stay, Trial
from control.strategies.wording import costs, settle, tell

_AS_GOOD = 0.98
"""Within 2 % of the best counts as the best when nothing is enough."""
_WORTH_A_DRAIN = 2
"""Workers that a change of grouping must save while the load moves, or that must be missing for a step on the way: it
costs a drain, and the way back another."""
_WORTH_A_STEP = 1.2
"""By what factor workers that are there must do more in the groups that are wanted: a drain earlier is worth that."""
_OF_THE_LOAD = (Trigger.START, Trigger.INPUT_RATE, Trigger.PROFILE, Trigger.BUDGET)


def provides(situation: Situation, trials: Sequence[Trial]) -> bool:
    """The question is the load, and there is no time to measure."""
    return situation.moving and not trials and situation.trigger in _OF_THE_LOAD


def provide(situation: Situation, forecasts: Forecasts) -> Proposal:
    """The fewest workers that will do, rather by a resize; nothing is tried: a trial would outlast its question."""
    enough = forecasts.column("likely") >= 1 + situation.settings.trust.up_margin
    alike = forecasts.alike(situation.active)
    if situation.floor_workers:
        enough &= forecasts.workers >= situation.floor_workers
    chosen, costly = _pick(forecasts, enough, alike), ""
    if chosen is None:
        chosen = _most(forecasts)
        within = "" if situation.budget.free else f" within {situation.budget.told()}"
        why = f"nothing known meets what is foreseen{within}{_left(situation)}; {chosen.composition.name} comes closest"
        costly = costs(situation, forecasts, chosen)
    else:
        why = f"{chosen.composition.name} meets what is foreseen"
    if chosen.composition.shape == situation.active.shape:
        return Stay(f"{situation.active.name} stays ({tell(situation, chosen)}){costly}")
    step = _at_hand(situation, forecasts, chosen.composition)
    if step is not None:
        name, workers = step.composition.name, chosen.composition.workers
        return settle(situation, forecasts, step, f"{why}; {name} until its {workers} workers are started{costly}")
    return settle(situation, forecasts, chosen, f"{why} ({tell(situation, chosen)}){costly}")


def _left(situation: Situation) -> str:
    """Of the cores, where others take some."""
    snapshot = situation.snapshot
    if snapshot.cores_left is None:
        return ""
    return f" with about {snapshot.cores_left} of {snapshot.cores} cores, for other programs take the rest"


def _at_hand(situation: Situation, forecasts: Forecasts, wanted: Composition) -> Forecast | None:
    """On the way to ``wanted`` the most that those who are there already can do in its groups. A change of grouping
    waits for all its workers, a resize uses each as it comes; ``None`` where that is no gain."""
    there = situation.snapshot.workers_alive
    if wanted.workers - there < _WORTH_A_DRAIN or situation.transition_to(wanted) is TransitionKind.RESIZE:
        return None
    rows = forecasts.alike(wanted) & forecasts.affordable & (forecasts.workers <= there)
    ready = (each for each in forecasts.where(rows) if each.composition.name not in situation.unavailable)
    best = max(ready, key=lambda each: each.throughput_per_s, default=None)
    if best is None or situation.settings.style.transition(best.composition, wanted) is TransitionKind.SWITCH:
        return None
    return best if best.throughput_per_s > _WORTH_A_STEP * forecasts.of(situation.active).throughput_per_s else None


def _pick(forecasts: Forecasts, enough: npt.NDArray[np.bool_], alike: npt.NDArray[np.bool_]) -> Forecast | None:
    best = next(forecasts.where(enough), None)
    in_place = next(forecasts.where(enough & alike), None)
    if best is None or in_place is None:
        return best
    saved = in_place.composition.workers - best.composition.workers
    return best if saved >= _WORTH_A_DRAIN else in_place


def _most(forecasts: Forecasts) -> Forecast:
    name = "likely" if forecasts.column("likely").max() > 0 else "capacity"
    goodness = np.where(forecasts.affordable, forecasts.column(name), 0.0)
    return next(forecasts.where(forecasts.affordable & (goodness >= _AS_GOOD * goodness.max())))
