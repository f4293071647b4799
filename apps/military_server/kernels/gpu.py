"""The kernel for a GPU, by numba: a bundle is copied there at once, and every tuple has blocks of its own (section
4.2.1).

Map, terrain and the wants of the units are copied when a worker starts, and stay. Results stay on the device until they
are needed on the host (:mod:`apps.military_server.records`): as in the thesis, a bundle that was copied there is not
copied again before the next stage, as long as that is in the same group.
"""

from typing import Any

import numpy as np
from numba import config, cuda

from apps.military_server.kernels import loops
from apps.military_server.records import Field
from apps.military_server.terrain import COORDINATES, FEATURES, UNITS, WANTED, WEIGHTS, Terrain

config.CUDA_LOW_OCCUPANCY_WARNINGS = 0  # a bundle of few tuples has few blocks, which is intended

THREADS = 32
"""Threads per block: one per coordinate in ``explore``, per unit in ``place``, per tuple in ``fit``."""
BLOCKS_PER_TUPLE = -(-COORDINATES // THREADS)

_explore_one = cuda.jit(device=True)(loops.explore_one)
_place_one = cuda.jit(device=True)(loops.place_one)
_fit_one = cuda.jit(device=True)(loops.fit_one)


@cuda.jit
def _explore(heights: Any, ground: Any, widths: Any, coordinates: Any, features: Any) -> None:
    tuple_ = cuda.blockIdx.x // BLOCKS_PER_TUPLE
    number = cuda.blockIdx.x % BLOCKS_PER_TUPLE * THREADS + cuda.threadIdx.x
    if number < COORDINATES:
        _explore_one(heights, ground, widths[tuple_], coordinates[tuple_, number], features[tuple_, number])


@cuda.jit
def _place(wants: Any, features: Any, kinds: Any, found: Any) -> None:
    tuple_, unit = cuda.blockIdx.x, cuda.threadIdx.x
    if unit < UNITS:
        kind = kinds[tuple_, unit]
        best, penalty = _place_one(features[tuple_], wants[0, kind], wants[1, kind])
        found[0, tuple_, unit] = best
        found[1, tuple_, unit] = penalty


@cuda.jit
def _fit(penalties: Any, counts: Any) -> None:
    tuple_ = cuda.grid(1)
    if tuple_ < len(counts):
        counts[tuple_] = _fit_one(penalties[tuple_])


class GpuKernel:
    """See ``port.Kernel``."""

    def __init__(self, terrain: Terrain) -> None:
        self._terrain = [cuda.to_device(layer) for layer in terrain]
        self._wants = cuda.to_device(np.stack([WANTED, WEIGHTS]))

    def explore(self, widths: Field, coordinates: Field) -> Field:
        features = cuda.device_array((len(widths), COORDINATES, FEATURES), np.int32)
        blocks = len(widths) * BLOCKS_PER_TUPLE
        _explore[blocks, THREADS](*self._terrain, *map(cuda.to_device, (widths, coordinates)), features)
        return features

    def place(self, features: Field, kinds: Field) -> tuple[Field, Field]:
        found = cuda.device_array((2, *kinds.shape), np.int32)
        _place[len(kinds), THREADS](self._wants, *map(cuda.to_device, (features, kinds)), found)
        return found[0], found[1]

    def fit(self, penalties: Field) -> Field:
        counts = cuda.device_array(len(penalties), np.int32)
        _fit[-(-len(penalties) // THREADS), THREADS](cuda.to_device(penalties), counts)
        return counts
