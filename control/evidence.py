"""Whether a miss that is seen is more than chance: a sequential test on all that the active composition has delivered.

A window of ten seconds with fifty items tells a 95th percentile to a third of itself, and two looks at the same window
are one look. So what was delivered is collected batch by batch, and a miss counts when some run of the latest batches
is off by more standard errors than chance brings (Page, Continuous inspection schemes, 1954; standard errors of batch
means: Law and Kelton, Simulation Modeling and Analysis, on correlated output). Neighbouring items wait together,
which is why a hundred of them tell less than a hundred independent ones would.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import inf, sqrt
from statistics import fmean

from control.objectives.objective import Excess, Objective
from profiler.snapshot import Snapshot

CERTAIN = 3.0
"""Standard errors: looked at every second, one false alarm in an hour or more."""
_WAIT_TOGETHER = {False: 2.0, True: 4.0}
"""Items that wait together, until batches tell: of a source that keeps its pace, and of counted arrivals."""
_MOST_TOGETHER = 50.0
_TELLING = 6
"""Batches from which their scatter says how many wait together."""
_BATCHES = 32


@dataclass(frozen=True, slots=True)
class _Batch:
    items: int
    excess: Excess


class Evidence:
    """Of one composition at a rate that rests."""

    def __init__(self) -> None:
        self._of: object = None
        self._batches: deque[_Batch] = deque(maxlen=_BATCHES)
        self._taken_s = -inf

    def errors(self, objective: Objective, snapshot: Snapshot) -> float | None:
        """By how many standard errors the objective is missed, at the worst; ``None`` when it cannot tell. Called at
        every look."""
        of = (snapshot.composition, objective, snapshot.stable_since_s)
        if of != self._of or (snapshot.outlook is not None and snapshot.outlook.moving):
            self._of, self._taken_s = of, snapshot.window_start_s
            self._batches.clear()
        excess = objective.excess(snapshot)
        if excess is None or snapshot.latency is None:
            return None
        window_s = snapshot.now_s - snapshot.window_start_s
        fresh_s = snapshot.now_s - max(self._taken_s, snapshot.window_start_s)
        newest = _Batch(snapshot.latency.samples, excess)
        if window_s > 0 and fresh_s >= window_s:
            self._batches.append(newest)
            self._taken_s = snapshot.now_s
            return self._worst(list(self._batches), snapshot)
        share = fresh_s / window_s if window_s > 0 else 0.0
        return max(
            self._worst([newest], snapshot),
            self._worst([*self._batches, _Batch(round(share * newest.items), excess)], snapshot),
        )

    def _worst(self, batches: list[_Batch], snapshot: Snapshot) -> float:
        """Over all runs of the latest batches."""
        together = self._together(snapshot)
        worst, items, off, variance = -inf, 0, 0.0, 0.0
        for batch in reversed(batches):
            items += batch.items
            off += batch.items * batch.excess.mean
            variance += batch.items * batch.excess.variance * together
            if items:
                error = sqrt(variance)
                worst = max(worst, off / error if error > 0 else inf if off > 0 else -inf)
        return worst

    def _together(self, snapshot: Snapshot) -> float:
        """How many items wait together: the scatter of batch means against that of independent items."""
        windows = snapshot.input_rate_windows
        assumed = _WAIT_TOGETHER[bool(windows) and windows[-1].counted]
        if len(self._batches) < _TELLING:
            return assumed
        means = [batch.excess.mean for batch in self._batches]
        alone = fmean(batch.excess.variance / max(1, batch.items) for batch in self._batches)
        scatter = sum((mean - fmean(means)) ** 2 for mean in means) / (len(means) - 1)
        return min(_MOST_TOGETHER, max(assumed, scatter / alone)) if alone > 0 else assumed
