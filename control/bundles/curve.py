"""Measure what an item takes in bundles of each size, where a call of a stage has a price of its own.

One call of a batch stage may cost the same for one item and for a hundred: the launch of a kernel, a copy to a device,
a query. No formula is assumed. Sizes are powers of two, and twice the present one is tried until it gains nothing.
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
"""Number of calls of a size whose median counts; the first ones compile, or fill a cache."""
_KNOWN_FROM = 8
_BELIEVED_S = 60.0
"""Age from which on a measured size is tried again."""
_AS_GOOD = 1.01
"""Sizes that take less than 1 % longer per item than the best are as good, and the smallest of them is taken."""
_IN_VAIN, _TRIAL_S = 64, 10.0
"""Calls of batch stages with smaller bundles than the size that is tried, and the time of the trial, after which it is
left for a minute: items do not come fast enough, and a device whose bundles are of another size at each call is slower
than with a smaller, constant one. The time lets those pass that were on their way before."""
_WEIGHT = 8
"""Multiple of the usual weight of a bundle that a device gets: 32 MiB of images instead of 4."""
_LONGEST_S = 0.25
"""Longest work of a group on one bundle: no item waits for it, but a switch and a stop do."""


class Curve:
    """Time an item by the power of two that the size of its bundle reaches, for each batch stage. Pure."""

    def __init__(self, stages: Collection[str]) -> None:
        """``stages``: names of the batch stages."""
        self._stages = frozenset(stages)
        self._times: dict[tuple[str, int], deque[float]] = defaultdict(lambda: deque(maxlen=_KEPT))
        self._seen_s: dict[tuple[str, int], float] = {}
        self._tried_s: dict[int, float] = {}
        """Time since when each size is tried, by its power of two."""
        self._short: Counter[int] = Counter()
        """Number of calls since then with smaller bundles, by the same power."""

    def timed(self, at_s: float, timings: Sequence[StageTiming], items: int) -> None:
        """Take the times of a task of so many ``items``."""
        for timing in timings:
            if timing.stage in self._stages:
                self._short.update(power for power in self._tried_s if items < 2**power)
                key = timing.stage, items.bit_length() - 1
                if at_s - self._seen_s.get(key, at_s) > _BELIEVED_S:
                    self._times[key].clear()
                self._times[key].append(timing.wall_s / items)
                self._seen_s[key] = at_s

    def forget(self) -> None:
        """Forget everything: others run the stages now, or as many as before share a device in another way."""
        self._times.clear()
        self._seen_s.clear()
        self._tried_s.clear()

    def size(self, now_s: float, composition: Composition, profiles: Sequence[StageProfile], hop_s: float) -> Grain:
        """Return the size for ``composition``: the largest that one of its groups with a batch stage is best with."""
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
        told = f"{figure(known[best] * 1e3, 2)} ms an item in bundles of {2**best}"
        if best == max(known) and 2 ** (best + 1) * known[best] <= _LONGEST_S and 2**best < MOST_ITEMS:
            if self._is_reached(now_s, best + 1):
                return Grain(2 ** (best + 1), f"trying twice the size: {told}", pays=True, weight=_WEIGHT)
            return Grain(2**best, f"{told}; bundles of twice the size do not fill", pays=True, weight=_WEIGHT)
        if best == min(known) and best:
            return Grain(2 ** (best - 1), f"trying half the size: {told}", pays=True, weight=_WEIGHT)
        return Grain(2**best, f"{told}; larger ones gain nothing", pays=True, weight=_WEIGHT)

    def _is_reached(self, now_s: float, power: int) -> bool:
        """Return whether bundles may reach this size, as far as is seen since it was tried first."""
        if now_s - self._tried_s.get(power, -math.inf) > _BELIEVED_S:
            self._tried_s[power], self._short[power] = now_s, 0
        return self._short[power] < _IN_VAIN or now_s - self._tried_s[power] < _TRIAL_S

    def _is_known(self, now_s: float, stage: str, power: int) -> bool:
        key = stage, power
        return len(self._times.get(key, ())) >= _KNOWN_FROM and now_s - self._seen_s[key] <= _BELIEVED_S


_NONE = Grain(1, "no batch stage is measured")
