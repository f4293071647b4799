"""Decide when to ask a strategy that does not model the stream itself: rate changes, violations and cool-downs."""

from dataclasses import dataclass

from compositions.wording import figure
from control.assess import Assessment
from control.decisions import Trigger
from control.reading import current_rate
from control.settings import Rhythm
from control.strategies.base import Pace
from profiler.slo import differ
from profiler.snapshot import Snapshot
from profiler.windows import input_rate_change


@dataclass(frozen=True, slots=True)
class Due:
    """A decision that is due, with its trigger and reason."""

    trigger: Trigger
    reason: str


class Watch:
    """Compares the input rate with that of the last decision, and says when the next decision is due."""

    def __init__(self, rhythm: Rhythm, pace: Pace) -> None:
        self._rhythm = rhythm
        self._pace = pace
        self._rate: float | None = None
        self._hold_until_s = float("-inf")
        self._hold_reason = ""
        self._looked_s = float("-inf")
        self._changed_since_s: float | None = None

    def rebase(self, snapshot: Snapshot) -> None:
        """Measure changes of the rate from now on, because a decision was taken."""
        self._rate = current_rate(snapshot)
        self._looked_s = snapshot.now_s
        self._changed_since_s = None

    def hold(self, until_s: float, reason: str) -> None:
        """Take no decision before ``until_s``."""
        if until_s > self._hold_until_s:
            self._hold_until_s, self._hold_reason = until_s, reason

    def held(self, now_s: float) -> str | None:
        left_s = self._hold_until_s - now_s
        return f"{self._hold_reason}; next evaluation in {left_s:.1f} s" if left_s > 0 else None

    def due(self, snapshot: Snapshot, assessment: Assessment) -> Due | str:
        """Return the decision that is due now, or the reason why none is."""
        changed = self._rate_changed(snapshot)
        if changed is not None:
            return changed
        if snapshot.now_s - self._looked_s < self._pace.check_interval_s:
            return assessment.reason
        self._looked_s = snapshot.now_s
        return Due(Trigger.VIOLATION, assessment.reason) if assessment.meets is False else assessment.reason

    def _rate_changed(self, snapshot: Snapshot) -> Due | None:
        """Return the decision for a changed rate: for a rise once both windows show it, for a fall if it lasts."""
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
        return Due(Trigger.INPUT_RATE, went)

    def _new_rate(self, snapshot: Snapshot) -> float | None:
        threshold, mean = self._rhythm.change_ratio, snapshot.input_rate_per_s
        if snapshot.input_rate_windows or mean is None or self._rate is None:
            return input_rate_change(self._rate, snapshot.input_rate_windows, threshold=threshold)
        return mean if differ(mean, self._rate, threshold) else None
