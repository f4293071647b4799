"""The map over which drones fly, and the demands of units on the ground; the same in every process, from a seed.

All numbers are whole, so that every kernel gives exactly the same results.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

SIDE = 512
"""Squares per side of the map."""
WIDEST = 32
"""Minimum distance of coordinates from the map's edge, so that all examined squares are on the map."""
OPEN, WET, WOODED = 0, 1, 1 << 16
"""Values of a square; the sum over an area counts wet and wooded squares separately."""
WATERLINE, TREELINE = 1000, 1150
STEPS = (128, 32, 8, 2)
"""Squares from hill to hill, from large to small; a hill is up to 16 times as high, in decimetres."""

WANTED = np.array(
    [[1200, 60, 0, 0], [1500, 120, 0, 400], [900, 40, 600, 0], [1800, 200, 0, 100],
     [1100, 20, 0, 800], [1000, 90, 200, 300], [1400, 10, 0, 0], [1300, 300, 100, 900]], np.int32,
)  # fmt: skip
"""By kind of unit: wanted mean height and relief in decimetres, and squares of water and wood per thousand."""
WEIGHTS = np.array(
    [[1, 4, 8, 2], [2, 3, 8, 1], [1, 5, 4, 2], [4, 1, 8, 1], [1, 6, 6, 3], [2, 2, 1, 1], [3, 8, 9, 2], [1, 1, 2, 6]],
    np.int32,
)
KINDS = len(WANTED)
MOST_PENALTY = 700
"""Maximum penalty of a well-placed unit."""


class Terrain(NamedTuple):
    """The map, row by row."""

    heights: NDArray[np.int16]
    """Height in decimetres, 0 or more."""
    ground: "Ints"
    """``OPEN``, ``WET`` or ``WOODED``, by square."""


@cache
def terrain(seed: int) -> Terrain:
    """Return the map, created once per process in some tens of milliseconds."""
    chance = np.random.default_rng(seed)
    heights, trees = (np.sum([_hills(chance, step) for step in STEPS], axis=0) for _ in ("heights", "trees"))
    ground = np.where(trees > TREELINE, WOODED, OPEN)
    ground[heights < WATERLINE] = WET
    return Terrain(heights.astype(np.int16), ground.astype(np.int32))


def _hills(chance: np.random.Generator, step: int) -> "Ints":
    """Return random heights every ``step`` squares, with straight lines in between."""
    corners = chance.integers(0, 16 * step, (SIDE // step + 1, SIDE // step + 1), dtype=np.int32)
    part = np.arange(step, dtype=np.int32)
    rows = corners[:-1, None] * (step - part)[:, None] + corners[1:, None] * part[:, None]
    across = (rows // step).reshape(SIDE, -1)
    hills = (across[:, :-1, None] * (step - part) + across[:, 1:, None] * part) // step
    return hills.reshape(SIDE, SIDE).astype(np.int32)


COORDINATES, UNITS, FEATURES = 32, 16, 4
"""Numbers per tuple: Leonarczyk 2024, section 4.2.1; the features of a coordinate are ours."""

Records = NDArray[np.void]
Ints = NDArray[np.int32]

_PLACES = ("at", "u2", (UNITS, 2))
MISSION = np.dtype(
    [("drone", "i8"), ("width", "u2"), ("coordinates", "u2", (COORDINATES, 2)), ("kinds", "u1", (UNITS,))]
)
"""Place of a drone (column and row), width of its view, and kinds of the units to place."""
SENT = MISSION.newbyteorder(">")
"""A record as drones send it, in network byte order."""
EXPLORED = np.dtype([*MISSION.descr, ("features", "u2", (COORDINATES, FEATURES))])
PLACED = np.dtype([("drone", "i8"), _PLACES, ("penalties", "u4", (UNITS,))])
CHECKED = np.dtype([*PLACED.descr, ("fit", "u1")])
STORED = np.dtype([("drone", "i8"), ("fit", "u1"), _PLACES])
