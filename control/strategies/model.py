"""Strategy ``model``: ours, the default. Predicts every composition from the profile, acts on what is certain, tries
only what is in doubt, and remembers where it was wrong."""

from __future__ import annotations

from collections.abc import Hashable

from compositions.model import Composition
from control.arbitration.bid import Reach
from control.forecast.catalogue import Catalogue
from control.forecast.expect import Unmeasured
from control.forecast.forecaster import Forecaster, is_expected
from control.forecast.memory import Corrections, Verdicts
from control.settings import Settings
from control.situation import Situation
from control.strategies.base import Limits, Pace, Proposal, Stay, Strategy, Trial
from control.strategies.choosing import next_step
from control.strategies.providing import provide, provides
from control.strategies.trials import clear, credible, shows_capacity, surely_missed

_NEAR_FULL = 0.8
"""Utilization above which a latency says more about a few percent of capacity than about other compositions."""


class Model(Strategy):
    """Fewest workers first: what surely fails is rejected, what surely does is chosen, what lies between is tried."""

    name = "model"
    several = True

    def __init__(self) -> None:
        self._corrections = Corrections()
        self._verdicts = Verdicts()
        self._catalogue = self._alone = Catalogue(())

    def pace(self, settings: Settings) -> Pace:
        return Pace(settings.rhythm.vote_interval_s, settings.rhythm.votes, foresees=True)

    def prepare(self, compositions: tuple[Composition, ...]) -> None:
        self._catalogue = Catalogue(compositions)

    def propose(self, situation: Situation, trials: tuple[Trial, ...]) -> Proposal:
        at_once, catalogue = provides(situation, trials), self._catalogue.including(situation.active)
        forecasts = self._forecaster(situation).all(catalogue, doubt=not at_once)
        if isinstance(forecasts, Unmeasured):
            return Stay(f"too few samples: nothing is known of {forecasts.stage}")
        return provide(situation, forecasts) if at_once else next_step(situation, forecasts, trials)

    def suffices(self, situation: Situation) -> bool | None:
        if situation.active not in self._alone.table.compositions:
            self._alone = Catalogue((situation.active,))
        likely = self._forecaster(situation).likely(self._alone)
        return None if isinstance(likely, Unmeasured) else bool(likely[0] >= 1)

    def reaches(self, situation: Situation, limits: Limits) -> tuple[Reach, ...] | None:
        return self._forecaster(situation).reaches(self._catalogue.including(situation.active), limits)

    def clear(self, situation: Situation, elapsed_s: float) -> str | None:
        return clear(situation, elapsed_s)

    def learn(self, situation: Situation) -> None:
        """Corrects capacity and latency of the active composition, and (by half) of those with the same limit; what
        is measured while others take the cores is not its doing."""
        if situation.moving or situation.snapshot.cores_left is not None:
            return
        raw = self._forecaster(situation).raw(situation.active)
        if isinstance(raw, Unmeasured):
            return
        seen, shape = situation.assessment, situation.active.shape
        if seen.meets is not None and (not situation.rough or surely_missed(situation)):
            self._verdicts.record(situation.active, seen.meets, situation.objective, situation.snapshot)
        if seen.throughput_per_s and shows_capacity(seen, raw.throughput_per_s):
            ratio = seen.throughput_per_s / raw.throughput_per_s
            believed = credible(ratio, situation)
            self._correct(situation, ("capacity", shape), ("capacity", raw.limited_by), believed)
        expected_s = raw.at(situation.objective.quantile)
        clean = seen.meets is not None and not seen.saturated
        if expected_s and seen.latency_s and clean and is_expected(expected_s):
            full = raw.utilization or 0.0
            ratio = credible(seen.latency_s / expected_s, situation, full)
            self._correct(situation, ("latency", shape), None if full > _NEAR_FULL else "latency", ratio)

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
