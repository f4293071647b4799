"""Whether a miss that is seen is more than chance: a sequential test on all that the active composition has delivered.

A window of ten seconds with fifty items tells a 95th percentile to a third of itself, and two looks at the same window
are one look. So what was delivered is collected batch by batch, and a miss counts when some run of the latest batches
is off by more standard errors than chance brings (Page, Continuous inspection schemes, 1954; standard errors of batch
means: Law and Kelton, Simulation Modeling and Analysis, on correlated output). Neighbouring items wait together,
which is why a hundred of them tell less than a hundred independent ones would: how many do is told by the queue that
they wait in (:mod:`control.waiting_together`) or, where that is more, by how the batches scatter.

A share of late items is compared with the one that may be late by the root of the deviance (a likelihood-ratio test of
two shares): late items come in few bunches, and a normal error would take two of these for a dozen. What counts as more
than chance grows with the number of batches that were looked at, so that ten minutes have about as many false alarms as
one (Robbins, Statistical methods related to the law of the iterated logarithm, 1970).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import inf, log, sqrt
from statistics import fmean

from compositions.model import Composition
from control.objectives.objective import Excess, Objective
from control.waiting_together import MOST_TOGETHER, items_together
from profiler.snapshot import Snapshot

CERTAIN = 3.0
"""Standard errors: looked at every second, one false alarm in an hour or more."""
_WAIT_TOGETHER = {False: 2.0, True: 4.0}
"""Items that wait together, at least: of a source that keeps its pace, and of counted arrivals."""
_TELLING = 6
"""Batches from which their scatter says how many wait together."""
_BATCHES = 32


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked for, if anything, and of which composition."""

    objective: Objective | None = None
    active: Composition | None = None


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
        """How many items wait together: by the queues, and by the scatter of batch means against that of independent
        items."""
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
