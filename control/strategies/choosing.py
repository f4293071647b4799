"""The decisions of the strategy ``model`` from its forecasts: release workers, add some, try a composition, or stay."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import numpy as np
import numpy.typing as npt

from compositions.capacity.predict import widened
from compositions.capacity.prediction import Prediction
from compositions.model import Composition
from control.decisions import Trigger
from control.forecast.expect import Unmeasured, expect
from control.forecast.forecasts import Forecast, Forecasts
from control.reading import needed_rate
from control.situation import Situation
from control.strategies.base import Proposal, Stay, Trial, cheapness
from control.strategies.wording import costs, settle, tell, try_out
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


_AS_GOOD = 0.98
"""Within 2 % of the best counts as the best when nothing meets the SLO."""
_FOR_CERTAINTY = 1
"""Workers more where nothing is tried, if these will do for certain: that costs less than a promise that is not kept.
Two or three would cost more than a doubt."""


def next_step(situation: Situation, forecasts: Forecasts, trials: Sequence[Trial]) -> Proposal:
    """Return what to try or choose next, given what was tried in this decision so far."""
    succeeded = [trial for trial in trials if trial.assessment is not None and trial.assessment.meets]
    if succeeded:
        trial = succeeded[-1]
        why = f"{trial.composition.name} meets the SLO with the fewest workers ({trial.ended})"
        return settle(situation, forecasts, forecasts.of(trial.composition), why)
    if situation.rough and situation.trigger is Trigger.PROFILE and not trials:
        return _reviewed(situation, forecasts)
    if _releasing(situation, forecasts, trials):
        if not trials and _rising(situation):
            return Stay("the input rate is rising, so no worker is released yet")
        return _fewer(situation, forecasts, trials)
    return _enough(situation, forecasts, trials)


def _reviewed(situation: Situation, forecasts: Forecasts) -> Proposal:
    """A rough load is not tried, for a trial would tell as much of chance: the fewest workers that will do."""
    trust, likely = situation.settings.trust, forecasts.column("likely")
    free = ~forecasts.missed_lately & _allowed(situation, forecasts)
    active = forecasts.of(situation.active)
    if active.likely >= 1 and forecasts.affords(situation.active):
        fewer = free & (forecasts.workers < situation.active.workers) & (likely >= 1 + trust.down_margin)
        fewest: Forecast | None = next(forecasts.where(fewer), active)
    else:
        fewest = next(forecasts.where(free & (likely >= 1 + trust.up_margin)), None)
    if fewest is None:
        return _enough(situation, forecasts, ())
    best = _certain(forecasts, fewest, active, free)
    if best.composition is active.composition:
        return Stay(f"{situation.active.name} has the fewest workers that will do; {situation.assessment.reason}")
    name, workers = best.composition.name, best.composition.workers
    why = f"{name} will do with {workers} instead of {situation.active.workers} workers"
    return settle(situation, forecasts, best, f"{why} ({tell(situation, best)})")


def _certain(forecasts: Forecasts, fewest: Forecast, active: Forecast, free: npt.NDArray[np.bool_]) -> Forecast:
    """``fewest``, or where that is in doubt what is not and has hardly more workers; rather the active one."""
    hardly_more = forecasts.workers <= fewest.composition.workers + _FOR_CERTAINTY
    found = next(forecasts.where(free & hardly_more & (forecasts.column("low") >= 1)), None)
    if fewest.low >= 1 or found is None:
        return fewest
    stays = active.low >= 1 and active.composition.workers <= found.composition.workers
    return active if stays else found


def _releasing(situation: Situation, forecasts: Forecasts, trials: Sequence[Trial]) -> bool:
    """Return whether the question is if fewer workers would do, rather than what would be enough."""
    if not forecasts.affords(situation.active):
        return False
    if trials:
        return situation.trigger is Trigger.PROFILE
    if situation.assessment.meets is False:
        return False
    measured_now = situation.assessment.meets and situation.trigger is not Trigger.INPUT_RATE
    return bool(measured_now) or forecasts.of(situation.active).likely >= 1


def _rising(situation: Situation) -> bool:
    """A set rate was higher in the last second than in the one before: the mean of the window is too low to plan on."""
    windows = situation.snapshot.input_rate_windows
    ratio = 1 + situation.settings.rhythm.change_ratio
    return len(windows) == 2 and not windows[1].counted and windows[1].rate_per_s > ratio * windows[0].rate_per_s


def _fewer(situation: Situation, forecasts: Forecasts, trials: Sequence[Trial]) -> Proposal:
    """All is well: would fewer workers do? Only what is predicted to have room to spare is worth the move."""
    home = _home(situation, forecasts, trials)
    tried = {trial.composition.name for trial in trials}
    fewer = (forecasts.workers < home.composition.workers) & ~forecasts.missed_lately & _allowed(situation, forecasts)
    for forecast in forecasts.where(fewer & (forecasts.column("likely") >= 1 + situation.settings.trust.down_margin)):
        name, workers = forecast.composition.name, forecast.composition.workers
        if forecast.low >= 1:
            why = f"{name} will do with {workers} instead of {home.composition.workers} workers"
            return settle(situation, forecasts, forecast, f"{why} ({tell(situation, forecast)})")
        if not situation.rough and name not in tried and len(trials) < situation.settings.trials.model_trials:
            return try_out(situation, forecasts, forecast, "it may do with fewer workers")
    if trials:
        why = f"back to {home.composition.name}: nothing tried does with fewer workers"
        return settle(situation, forecasts, home, why)
    return Stay(f"{situation.active.name} has the fewest workers that meet the SLO; {situation.assessment.reason}")


def _home(situation: Situation, forecasts: Forecasts, trials: Sequence[Trial]) -> Forecast:
    """Return where to return to when no trial succeeds: the cheapest that was seen to meet the SLO, else the active
    one."""
    active = forecasts.of(situation.active)
    if not trials:
        return active
    known = ~forecasts.unseen() & _allowed(situation, forecasts)
    return next((f for f in forecasts.where(known) if f.seen), active)


def _allowed(situation: Situation, forecasts: Forecasts) -> npt.NDArray[np.bool_]:
    """Rows within the budget with as many workers as there have to be; all of them where none has."""
    enough = forecasts.affordable & (forecasts.workers >= situation.floor_workers)
    return enough if enough.any() else forecasts.affordable


def _enough(situation: Situation, forecasts: Forecasts, trials: Sequence[Trial]) -> Proposal:
    """The SLO is missed, or will be: the cheapest that surely meets it, after trying cheaper likely ones."""
    low, likely, high = (forecasts.column(name) for name in ("low", "likely", "high"))
    allowed = _allowed(situation, forecasts)
    sure = allowed if situation.rough else allowed & (low >= 1)
    certain = next(forecasts.where(sure & (likely >= 1 + situation.settings.trust.up_margin)), None)
    least = 1.0 if certain is not None else 0.0  # with a sure way out, only what is more likely than not
    doubtful = allowed & (low < 1) & (high >= 1) & (likely >= least) & forecasts.unseen()
    worth = _worth_trying(forecasts, doubtful, certain, trials)
    if worth and not situation.rough and len(trials) < situation.settings.trials.model_trials:
        return try_out(situation, forecasts, worth[0], "it may be enough")
    chosen = certain or max(worth or _undecided(forecasts, trials), key=lambda f: f.likely, default=None)
    best = chosen or _closest(forecasts, allowed)
    if certain is None and _as_good(situation, forecasts, best):
        chosen, best = None, forecasts.of(situation.active)
    if chosen is not None:
        meets = "is expected to meet" if certain else "may meet"
        why = f"{chosen.composition.name} {meets} the SLO ({tell(situation, chosen)})"
        return settle(situation, forecasts, chosen, why)
    within = "" if situation.budget.free else f" within {situation.budget.told()}"
    why = f"no known composition can meet the SLO here{within}; {best.composition.name} comes closest"
    why = f"{why} ({tell(situation, best)}){costs(situation, forecasts, best)}{_list_ends(situation, forecasts, best)}"
    return settle(situation, forecasts, best, why, infeasible=True)


def _as_good(situation: Situation, forecasts: Forecasts, best: Forecast) -> bool:
    """The active composition may be as good as ``best``: of a rough load the next estimate may find another the best,
    and the one after it a third."""
    high = forecasts.of(situation.active).high
    return situation.rough and forecasts.affords(situation.active) and high > 0 and high >= best.likely


def _list_ends(situation: Situation, forecasts: Forecasts, best: Forecast) -> str:
    """Return what is to be done where the list limits and not the machine."""
    stages = wanting(situation, best.composition) if situation.budget.free else ()
    if not stages:
        return ""
    ends = f"; the list ends at {forecasts.workers.max()} workers; more replicas of {' and '.join(stages)} could do it"
    return f"{ends}: add compositions or generate with a larger max_workers"


def _worth_trying(
    forecasts: Forecasts, doubtful: npt.NDArray[np.bool_], certain: Forecast | None, trials: Sequence[Trial]
) -> list[Forecast]:
    """The likeliest of each number of workers below the certain one's; those more likely than not first."""
    tried = {trial.composition.name for trial in trials}
    best: dict[int, Forecast] = {}
    for forecast in forecasts.where(doubtful):
        workers = forecast.composition.workers
        if certain is not None and workers >= certain.composition.workers:
            break
        better = workers not in best or forecast.likely > best[workers].likely
        if better and forecast.composition.name not in tried:
            best[workers] = forecast
    return sorted(best.values(), key=lambda f: (f.likely < 1, cheapness(f.composition)))


def _undecided(forecasts: Forecasts, trials: Sequence[Trial]) -> list[Forecast]:
    """Tried without an answer, as when a backlog lasted all the time, and still possible."""
    asked = [trial for trial in trials if trial.assessment is not None and trial.assessment.meets is None]
    return [forecast for trial in asked if (forecast := forecasts.of(trial.composition)).high >= 1]


def _closest(forecasts: Forecasts, allowed: npt.NDArray[np.bool_]) -> Forecast:
    """The cheapest of those as good as the best; by capacity where no queue would ever end."""
    goodness = forecasts.column("likely" if forecasts.column("likely")[allowed].max() > 0 else "capacity")
    return next(forecasts.where(allowed & (goodness >= _AS_GOOD * goodness[allowed].max())))
