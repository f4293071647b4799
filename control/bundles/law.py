"""The cost law of bundles and its estimation: ``work = fixed + load · (overhead + items)``.

``fixed`` is the cost of a bundle whatever is in it, ``load`` the present cost of an item, and ``overhead`` the cost of
a bundle in addition to its items, in items. The load changes all the time; ``fixed`` and ``overhead``, the *shape*,
belong to app and machine. The law covers a cost per bundle that grows with the load and one that does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np

LEAST_CONTRAST = log(2.0)
"""Two bundles tell of the shape when one has at least twice the items of the other."""
CAP = 0.25
"""Largest squared error of a logarithm that counts: beyond it the load itself has jumped between the two."""
FORGET = 0.97
"""A pair of bundles counts half after about 23 more."""
LEAST_LOAD_S = 1e-12


@dataclass(frozen=True, slots=True)
class Shape:
    """The part of the law that stays while loads change."""

    fixed_s: float
    overhead_items: float

    def load_s(self, items: int, work_s: float) -> float:
        """Seconds an item, given what a bundle took."""
        return max((work_s - self.fixed_s) / (self.overhead_items + items), LEAST_LOAD_S)

    def work_s(self, load_s: float, items: float) -> float:
        return self.fixed_s + load_s * (self.overhead_items + items)

    def items(self, load_s: float, total_s: float, filling_s: float) -> float:
        """Return how many items take ``total_s``, each with ``filling_s`` until the next has come; below 0 when none
        do."""
        return (total_s - self.work_s(load_s, 0)) / (load_s + filling_s)


class Shapes:
    """A bank of shapes, of which the one explains best how work changed from bundle to bundle with their sizes."""

    FIXED = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4)
    """As shares of the target."""
    OVERHEAD = (0.0, *(2.0 ** (k / 2) for k in range(-2, 19)))
    """In items: 0, and half an item to 512 in steps of √2."""
    EXPECTED = 8.0
    """Overhead that is assumed before anything is known, in items."""

    def __init__(self, target_s: float) -> None:
        fixed, overhead = np.meshgrid(np.array(self.FIXED) * target_s, self.OVERHEAD)
        self._fixed, self._overhead = fixed.ravel(), overhead.ravel()
        start = np.abs(np.log2((self._overhead + 0.5) / self.EXPECTED)) + 10 * self._fixed / target_s
        self._loss = start * 1e-3
        self._last: tuple[int, float] | None = None
        self.best = self._now_best()

    def learn(self, items: int, work_s: float) -> bool:
        """Takes a bundle; whether ``best`` is another now."""
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
