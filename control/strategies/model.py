"""Strategy ``model``: ours, the default. Predicts every composition from the profile, acts on what is certain, tries
only what is in doubt, and remembers where it was wrong."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import sqrt

import numpy as np
import numpy.typing as npt

from compositions.model import Composition
from control.decisions import Trigger
from control.forecast.compositions import Catalogue, Forecast, Forecaster, Forecasts, is_expected
from control.settings import Settings
from control.strategies.assess import Assessment, current_rate
from control.strategies.base import Pace, Proposal, Situation, Stay, Trial
from control.strategies.memory import Corrections, Verdicts
from control.strategies.report import settle, tell, try_out
from control.strategies.rules import cheapness

_CLEAR_SIGMAS = 3.0
"""A trial is looked at several times a second: at three standard errors one in a hundred ends early by chance."""
_SETTLING_S = 2.0
"""A miss is not clear before: the first results of a composition fill its groups."""
_NEAR_FULL = 0.8
"""Utilization above which a latency says more about a few percent of capacity than about other compositions."""
_AS_GOOD = 0.98
"""Within 2 % of the best counts as the best when nothing meets the SLO."""


class Model:
    """Fewest workers first: what surely fails is rejected, what surely does is chosen, what lies between is tried."""

    name = "model"

    def __init__(self) -> None:
        self._corrections = Corrections()
        self._verdicts = Verdicts()
        self._catalogue = Catalogue(())

    def pace(self, settings: Settings) -> Pace:
        return Pace(settings.rhythm.vote_interval_s, settings.rhythm.votes, foresees=True)

    def prepare(self, compositions: tuple[Composition, ...]) -> None:
        self._catalogue = Catalogue(compositions)

    def propose(self, situation: Situation, trials: tuple[Trial, ...]) -> Proposal:
        missing = _unprofiled(situation)
        if missing is not None:
            return Stay(f"too few samples: nothing is known of {missing}")
        forecasts = self._forecaster(situation).all(self._catalogue.including(situation.active))
        succeeded = [trial for trial in trials if trial.assessment is not None and trial.assessment.meets]
        if succeeded:
            trial = succeeded[-1]
            why = f"{trial.composition.name} meets the SLO with the fewest workers ({trial.note})"
            return settle(situation, forecasts, forecasts.of(trial.composition), why)
        if _releasing(situation, forecasts, trials):
            if not trials and _rising(situation):
                return Stay("the input rate is rising: nothing is given back now")
            return _fewer(situation, forecasts, trials)
        return _enough(situation, forecasts, trials)

    def clear(self, situation: Situation, elapsed_s: float) -> str | None:
        """Ends a trial when the measured rate or latency is clear of the bound by three standard errors."""
        seen = situation.assessment
        if seen.meets is None or situation.snapshot.delivered < situation.settings.measuring.min_samples:
            return None
        room, margin = _room(situation, seen), _CLEAR_SIGMAS * _standard_error(situation)
        clear = room > margin if seen.meets else room < -margin and elapsed_s >= _SETTLING_S
        return f"clear after {elapsed_s:.1f} s: {seen.reason}" if clear else None

    def learn(self, situation: Situation) -> None:
        """Corrects capacity and latency of the active composition, and (by half) of those with the same limit."""
        if _unprofiled(situation) is not None:
            return
        seen, shape = situation.assessment, situation.active.shape
        if seen.meets is not None:
            self._verdicts.record(situation.active, seen.meets, situation.slo, situation.snapshot)
        raw = self._forecaster(situation).raw(situation.active)
        if seen.throughput_per_s and _shows_capacity(seen, raw.throughput_per_s):
            ratio = seen.throughput_per_s / raw.throughput_per_s
            self._correct(situation, ("capacity", shape), ("capacity", raw.limited_by), ratio)
        expected_s = raw.statistic(situation.slo.statistic)
        clean = seen.meets is not None and not seen.saturated
        if expected_s and seen.latency_s and clean and is_expected(expected_s):
            near_full = (raw.utilization or 0.0) > _NEAR_FULL
            self._correct(situation, ("latency", shape), None if near_full else "latency", seen.latency_s / expected_s)

    def _correct(self, situation: Situation, own: Hashable, shared: Hashable | None, ratio: float) -> None:
        self._corrections.learn(own, shared, ratio, situation.now_s, situation.settings.model.bias_limit)

    def _forecaster(self, situation: Situation) -> Forecaster:
        return Forecaster(situation, self._corrections, self._verdicts)


def _unprofiled(situation: Situation) -> str | None:
    """A stage without a profile, for which nothing can be predicted."""
    return next((stage for stage in situation.active.stages if situation.snapshot.stage(stage) is None), None)


def _releasing(situation: Situation, forecasts: Forecasts, trials: Sequence[Trial]) -> bool:
    """Whether the question is if fewer workers would do, rather than what would be enough."""
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
    fewer = (forecasts.workers < home.composition.workers) & ~forecasts.missed_lately
    for forecast in forecasts.where(fewer & (forecasts.column("likely") >= 1 + situation.settings.model.down_margin)):
        name, workers = forecast.composition.name, forecast.composition.workers
        if forecast.low >= 1:
            why = f"{name} will do with {workers} instead of {home.composition.workers} workers"
            return settle(situation, forecasts, forecast, f"{why} ({tell(situation, forecast)})")
        if name not in tried and len(trials) < situation.settings.trials.model_trials:
            return try_out(situation, forecasts, forecast, "it may do with fewer workers")
    if trials:
        why = f"back to {home.composition.name}: nothing tried does with fewer workers"
        return settle(situation, forecasts, home, why)
    return Stay(f"{situation.active.name} has the fewest workers that meet the SLO; {situation.assessment.reason}")


def _home(situation: Situation, forecasts: Forecasts, trials: Sequence[Trial]) -> Forecast:
    """Where to return to when no trial succeeds: the cheapest that was seen to meet the SLO, else the active one."""
    active = forecasts.of(situation.active)
    if not trials:
        return active
    return next((f for f in forecasts.where(~forecasts.unseen()) if f.seen), active)


def _enough(situation: Situation, forecasts: Forecasts, trials: Sequence[Trial]) -> Proposal:
    """The SLO is missed, or will be: the cheapest that surely meets it, after trying cheaper likely ones."""
    low, likely, high = (forecasts.column(name) for name in ("low", "likely", "high"))
    certain = next(forecasts.where((low >= 1) & (likely >= 1 + situation.settings.model.up_margin)), None)
    least = 1.0 if certain is not None else 0.0  # with a sure way out, only what is more likely than not
    doubtful = (low < 1) & (high >= 1) & (likely >= least) & forecasts.unseen()
    worth = _worth_trying(forecasts, doubtful, certain, trials)
    if worth and len(trials) < situation.settings.trials.model_trials:
        return try_out(situation, forecasts, worth[0], "it may be enough")
    chosen = certain or max(worth or _undecided(forecasts, trials), key=lambda f: f.likely, default=None)
    if chosen is not None:
        sure = "surely meets" if certain else "is most likely to meet"
        why = f"{chosen.composition.name} {sure} the SLO ({tell(situation, chosen)})"
        return settle(situation, forecasts, chosen, why)
    best = _closest(forecasts)
    why = f"no known composition can meet the SLO here; {best.composition.name} comes closest"
    return settle(situation, forecasts, best, f"{why} ({tell(situation, best)})", infeasible=True)


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


def _closest(forecasts: Forecasts) -> Forecast:
    """The cheapest of those as good as the best; by capacity where no queue would ever end."""
    goodness = forecasts.column("likely" if forecasts.column("likely").max() > 0 else "capacity")
    return next(forecasts.where(goodness >= _AS_GOOD * goodness.max()))


# --- when is a trial clear, and what does it show --------------------------------------------------------------------


def _room(situation: Situation, seen: Assessment) -> float:
    """Distance of the measured value from the bound, relative to the bound; positive when it meets the SLO."""
    slo = situation.slo
    bound = slo.bound(current_rate(situation.snapshot))
    value = seen.throughput_per_s if slo.metric == "throughput" else seen.latency_s
    if not bound or value is None:
        return 0.0
    return value / bound - 1 if slo.metric == "throughput" else 1 - value * 1000 / bound


def _standard_error(situation: Situation) -> float:
    """Of a mean over the window's deliveries, relative: the scatter of service times, at least 0.2, over √n."""
    scatter = max([0.2, *(stage.cv for stage in situation.snapshot.stages)])
    return scatter / sqrt(max(1, situation.snapshot.delivered))


def _shows_capacity(seen: Assessment, predicted_per_s: float) -> bool:
    """Saturated, and behind or catching up: all it can do. Else a lower bound: news only above the prediction."""
    throughput = seen.throughput_per_s or 0.0
    return (seen.saturated and (seen.meets is False or seen.draining)) or throughput > predicted_per_s
