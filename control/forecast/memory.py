"""The memory of the strategy ``model``: the errors of its predictions, and what met or missed the SLO."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from math import exp, log, sqrt

from compositions.model import Composition
from control.objectives.objective import Objective
from control.reading import current_rate
from profiler.service_time import stage_costs
from profiler.snapshot import Snapshot

_SIMILAR = 0.97
"""Need within 3 % of what was seen: below the resolution of the measurements."""
_FIRST_MISS_S = 120.0
"""For how long a first miss is believed; each further one counts for twice as long."""
_MOST_DOUBLINGS = 60
"""More than any setting allows: what nothing can satisfy misses thousands of times, which no power can take."""
_SHARED_WEIGHT = 0.5
"""How much of one composition's error is believed of others with the same limit."""


@dataclass(frozen=True, slots=True)
class _Correction:
    log_ratio: float
    at_s: float


class Corrections:
    """Multiplicative errors by key, bounded, halving towards none with time. Keys: (what, shape) or what is shared."""

    def __init__(self, known: Mapping[Hashable, _Correction] | None = None) -> None:
        self._known = dict(known or {})

    def copy(self) -> Corrections:
        return Corrections(self._known)

    def shapes(self) -> frozenset[Hashable]:
        """Shapes of compositions that have corrections of their own."""
        return frozenset(key[1] for key in self._known if isinstance(key, tuple))

    def factor(self, key: Hashable, now_s: float, half_life_s: float) -> float | None:
        """Return measured / predicted for ``key``, faded; ``None`` when nothing was learned of it."""
        known = self._known.get(key)
        if known is None:
            return None
        return exp(known.log_ratio * 0.5 ** ((now_s - known.at_s) / half_life_s))

    def learn(self, own: Hashable, shared: Hashable | None, ratio: float, now_s: float, limit: float) -> None:
        """Take ``ratio`` = measured / predicted (uncorrected), kept within ``1/limit … limit``; by half for others."""
        bounded = log(min(limit, max(1 / limit, ratio)))
        self._known[own] = _Correction(bounded, now_s)
        if shared is None:
            return
        before = self._known[shared].log_ratio if shared in self._known else 0.0
        self._known[shared] = _Correction(before + _SHARED_WEIGHT * (bounded - before), now_s)


@dataclass(frozen=True, slots=True)
class _Verdict:
    meets: bool
    objective: Objective
    rate_per_s: float | None
    work_s: float
    cores: float
    at_s: float
    misses: int
    """How often it missed so far; each makes it less welcome to release workers to, and for longer."""

    def lasts_s(self, most_s: float) -> float:
        """Return how long it is believed: one miss may have been a run of slow items."""
        doublings = min(self.misses - 1, _MOST_DOUBLINGS)
        return most_s if self.meets else min(most_s, _FIRST_MISS_S * 2.0**doublings)


class Verdicts:
    """Measured answers by shape of composition; they hold for the same need, and for an easier or harder one."""

    def __init__(self, known: Mapping[Hashable, _Verdict] | None = None) -> None:
        self._known = dict(known or {})

    def copy(self) -> Verdicts:
        return Verdicts(self._known)

    def shapes(self) -> frozenset[Hashable]:
        return frozenset(self._known)

    def record(self, composition: Composition, meets: bool, objective: Objective, snapshot: Snapshot) -> None:
        before = self._known.get(composition.shape)
        misses = (before.misses if before is not None and before.objective == objective else 0) + (not meets)
        self._known[composition.shape] = _Verdict(
            meets, objective, _rate(snapshot), _work_s(snapshot), snapshot.cores, snapshot.now_s, misses
        )

    def missed_lately(
        self, objective: Objective, snapshot: Snapshot, fades_s: float, change_ratio: float
    ) -> frozenset[Hashable]:
        """Shapes that missed ``objective`` at a need not significantly above the present one: releasing workers to one
        of these would only lead back."""
        return frozenset(
            shape
            for shape, known in self._known.items()
            if not known.meets
            and known.objective == objective
            and snapshot.now_s - known.at_s <= known.lasts_s(fades_s)
            and _need(snapshot, known) > _certainly_less(snapshot, change_ratio) ** known.misses
        )

    def recall(self, shape: Hashable, objective: Objective, snapshot: Snapshot, fades_s: float) -> bool | None:
        """Return whether it meets ``objective`` at the present need, by what was measured; ``None`` when that says
        nothing."""
        known = self._known.get(shape)
        if (
            known is None
            or known.objective != objective
            or known.cores != snapshot.cores
            or snapshot.now_s - known.at_s > known.lasts_s(fades_s)
        ):
            return None
        need = _need(snapshot, known)
        if known.meets:
            return True if need <= 1 / _SIMILAR else None
        return False if need >= _SIMILAR else None


def _certainly_less(snapshot: Snapshot, change_ratio: float) -> float:
    """A need that contrasts with 1 by more than the threshold, and by more than the scatter of counted arrivals."""
    scatter = 3 / sqrt(max(9, snapshot.delivered)) if snapshot.counted else 0.0
    return (1 - min(0.5, scatter)) / (1 + change_ratio)


def _need(snapshot: Snapshot, known: _Verdict) -> float:
    """Rate times work of an item, relative to that of the verdict."""
    return _relative(_asked(snapshot), known.rate_per_s) * _relative(_work_s(snapshot), known.work_s)


def _rate(snapshot: Snapshot) -> float | None:
    return current_rate(snapshot) if snapshot.outlook is None else snapshot.outlook.present_per_s


def _asked(snapshot: Snapshot) -> float | None:
    """Return what a verdict is wanted for."""
    return current_rate(snapshot) if snapshot.outlook is None else snapshot.outlook.upper_per_s


def _work_s(snapshot: Snapshot) -> float:
    """Service time of one item on free cores: what makes the need at a given rate."""
    return sum(cost.service_s for cost in stage_costs(snapshot.stages, snapshot.cores).values())


def _relative(now: float | None, before: float | None) -> float:
    return 1.0 if not now or not before else now / before
