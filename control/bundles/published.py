"""Batch controllers as published, and the baseline ``fixed``: a rule maps a latency to a change of the size.

FAF, PBAF, PBAF-WT and MBAF are Stein et al.'s (2021), PMBAF Leonarczyk's; as printed in Leonarczyk 2024, section 4.1.1,
algorithms 4.1 to 4.5. Positive is growth; 0 leaves the size as it is. PID is algorithm 4.6.
"""

from abc import abstractmethod
from collections import deque
from collections.abc import Callable
from math import inf

from compositions.batch_settings import BatchSettings
from compositions.wording import figure
from control.bundles.port import BatchController, BundleOpening, Choice, DeliveredBundle


class Sampled(BatchController):
    """Decides on the mean of the newest ``sample`` latencies once that many are new, and then forgets them (section
    4.1: "only executed once we have received a number x"; forgetting is inferred).

    The size is rounded down to a whole number (inferred from table 5.4: with steps of 1, PBAF and PBAF-WT then stop
    growing at 0.4 of the target, whatever the threshold, and PMBAF at 0.7. So the thesis's "slow convergence" stays
    below the target and has the smallest SD distance; with a fractional size it would have the largest).
    """

    def __init__(self, settings: BatchSettings) -> None:
        self._sizes = settings.sizes
        self._new: deque[float] = deque(maxlen=settings.steps.sample)
        self._size = settings.sizes.first
        self._choice = Choice(settings.sizes.first, "first: nothing was measured yet")

    def delivered(self, bundle: DeliveredBundle) -> None:
        self._new.append(bundle.latency_s)

    def next(self, opening: BundleOpening) -> Choice:
        if len(self._new) == self._new.maxlen:
            latency_s = sum(self._new) / len(self._new)
            self._new.clear()
            before, self._size = self._size, int(self._sizes.held(self.decide(latency_s, self._size)))
            if self._size != before:
                told = f"{self.name}: latency {figure(latency_s * 1e3)} ms, size {before} → {self._size}"
                self._choice = Choice(self._size, told)
        return self._choice

    @abstractmethod
    def decide(self, latency_s: float, size: float) -> float:
        """Return the next size before it is clipped to the bounds; it may be infinite."""


FULL_STEP_FROM = 0.6
"""MaxGrowBoundary: excess over the target, as a share of it, from which PBAF takes the full step (algorithm 4.2)."""
NEAR_BELOW, NEAR_ABOVE = 0.3, 0.8
"""Distances below and above the target, as shares of it, within which PMBAF acts as PBAF (algorithm 4.5)."""

Rule = Callable[[float, float, float], float]
"""Maps latency and target in seconds, and the threshold, to a change of the size in steps."""


def _banded(above: Callable[[float], float], below: Callable[[float], float]) -> Rule:
    """Return a rule that is 0 within the band; outside it, ``above`` or ``below`` is called with latency / target."""

    def rule(latency_s: float, target_s: float, threshold: float) -> float:
        if latency_s > target_s * (1 + threshold):
            return -above(latency_s / target_s)
        if latency_s < target_s * (1 - threshold):
            return below(latency_s / target_s)
        return 0.0

    return rule


def _one(ratio: float) -> float:
    return 1.0


def _percentage_above(ratio: float) -> float:
    return min((ratio - 1) / FULL_STEP_FROM, 1.0)


def _percentage_below(ratio: float) -> float:
    """Return 0.4 of the step right below the target, and the full step below 0.4 of the target, as printed."""
    return min((1 - FULL_STEP_FROM) / ratio, 1.0) if ratio > 0 else 1.0


def _multiplier_above(ratio: float) -> float:
    return ratio


def _multiplier_below(ratio: float) -> float:
    """Return (2T − lat)/T: at most twice the step."""
    return 2 - ratio


def _unbounded_below(ratio: float) -> float:
    """Return T/lat, the factor of MBAF within PMBAF (section 4.1.2, in words)."""
    return 1 / ratio if ratio > 0 else inf


faf = _banded(_one, _one)
"""Fixed adaptation factor: a step up below the band, a step down above it (algorithm 4.1)."""
pbaf = _banded(_percentage_above, _percentage_below)
"""Percentage-based adaptation factor: parts of the step near the band (algorithm 4.2)."""
mbaf = _banded(_multiplier_above, _multiplier_below)
"""Multiplier-based adaptation factor: multiples of the step far from the band (algorithm 4.4)."""
_mbaf_unbounded = _banded(_multiplier_above, _unbounded_below)


def pbaf_wt(latency_s: float, target_s: float, threshold: float) -> float:
    """Return PBAF's change without a threshold: the band has no width (algorithm 4.3)."""
    return pbaf(latency_s, target_s, 0.0)


def pmbaf(latency_s: float, target_s: float, threshold: float) -> float:
    """Return PBAF's change near the target, and that of MBAF without its bound elsewhere (algorithm 4.5)."""
    near = target_s * (1 - NEAR_BELOW) <= latency_s <= target_s * (1 + NEAR_ABOVE)
    return (pbaf if near else _mbaf_unbounded)(latency_s, target_s, threshold)


class Stepping(Sampled):
    """Changes the size by the step times the result of its rule."""

    def __init__(self, name: str, rule: Rule, settings: BatchSettings) -> None:
        super().__init__(settings)
        self.name = name
        self._rule, self._step = rule, settings.steps.step
        self._target_s, self._threshold = settings.aim.target_s, settings.aim.threshold

    def decide(self, latency_s: float, size: float) -> float:
        return size + self._step * self._rule(latency_s, self._target_s, self._threshold)


class Fixed(BatchController):
    """Never changes the size, and ignores measurements."""

    name = "fixed"

    def __init__(self, settings: BatchSettings) -> None:
        self._choice = Choice(settings.sizes.first, f"fixed at {settings.sizes.first}")

    def delivered(self, bundle: DeliveredBundle) -> None:
        return

    def next(self, opening: BundleOpening) -> Choice:
        return self._choice


# Leonarczyk 2024, algorithm 4.6: proportional, integral and derivative of the relative error.


class Pid(Sampled):
    """Computes the size itself, not a change of it.

    The time between decisions counts as 1 (inferred: with seconds the gains of table 5.5 could not give the plotted
    terms). An output below 1 resets the integral to 0, as in algorithm 4.6; the text says "to the minimum batch size".

    **Erratum.** The last line of algorithm 4.6 returns ``min(size, 1)``, which is never more than one item; it must be
    ``max(size, 1)``. Here the bounds of the settings ensure that.
    """

    name = "pid"

    def __init__(self, settings: BatchSettings) -> None:
        super().__init__(settings)
        self._target_s, self._gains = settings.aim.target_s, settings.gains
        self._integral = self._error = 0.0

    def decide(self, latency_s: float, size: float) -> float:
        error = (self._target_s - latency_s) / self._target_s
        self._integral += error
        derivative, self._error = error - self._error, error
        gains = self._gains
        output = gains.kp * error + gains.ki * self._integral + gains.kd * derivative
        if output < 1:
            self._integral = 0.0
        return output
