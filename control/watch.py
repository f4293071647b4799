"""When a stable app deserves a decision: votes, two windows and cool-downs, each a small rule of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt

from compositions.wording import figure
from control.assess import Assessment
from control.decisions import Trigger
from control.evidence import Asked, Evidence
from control.reading import current_rate
from control.settings import Rhythm
from control.strategies.base import Pace
from profiler.service_time import stage_costs
from profiler.slo import differ
from profiler.snapshot import Snapshot
from profiler.windows import input_rate_change

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
        return f"{self._hold_reason}; judged again in {left_s:.1f} s" if left_s > 0 else None

    def met(self, now_s: float, assessment: Assessment) -> None:
        """Nobody asks what is due, but time passes in which the SLO is met."""
        self._count_met(now_s, assessment)
        self._moved_s, self._reviewed = now_s, False

    def due(self, snapshot: Snapshot, assessment: Assessment, asked: Asked | None = None) -> Due | str:
        """What is due now, or the reason why nothing is."""
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
        """How the profile contrasts with the last decision's by more than the threshold; ``None`` when it does not."""
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
