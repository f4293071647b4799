"""What a trial of the strategy ``model`` shows, and when it is clear."""

from __future__ import annotations

from math import exp, log, sqrt

from control.assess import Assessment
from control.decisions import Trigger
from control.reading import current_rate
from control.situation import Situation
from control.waiting_together import items_together

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
    """How much of ``ratio`` = measured / predicted to believe: what exceeds chance (James and Stein, Estimation with
    quadratic loss, 1961, positive part). ``utilization``: of the fullest group, where ``ratio`` is of a latency."""
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
