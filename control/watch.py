"""Decide when a stable app needs a new decision: the evidence for a miss, votes, two windows and cool-downs."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, log, sqrt
from statistics import fmean

from compositions.model import Composition
from compositions.wording import figure
from control.assess import Assessment
from control.decisions import Trigger
from control.objectives.objective import Excess, Objective
from control.reading import MOST_TOGETHER, current_rate, items_together
from control.settings import Rhythm
from control.strategies.base import Pace
from profiler.service_time import stage_costs
from profiler.slo import differ
from profiler.snapshot import Snapshot
from profiler.windows import input_rate_change

# Decide if a miss of the objective is more than chance: a sequential test on all output of the active composition.
#
# A window of ten seconds with fifty items gives a 95th percentile to within a third of itself, and two looks at the
# same window are one look. So deliveries are collected batch by batch, and a miss counts when some run of the latest
# batches is off by more standard errors than chance brings (Page, Continuous inspection schemes, 1954; standard errors
# of batch means: Law and Kelton, Simulation Modeling and Analysis, on correlated output). Neighbouring items wait
# together, so a hundred of them carry less information than a hundred independent ones. How much less follows from the
# queue that they wait in (:mod:`control.reading`) or, where that is more, from the scatter of the batches.
#
# A share of late items is compared with the allowed share by the root of the deviance (a likelihood-ratio test of two
# shares): late items come in few bunches, and a normal error would take two of these for a dozen. The threshold grows
# with the number of batches examined, so that ten minutes have about as many false alarms as one (Robbins, Statistical
# methods related to the law of the iterated logarithm, 1970).

CERTAIN = 3.0
"""Standard errors: looked at every second, one false alarm in an hour or more."""
_WAIT_TOGETHER = {False: 2.0, True: 4.0}
"""Items that wait together, at least: of a source that keeps its pace, and of counted arrivals."""
_TELLING = 6
"""Batches from which their scatter says how many wait together."""
_BATCHES = 32


@dataclass(frozen=True, slots=True)
class Asked:
    """The objective, if there is one, and the composition that it is about."""

    objective: Objective | None = None
    active: Composition | None = None


@dataclass(frozen=True, slots=True)
class _Batch:
    items: int
    excess: Excess


class Evidence:
    """The evidence on one composition at a constant rate."""

    def __init__(self) -> None:
        self._of: object = None
        self._batches: deque[_Batch] = deque(maxlen=_BATCHES)
        self._taken_s = -inf
        self._seen = 0
        """Batches since it began."""

    @property
    def certain(self) -> float:
        """Standard errors that are more than chance, after so many batches."""
        return sqrt(CERTAIN**2 + 2 * log(1 + self._seen))

    def errors(self, objective: Objective, snapshot: Snapshot, active: Composition | None = None) -> float | None:
        """By how many standard errors the objective is missed, at the worst; ``None`` when it cannot tell. Called at
        every look. ``active``: the composition that was looked at; None: nothing is known of its queues."""
        of = (snapshot.composition, objective, snapshot.stable_since_s)
        if of != self._of or (snapshot.outlook is not None and snapshot.outlook.moving):
            self._of, self._taken_s = of, snapshot.window_start_s
            self._batches.clear()
            self._seen = 0
        excess = objective.excess(snapshot)
        if excess is None or snapshot.latency is None:
            return None
        window_s = snapshot.now_s - snapshot.window_start_s
        fresh_s = snapshot.now_s - max(self._taken_s, snapshot.window_start_s)
        newest = _Batch(snapshot.latency.samples, excess)
        together = self._together(objective, snapshot, active)
        if window_s > 0 and fresh_s >= window_s:
            self._batches.append(newest)
            self._taken_s, self._seen = snapshot.now_s, self._seen + 1
            return _worst(list(self._batches), together)
        share = fresh_s / window_s if window_s > 0 else 0.0
        return max(
            _worst([newest], together),
            _worst([*self._batches, _Batch(round(share * newest.items), excess)], together),
        )

    def _together(self, objective: Objective, snapshot: Snapshot, active: Composition | None) -> float:
        """Return how many items wait together: by the queues, and by the scatter of batch means against that of
        independent items."""
        assumed = _WAIT_TOGETHER[snapshot.counted]
        if snapshot.counted and active is not None:
            assumed = max(assumed, items_together(snapshot, active, objective.wanted_s))
        if len(self._batches) < _TELLING:
            return assumed
        means = [batch.excess.mean for batch in self._batches]
        alone = fmean(batch.excess.variance / max(1, batch.items) for batch in self._batches)
        scatter = sum((mean - fmean(means)) ** 2 for mean in means) / (len(means) - 1)
        return min(MOST_TOGETHER, max(assumed, scatter / alone)) if alone > 0 else assumed


def _worst(batches: list[_Batch], together: float) -> float:
    """Over all runs of the latest batches."""
    worst, items, off, variance = -inf, 0, 0.0, 0.0
    for batch in reversed(batches):
        items += batch.items
        off += batch.items * batch.excess.mean
        variance += batch.items * batch.excess.variance
        if items:
            worst = max(worst, _errors(Excess(off / items, variance / items, batch.excess.allowed), items / together))
    return worst


def _errors(excess: Excess, items: float) -> float:
    """Of so many independent items."""
    if excess.allowed is not None and excess.mean > 0:
        return sqrt(2 * items * _divergence(min(1.0, excess.allowed + excess.mean), excess.allowed))
    if excess.variance > 0:
        return excess.mean * sqrt(items / excess.variance)
    return inf if excess.mean > 0 else -inf


def _divergence(seen: float, allowed: float) -> float:
    """Of two shares, after Kullback and Leibler."""
    missed = seen * log(seen / allowed)
    return missed if seen >= 1 else missed + (1 - seen) * log((1 - seen) / (1 - allowed))


_REVIEWED_S, _REVIEWED_UNTIL_S = 15.0, 25.0
"""After a rough load began to rest: when enough is known of its rate and its work to say what it needs, and when a
change would no longer be worth the unrest."""
_DRIFTED = 5.0
"""Standard errors by which a service time must have changed: it is looked at over and over, and times that scatter as
much as their mean have tails that make a few hundred of them tell less than that."""
_MINOR_SHARE = 0.1
"""A stage below this share of the total service time changes no composition's worth."""


@dataclass(frozen=True, slots=True)
class Due:
    """A decision is due, and why."""

    trigger: Trigger
    reason: str
    rising: bool = False
    """The input rate rose."""


class Watch:
    """Remembers rate and profile of the last decision and counts votes since."""

    def __init__(self, rhythm: Rhythm, pace: Pace) -> None:
        self._rhythm = rhythm
        self._pace = pace
        self._rate: float | None = None
        self._costs: Mapping[str, float] = {}
        self._hold_until_s = float("-inf")
        self._hold_reason = ""
        self._looked_s = float("-inf")
        self._votes = 0
        self._evidence = Evidence()
        self._changed_since_s: float | None = None
        self._met_since_s: float | None = None
        self._moved_s: float | None = None
        """When the load last moved."""
        self._reviewed = False
        """Since then."""

    def rebase(self, snapshot: Snapshot) -> None:
        """A decision was taken: measure changes from here on."""
        self._rate = current_rate(snapshot)
        self._costs = _service_times(snapshot)
        if self._moved_s is None:
            self._moved_s = snapshot.now_s
        self._looked_s = snapshot.now_s
        self._votes = 0
        self._changed_since_s = None
        self._met_since_s = None

    def hold(self, until_s: float, reason: str) -> None:
        """Judge nothing before ``until_s``."""
        if until_s > self._hold_until_s:
            self._hold_until_s, self._hold_reason = until_s, reason

    def held(self, now_s: float) -> str | None:
        left_s = self._hold_until_s - now_s
        return f"{self._hold_reason}; next evaluation in {left_s:.1f} s" if left_s > 0 else None

    def met(self, now_s: float, assessment: Assessment) -> None:
        """Nobody asks what is due, but time passes in which the SLO is met."""
        self._count_met(now_s, assessment)
        self._moved_s, self._reviewed = now_s, False

    def due(self, snapshot: Snapshot, assessment: Assessment, asked: Asked | None = None) -> Due | str:
        """Return what is due now, or the reason why nothing is."""
        self._count_met(snapshot.now_s, assessment)
        changed = self._rate_changed(snapshot) if snapshot.outlook is None else None  # who looks ahead sees it sooner
        if changed is not None:
            return changed
        if snapshot.now_s - self._looked_s < self._pace.check_interval_s:
            return assessment.reason
        self._looked_s = snapshot.now_s
        violated = self._violated(assessment, self._surely(snapshot, asked or Asked()))
        return violated or self._review(snapshot) or self._slack(snapshot) or assessment.reason

    def changed(self, snapshot: Snapshot) -> str | None:
        """Return how the profile contrasts with the last decision's by more than the threshold; ``None`` when it
        does not."""
        now = _service_times(snapshot)
        total = sum(now.values())
        for name, before in self._costs.items():
            after = now.get(name, before)
            if max(after, before) >= _MINOR_SHARE * total and differ(after, before, self._news(snapshot, name)):
                return f"service time of {name} went from {figure(before * 1e3)} to {figure(after * 1e3)} ms"
        return None

    def _news(self, snapshot: Snapshot, stage: str) -> float:
        """By which ratio its service time must have changed: the threshold, or more where its scatter is as large."""
        profile, ratio = snapshot.stage(stage), self._rhythm.change_ratio
        if profile is None or not self._pace.foresees:
            return ratio
        return max(ratio, _DRIFTED * profile.cv * sqrt(2 / max(1, profile.samples)))

    def _count_met(self, now_s: float, assessment: Assessment) -> None:
        if not assessment.meets:
            self._met_since_s = None
        elif self._met_since_s is None:
            self._met_since_s = now_s

    def _rate_changed(self, snapshot: Snapshot) -> Due | None:
        """Up fast, down slowly: a rise is due when the monitor's two windows show it, a fall when it has lasted."""
        before, now_s = self._rate, snapshot.now_s
        rate = self._new_rate(snapshot)
        if before is None or rate is None:
            self._changed_since_s = None
            self._rate = current_rate(snapshot) if before is None else before
            return None
        if self._changed_since_s is None:
            self._changed_since_s = now_s
        if rate < before and now_s - self._changed_since_s < self._rhythm.down_after_s:
            return None
        self._rate, self._changed_since_s = rate, None
        went = f"input rate went from {figure(before)} to {figure(rate)} items/s"
        return Due(Trigger.INPUT_RATE, went, rising=rate > before)

    def _new_rate(self, snapshot: Snapshot) -> float | None:
        threshold, mean = self._rhythm.change_ratio, snapshot.input_rate_per_s
        if snapshot.input_rate_windows or mean is None or self._rate is None:
            return input_rate_change(self._rate, snapshot.input_rate_windows, threshold=threshold)
        return mean if differ(mean, self._rate, threshold) else None

    def _violated(self, assessment: Assessment, sure: bool) -> Due | None:
        self._votes = self._votes + 1 if assessment.meets is False and sure else 0
        if self._votes < self._pace.votes:
            return None
        self._votes = 0
        return Due(Trigger.VIOLATION, assessment.reason)

    def _surely(self, snapshot: Snapshot, asked: Asked) -> bool:
        """A miss would be more than chance, for strategies that need not wait for a window to be full of it."""
        if not self._pace.foresees or asked.objective is None:
            return True
        errors = self._evidence.errors(asked.objective, snapshot, asked.active)
        return errors is None or errors > self._evidence.certain

    def _slack(self, snapshot: Snapshot) -> Due | None:
        """For strategies that foresee: the SLO has been met for a while, so ask whether less would do. Of a rough load
        this is asked once (``_review``): what a later look would find is chance."""
        met_since_s = self._met_since_s
        if not self._pace.foresees or met_since_s is None or self._changed_since_s is not None:
            return None
        if snapshot.now_s - met_since_s < self._rhythm.down_after_s:
            return None
        self._met_since_s = snapshot.now_s
        changed = self.changed(snapshot)
        if changed is None and self._rough(snapshot):
            return None
        return Due(Trigger.PROFILE, changed or "the SLO is met")

    def _review(self, snapshot: Snapshot) -> Due | None:
        """A rough load has rested for some seconds: is what was chosen at its beginning what it needs?"""
        if not self._pace.foresees or not self._rough(snapshot):
            return None
        if self._moved_s is None:
            self._moved_s = snapshot.now_s
        rested_s = snapshot.now_s - self._moved_s
        if self._reviewed or rested_s < _REVIEWED_S:
            return None
        self._reviewed = True
        if rested_s > _REVIEWED_UNTIL_S:
            return None
        return Due(Trigger.PROFILE, f"the load has rested for {rested_s:.0f} s")

    @staticmethod
    def _rough(snapshot: Snapshot) -> bool:
        return snapshot.counted and snapshot.outlook is not None


def _service_times(snapshot: Snapshot) -> dict[str, float]:
    return {name: cost.service_s for name, cost in stage_costs(snapshot.stages, snapshot.cores).items()}
