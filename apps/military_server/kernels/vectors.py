"""The kernel with NumPy: a bundle is one array, so that the cost of a call is paid once for all its tuples."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from apps.military_server import terrain as world
from apps.military_server.terrain import Ints, Terrain

SQUARES_AT_A_TIME = 1 << 17
"""Number of squares processed at a time: a megabyte, which stays in the cache of a core."""


class VectorKernel:
    """See ``port.Kernel``."""

    def __init__(self, terrain: Terrain) -> None:
        self._terrain = terrain

    def explore(self, widths: Ints, coordinates: Ints) -> Ints:
        features = np.empty((len(widths), world.COORDINATES, world.FEATURES), np.int32)
        for width in np.unique(widths).tolist():
            where = np.flatnonzero(widths == width)
            parts = -(-len(where) * world.COORDINATES * 4 * width**2 // SQUARES_AT_A_TIME)
            for part in np.array_split(where, parts):
                features[part] = self._explore(width, coordinates[part])
        return features

    def _explore(self, width: int, coordinates: Ints) -> Ints:
        """Process coordinates of one width. Squares are along the first axis, so sums are over whole rows."""
        at = np.ravel(coordinates[:, :, 1] * world.SIDE + coordinates[:, :, 0]) + _ahead(width)[:, None]
        heights, ground = (layer.ravel().take(at) for layer in self._terrain)
        counts = ground.sum(0, dtype=np.int32)
        found = (
            heights.sum(0, dtype=np.int32) // len(at),
            heights.max(0) - heights.min(0),
            1000 * (counts % world.WOODED) // len(at),
            1000 * (counts // world.WOODED) // len(at),
        )
        return np.stack(found, axis=1).reshape(len(coordinates), world.COORDINATES, world.FEATURES)

    def place(self, features: Ints, kinds: Ints) -> tuple[Ints, Ints]:
        penalties = np.zeros((*kinds.shape, world.COORDINATES), np.int32)
        for number in range(world.FEATURES):
            distance = np.abs(features[:, None, :, number] - world.WANTED[kinds, number, None])
            penalties += world.WEIGHTS[kinds, number, None] * distance
        best = penalties.argmin(2)
        return best.astype(np.int32), np.take_along_axis(penalties, best[:, :, None], 2)[:, :, 0]

    def fit(self, penalties: Ints) -> Ints:
        return (penalties <= world.MOST_PENALTY).sum(1, dtype=np.int32)


@cache
def _ahead(width: int) -> NDArray[np.intp]:
    """Return how far the squares of the four areas lie from a coordinate, in the map row by row."""
    half = width // 2
    corners = ((-half, -width), (1, -half), (-half, 1), (-width, -half))
    across, down = np.arange(width), np.arange(width)[:, None]
    return np.concatenate([np.ravel((top + down) * world.SIDE + left + across) for left, top in corners])
