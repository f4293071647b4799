"""Controller ``slo-batch``: computes the size that meets the target from the cost of a bundle and the arrival rate
(docs/decisions/0023-controllers.md).

The law of a bundle of n items: work = fixed + load · (overhead + n), with the load in seconds per item.
"""

from dataclasses import dataclass
from math import exp, log
from statistics import median

import numpy as np

from compositions.batch_settings import BatchSettings
from compositions.wording import figure
from control.bundles.level import Level
from control.bundles.port import BatchController, BundleOpening, Choice, DeliveredBundle
from control.bundles.recurrence import Recurrence

LEAST_CONTRAST = log(2.0)
"""Two bundles reveal the shape of the law if one has at least twice the items of the other."""
CAP = 0.25
"""Largest squared error of a logarithm that counts: a larger error means that the load jumped between two bundles."""
FORGET = 0.97
"""Factor by which older pairs of bundles are discounted at each new pair: they count half after about 23."""
LEAST_LOAD_S = 1e-12


@dataclass(frozen=True, slots=True)
class Shape:
    """The constants of the law, which stay the same while the load changes."""

    fixed_s: float
    overhead_items: float

    def load_s(self, items: int, work_s: float) -> float:
        """Return the load in seconds per item, from the work on a bundle."""
        return max((work_s - self.fixed_s) / (self.overhead_items + items), LEAST_LOAD_S)

    def work_s(self, load_s: float, items: float) -> float:
        return self.fixed_s + load_s * (self.overhead_items + items)

    def items(self, load_s: float, total_s: float, filling_s: float) -> float:
        """Return the size whose work and filling take ``total_s``, at ``filling_s`` between items; below 0: none."""
        return (total_s - self.work_s(load_s, 0)) / (load_s + filling_s)


class Shapes:
    """A bank of candidate shapes; the best one explains how the work changed with the size from bundle to bundle."""

    FIXED = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4)
    """Candidate fixed costs, as shares of the target."""
    OVERHEAD = (0.0, *(2.0 ** (k / 2) for k in range(-2, 19)))
    """Candidate overheads, in items: 0, and half an item to 512 in steps of √2."""
    EXPECTED = 8.0
    """Overhead that is assumed before the first measurement, in items."""

    def __init__(self, target_s: float) -> None:
        fixed, overhead = np.meshgrid(np.array(self.FIXED) * target_s, self.OVERHEAD)
        self._fixed, self._overhead = fixed.ravel(), overhead.ravel()
        start = np.abs(np.log2((self._overhead + 0.5) / self.EXPECTED)) + 10 * self._fixed / target_s
        self._loss = start * 1e-3
        self._last: tuple[int, float] | None = None
        self.best = self._now_best()

    def learn(self, items: int, work_s: float) -> bool:
        """Learn the size and the work of a bundle; return True if ``best`` changed."""
        before, self._last = self._last, (items, work_s)
        if before is None or work_s <= 0 or abs(log(items / before[0])) < LEAST_CONTRAST:
            return False
        self._score(before, items, work_s)
        was, self.best = self.best, self._now_best()
        return self.best != was

    def _score(self, before: tuple[int, float], items: int, work_s: float) -> None:
        items_before, work_before_s = before
        load = np.maximum((work_before_s - self._fixed) / (self._overhead + items_before), LEAST_LOAD_S)
        error = np.log(self._fixed + load * (self._overhead + items)) - log(work_s)
        self._loss = FORGET * self._loss + np.minimum(error**2, CAP)

    def _now_best(self) -> Shape:
        best = int(np.argmin(self._loss))
        return Shape(float(self._fixed[best]), float(self._overhead[best]))


class KeepingUp:
    """A lower limit of the size: small bundles pay the overhead more often, so a smaller size would lengthen a queue.
    The limit rises while more than ``BEHIND`` bundles wait, and sinks slowly otherwise."""

    BEHIND = 2.0
    """Number of waiting bundles beyond which the limit rises."""
    RISE, SINK = 1.1, 0.998
    WORTH = 9.0
    """Largest limit, as a multiple of the overhead: beyond it, less than a tenth of a bundle's work is overhead."""

    def __init__(self) -> None:
        self._floor = 1.0

    def least(self, shape: Shape, load_s: float, items: int, waiting: int) -> float:
        """Return the limit after a bundle of ``items``, while ``waiting`` items wait."""
        if waiting > self.BEHIND * items:
            self._floor = min(
                max(self._floor, items) * self.RISE, max(1.0, self.WORTH * shape.work_s(load_s, 0) / load_s)
            )
        else:
            self._floor = max(1.0, self._floor * self.SINK)
        return self._floor


@dataclass(frozen=True, slots=True)
class Expected:
    """The forecasts of a bundle's load when it was opened: each filter's logarithm, and the load that was used."""

    forecasts: tuple[float, ...]
    load_s: float


class SloBatch(BatchController):
    """Models latency as filling + ``drag`` · work: filling follows from the rate, work from the law and the load."""

    name = "slo-batch"
    GROWTH = 4.0
    """Largest size, as a multiple of the largest bundle measured: the law is not extrapolated further."""
    FORESEEN = log(1.3)
    """Smallest recurring rise that is anticipated; the filters follow smaller ones by themselves. Falls are not: small
    bundles show a fall within a few items, and large bundles that come too early are very late."""
    DRAG_GAIN = 0.02
    DRAG_CAP = 0.2
    """Largest error that changes the drag gradually; a larger one means that the bundle waited or was misjudged."""
    STUCK = 24
    """Number of consecutive large errors of the same sign after which their median is added to the drag at once."""
    MOST_DRAG = log(64.0)

    def __init__(self, settings: BatchSettings) -> None:
        self._target_s, self._sizes = settings.aim.target_s, settings.sizes
        self._shapes, self._level, self._recurrence = Shapes(self._target_s), Level(), Recurrence()
        self._keeping_up = KeepingUp()
        self._opened: dict[int, Expected] = {}
        self._largest = settings.sizes.first
        self._drag = 0.0
        """Logarithm of a bundle's latency after it is filled, divided by the work on it: above 0 where bundles wait."""
        self._stuck: list[float] = []
        """Errors of the latest bundles, while all of them are large and of the same sign."""
        self._choice = Choice(settings.sizes.first, "first: nothing was measured yet")

    def delivered(self, bundle: DeliveredBundle) -> None:
        expected = self._opened.pop(bundle.first, None)
        if expected is None or bundle.work_s <= 0:
            return
        self._forget_before(bundle.first)
        self._largest = max(self._largest, bundle.items)
        self._learn_shape(bundle)
        load = log(self._shapes.best.load_s(bundle.items, bundle.work_s))
        self._level.learn(bundle.first + bundle.items / 2, load, expected.forecasts)
        self._recurrence.learn(bundle.first, bundle.items, load)
        self._learn_drag(bundle, expected.load_s)

    def next(self, opening: BundleOpening) -> Choice:
        if not self._level.seen:
            self._opened[opening.first] = Expected(self._level.forecasts(opening.first), 0.0)
            return self._choice
        middle = opening.first + self._choice.items / 2
        forecasts = self._level.forecasts(middle)
        foreseen = self._recurrence.change(self._level.at, middle)
        load_s = exp(self._level.now + foreseen if foreseen > self.FORESEEN else self._level.expected(forecasts))
        self._opened[opening.first] = Expected(forecasts, load_s)
        items = self._items(load_s, opening)
        if items != self._choice.items:
            self._choice = Choice(items, self._reason(load_s, items, opening, foreseen))
        return self._choice

    def _items(self, load_s: float, opening: BundleOpening) -> int:
        drag, shape = exp(self._drag), self._shapes.best
        filling_s = 1 / opening.rate_per_s if opening.rate_per_s else 0.0
        on_target = shape.items(load_s, (self._target_s + filling_s) / drag, filling_s / drag)
        least = self._keeping_up.least(shape, load_s, self._choice.items, opening.waiting)
        return round(self._sizes.held(min(max(on_target, least), self.GROWTH * self._largest)))

    def _learn_shape(self, bundle: DeliveredBundle) -> None:
        """Learn the shape; if it changed, convert the learned loads to the new shape by their ratio at this bundle."""
        before = self._shapes.best
        if not self._shapes.learn(bundle.items, bundle.work_s):
            return
        after = self._shapes.best
        by = log(after.load_s(bundle.items, bundle.work_s) / before.load_s(bundle.items, bundle.work_s))
        self._level.shift(by)
        self._recurrence.shift(by)

    def _learn_drag(self, bundle: DeliveredBundle, load_s: float) -> None:
        passed_s = bundle.latency_s - bundle.filled_s
        if load_s <= 0 or passed_s <= 0:
            return
        error = log(passed_s) - log(self._shapes.best.work_s(load_s, bundle.items)) - self._drag
        if abs(error) < self.DRAG_CAP:
            self._drag += self.DRAG_GAIN * error
            self._stuck.clear()
            return
        if self._stuck and error * self._stuck[-1] < 0:
            self._stuck.clear()
        self._stuck.append(error)
        if len(self._stuck) == self.STUCK:
            self._drag += median(self._stuck)
            self._drag = max(-self.MOST_DRAG, min(self.MOST_DRAG, self._drag))
            self._stuck.clear()

    def _forget_before(self, first: int) -> None:
        """Drop the forecasts of earlier bundles: bundles leave in order, so these were split or lost."""
        while self._opened and (oldest := next(iter(self._opened))) < first:
            del self._opened[oldest]

    def _reason(self, load_s: float, items: int, opening: BundleOpening, foreseen: float) -> str:
        shape = self._shapes.best
        parts = f"{figure(shape.work_s(load_s, 0) * 1e3)} ms + {items} × {figure(load_s * 1e3)} ms"
        told = f"bundle of {items}: predicted {parts} (±{100 * self._level.spread:.0f} %)"
        if opening.rate_per_s:
            told += f", {figure(items / opening.rate_per_s * 1e3)} ms to fill"
        return told + (", a recurring rise is expected" if foreseen > self.FORESEEN else "")
