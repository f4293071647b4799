"""Strategy ``model``: ours, the default. Predicts every composition from the profile, acts on what is certain, tries
only what is in doubt, and remembers where it was wrong."""

from __future__ import annotations

from collections.abc import Hashable
from math import exp, log, sqrt

from compositions.model import Composition
from control.arbitration.arbiter import Reach
from control.assess import Assessment
from control.decisions import Trigger
from control.forecast.expect import Catalogue, Unmeasured
from control.forecast.forecaster import Forecaster, is_expected
from control.forecast.memory import Corrections, Verdicts
from control.reading import current_rate, items_together
from control.settings import Settings
from control.situation import Situation
from control.strategies.base import Limits, Pace, Proposal, Stay, Strategy, Trial
from control.strategies.choosing import next_step
from control.strategies.providing import provide, provides

_CLEAR_SIGMAS = 3.0
"""A trial is looked at several times a second: at three standard errors one in a hundred ends early by chance."""
_WAIT_TOGETHER = 4.0
"""Items of a rough load that wait together, so that they tell as much as one."""
_LONGEST_RUN = 50.0
"""Items of any load that are taken to wait together, however full a group is."""
_SETTLING_S = 2.0
"""A miss is not clear before: the first results of a composition fill its groups."""


def clear(situation: Situation, elapsed_s: float) -> str | None:
    """Ends a trial when the measured rate or latency is clear of the bound by three standard errors."""
    seen = situation.assessment
    if seen.meets is None or situation.snapshot.delivered < situation.settings.measuring.min_samples:
        return None
    room, margin = _room(situation, seen), _CLEAR_SIGMAS * _standard_error(situation)
    surely = room > margin if seen.meets else room < -margin and elapsed_s >= _SETTLING_S
    return f"clear after {elapsed_s:.1f} s: {seen.reason}" if surely else None


def _room(situation: Situation, seen: Assessment) -> float:
    """Distance of the measured value from the bound, relative to the bound; positive when it meets the SLO."""
    rate = current_rate(situation.snapshot)
    return situation.objective.room(seen.throughput_per_s, seen.latency_at, rate) or 0.0


def _standard_error(situation: Situation) -> float:
    """Of a mean over the window's deliveries, relative: the scatter of service times, at least 0.2, over √n."""
    scatter = max([0.2, *(stage.cv for stage in situation.snapshot.stages)])
    return scatter / sqrt(max(1, situation.snapshot.delivered))


def shows_capacity(seen: Assessment, predicted_per_s: float) -> bool:
    """Saturated, and behind or catching up: all it can do. Else a lower bound: news only above the prediction."""
    throughput = seen.throughput_per_s or 0.0
    return (seen.saturated and (seen.meets is False or seen.draining)) or throughput > predicted_per_s


def surely_missed(situation: Situation) -> bool:
    """A miss that was found to be more than chance; that a rough load is met for some seconds tells nothing."""
    return situation.trigger is Trigger.VIOLATION and situation.assessment.meets is False


def credible(ratio: float, situation: Situation, utilization: float | None = None) -> float:
    """Return how much of ``ratio`` = measured / predicted to believe: what exceeds chance (James and Stein,
    Estimation with quadratic loss, 1961, positive part). ``utilization``: of the fullest group, where ``ratio`` is
    of a latency."""
    if utilization is None and not situation.rough:
        return ratio
    together = _run(situation, utilization or 0.0)
    if situation.rough:
        wanted_s = situation.objective.wanted_s
        together = max(_WAIT_TOGETHER, items_together(situation.snapshot, situation.active, wanted_s))
    off, error = log(ratio), sqrt(together) * _standard_error(situation)
    return exp(off * max(0.0, 1 - (error / off) ** 2)) if off else 1.0


def _run(situation: Situation, utilization: float) -> float:
    """Items that wait together in a queue: the sum of the correlations of their waits, as in heavy traffic (Whitt,
    Planning queueing simulations, Management Science 1989)."""
    scv = max((stage.cv for stage in situation.snapshot.stages), default=0.0) ** 2
    return min(_LONGEST_RUN, 1 + 2 * scv / max(1e-3, 1 - utilization) ** 2)


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
