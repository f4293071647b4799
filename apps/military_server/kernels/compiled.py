"""The kernel for a core, by numba. Importing it takes half a second; the first run on a machine compiles for seconds.

The code is stored beside the sources or, if they cannot be written, in the user's cache folder (numba's own rule).
"""

import numpy as np
from numba import njit

from apps.military_server.kernels import loops
from apps.military_server.terrain import COORDINATES, FEATURES, UNITS, WANTED, WEIGHTS, WIDEST, Ints, Terrain

_explore_one = njit(nogil=True, cache=True)(loops.explore_one)
_place_one = njit(nogil=True, cache=True)(loops.place_one)
_fit_one = njit(nogil=True, cache=True)(loops.fit_one)


@njit(nogil=True, cache=True)
def _explore(heights: Ints, ground: Ints, widths: Ints, coordinates: Ints, features: Ints) -> None:
    for tuple_ in range(len(widths)):
        for number in range(COORDINATES):
            _explore_one(heights, ground, widths[tuple_], coordinates[tuple_, number], features[tuple_, number])


@njit(nogil=True, cache=True)
def _place(features: Ints, kinds: Ints, best: Ints, penalties: Ints) -> None:
    for tuple_ in range(len(kinds)):
        for unit in range(UNITS):
            kind = kinds[tuple_, unit]
            found = _place_one(features[tuple_], WANTED[kind], WEIGHTS[kind])
            best[tuple_, unit], penalties[tuple_, unit] = found


@njit(nogil=True, cache=True)
def _fit(penalties: Ints, counts: Ints) -> None:
    for tuple_ in range(len(penalties)):
        counts[tuple_] = _fit_one(penalties[tuple_])


class CompiledKernel:
    """See ``port.Kernel``."""

    def __init__(self, terrain: Terrain) -> None:
        self._terrain = terrain
        self._compile()

    def _compile(self) -> None:
        """Process one tuple, so that compiling belongs to the setup and not to the first bundle's service time."""
        features = self.explore(np.ones(1, np.int32), np.full((1, COORDINATES, 2), WIDEST, np.int32))
        self.fit(self.place(features, np.zeros((1, UNITS), np.int32))[1])

    def explore(self, widths: Ints, coordinates: Ints) -> Ints:
        features = np.empty((len(widths), COORDINATES, FEATURES), np.int32)
        _explore(*self._terrain, widths, coordinates, features)
        return features

    def place(self, features: Ints, kinds: Ints) -> tuple[Ints, Ints]:
        best, penalties = np.empty((2, *kinds.shape), np.int32)
        _place(features, kinds, best, penalties)
        return best, penalties

    def fit(self, penalties: Ints) -> Ints:
        counts = np.empty(len(penalties), np.int32)
        _fit(penalties, counts)
        return counts
