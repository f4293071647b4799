"""Strategy ``model``: ours, the default. Predicts every composition from the profile, acts on what is certain, tries
only what is in doubt, and remembers where it was wrong."""

from __future__ import annotations

from collections.abc import Hashable
from math import sqrt

from compositions.model import Composition
from control.assess import Assessment
from control.forecast.catalogue import Catalogue
from control.forecast.expect import Unmeasured
from control.forecast.forecaster import Forecaster, is_expected
from control.forecast.memory import Corrections, Verdicts
from control.reading import current_rate
from control.settings import Settings
from control.situation import Situation
from control.strategies.base import Pace, Proposal, Stay, Strategy, Trial
from control.strategies.choosing import next_step
from control.strategies.rules import measured_value

_CLEAR_SIGMAS = 3.0
"""A trial is looked at several times a second: at three standard errors one in a hundred ends early by chance."""
_SETTLING_S = 2.0
"""A miss is not clear before: the first results of a composition fill its groups."""
_NEAR_FULL = 0.8
"""Utilization above which a latency says more about a few percent of capacity than about other compositions."""


class Model(Strategy):
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
        forecasts = self._forecaster(situation).all(self._catalogue.including(situation.active))
        if isinstance(forecasts, Unmeasured):
            return Stay(f"too few samples: nothing is known of {forecasts.stage}")
        return next_step(situation, forecasts, trials)

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
        raw = self._forecaster(situation).raw(situation.active)
        if isinstance(raw, Unmeasured):
            return
        seen, shape = situation.assessment, situation.active.shape
        if seen.meets is not None:
            self._verdicts.record(situation.active, seen.meets, situation.objective, situation.snapshot)
        if seen.throughput_per_s and _shows_capacity(seen, raw.throughput_per_s):
            ratio = seen.throughput_per_s / raw.throughput_per_s
            self._correct(situation, ("capacity", shape), ("capacity", raw.limited_by), ratio)
        expected_s = raw.statistic(situation.objective.slo.statistic)
        clean = seen.meets is not None and not seen.saturated
        if expected_s and seen.latency_s and clean and is_expected(expected_s):
            near_full = (raw.utilization or 0.0) > _NEAR_FULL
            self._correct(situation, ("latency", shape), None if near_full else "latency", seen.latency_s / expected_s)

    def fork(self) -> Model:
        """The table of compositions is shared, because it never changes."""
        other = Model()
        other._corrections, other._verdicts = self._corrections.copy(), self._verdicts.copy()
        other._catalogue = self._catalogue
        return other

    def _correct(self, situation: Situation, own: Hashable, shared: Hashable | None, ratio: float) -> None:
        self._corrections.learn(own, shared, ratio, situation.now_s, situation.settings.trust.bias_limit)

    def _forecaster(self, situation: Situation) -> Forecaster:
        return Forecaster(situation, self._corrections, self._verdicts)


# --- when is a trial clear, and what does it show --------------------------------------------------------------------


def _room(situation: Situation, seen: Assessment) -> float:
    """Distance of the measured value from the bound, relative to the bound; positive when it meets the SLO."""
    objective = situation.objective
    bound, value = objective.bound(current_rate(situation.snapshot)), measured_value(objective, seen)
    return objective.slack(value, bound) if bound and value is not None else 0.0


def _standard_error(situation: Situation) -> float:
    """Of a mean over the window's deliveries, relative: the scatter of service times, at least 0.2, over √n."""
    scatter = max([0.2, *(stage.cv for stage in situation.snapshot.stages)])
    return scatter / sqrt(max(1, situation.snapshot.delivered))


def _shows_capacity(seen: Assessment, predicted_per_s: float) -> bool:
    """Saturated, and behind or catching up: all it can do. Else a lower bound: news only above the prediction."""
    throughput = seen.throughput_per_s or 0.0
    return (seen.saturated and (seen.meets is False or seen.draining)) or throughput > predicted_per_s
