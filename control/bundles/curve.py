"""Measure the time per item for each bundle size, for batch stages, whose calls have a cost of their own.

One call of a batch stage may cost the same for one item and for a hundred: the launch of a kernel, a copy to a device,
a query. No formula is assumed. Sizes are powers of two, and the size is doubled until that gains nothing.
"""

import math
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Sequence
from statistics import median

from compositions.model import Composition
from compositions.wording import figure
from control.bundles.bundle_size import MOST_ITEMS, Grain
from profiler.snapshot import StageProfile, StageTiming

_KEPT = 16
"""Number of latest calls of a size whose median counts: the first calls may compile or fill a cache."""
_KNOWN_FROM = 8
_BELIEVED_S = 60.0
"""Age beyond which a measured size is tried again."""
_AS_GOOD = 1.01
"""A size that takes at most 1 % longer per item than the best is as good; the smallest of these is taken."""
_IN_VAIN, _TRIAL_S = 64, 10.0
"""Number of calls with bundles smaller than the tried size, and duration of the trial, after which the trial ends for
a minute: items do not come fast enough to fill such bundles, and a device is slower with bundles of varying sizes than
with smaller ones of a constant size. The duration lets bundles pass that were in flight when the trial began."""
_WEIGHT = 8
"""Multiple of the usual maximum bytes per bundle that a device gets: 32 MiB of images instead of 4."""
_LONGEST_S = 0.25
"""Maximum time of a group's work on one bundle, in seconds; a switch or a stop waits for it."""


class Curve:
    """Times per item of each batch stage, by the largest power of two that its bundle's size reaches. Pure."""

    def __init__(self, stages: Collection[str]) -> None:
        """``stages``: names of the batch stages."""
        self._stages = frozenset(stages)
        self._times: dict[tuple[str, int], deque[float]] = defaultdict(lambda: deque(maxlen=_KEPT))
        self._seen_s: dict[tuple[str, int], float] = {}
        self._tried_s: dict[int, float] = {}
        """Time at which the trial of a size began, by its power of two."""
        self._short: Counter[int] = Counter()
        """Number of calls with smaller bundles since that time, by the same power."""

    def timed(self, at_s: float, timings: Sequence[StageTiming], items: int) -> None:
        """Store the stage times of a task of this many ``items``."""
        for timing in timings:
            if timing.stage in self._stages:
                self._short.update(power for power in self._tried_s if items < 2**power)
                key = timing.stage, items.bit_length() - 1
                if at_s - self._seen_s.get(key, at_s) > _BELIEVED_S:
                    self._times[key].clear()
                self._times[key].append(timing.wall_s / items)
                self._seen_s[key] = at_s

    def forget(self) -> None:
        """Forget all times, after the workers of the stages or their share of a device changed."""
        self._times.clear()
        self._seen_s.clear()
        self._tried_s.clear()

    def size(self, now_s: float, composition: Composition, profiles: Sequence[StageProfile], hop_s: float) -> Grain:
        """Return the size for ``composition``: the largest of the best sizes of its groups with a batch stage."""
        others_s = {profile.name: profile.service_time_s for profile in profiles}
        grains = [self._of_group(now_s, group.stages, others_s, hop_s) for group in composition.groups]
        return max(grains, key=lambda grain: grain.items, default=_NONE)

    def _of_group(self, now_s: float, stages: Sequence[str], others_s: dict[str, float], hop_s: float) -> Grain:
        batch = [stage for stage in stages if stage in self._stages]
        if not batch or any(stage not in others_s for stage in stages):
            return _NONE
        rest_s = sum(others_s[stage] for stage in stages if stage not in self._stages)
        known = {
            power: rest_s + hop_s / 2**power + sum(median(self._times[stage, power]) for stage in batch)
            for power in range(MOST_ITEMS.bit_length())
            if all(self._is_known(now_s, stage, power) for stage in batch)
        }
        if not known:
            return _NONE
        least_s = min(known.values())
        best = min(power for power, each_s in known.items() if each_s <= _AS_GOOD * least_s)
        told = f"{figure(known[best] * 1e3, 2)} ms per item in bundles of {2**best}"
        if best == max(known) and 2 ** (best + 1) * known[best] <= _LONGEST_S and 2**best < MOST_ITEMS:
            if self._is_reached(now_s, best + 1):
                return Grain(2 ** (best + 1), f"trying twice the size: {told}", pays=True, weight=_WEIGHT)
            return Grain(2**best, f"{told}; bundles of twice the size do not fill", pays=True, weight=_WEIGHT)
        if best == min(known) and best:
            return Grain(2 ** (best - 1), f"trying half the size: {told}", pays=True, weight=_WEIGHT)
        return Grain(2**best, f"{told}; larger bundles gain nothing", pays=True, weight=_WEIGHT)

    def _is_reached(self, now_s: float, power: int) -> bool:
        """Return True unless the trial of this size has shown that bundles do not fill to it."""
        if now_s - self._tried_s.get(power, -math.inf) > _BELIEVED_S:
            self._tried_s[power], self._short[power] = now_s, 0
        return self._short[power] < _IN_VAIN or now_s - self._tried_s[power] < _TRIAL_S

    def _is_known(self, now_s: float, stage: str, power: int) -> bool:
        key = stage, power
        return len(self._times.get(key, ())) >= _KNOWN_FROM and now_s - self._seen_s[key] <= _BELIEVED_S


_NONE = Grain(1, "no batch stage was measured yet")
