"""The work on one coordinate and on one unit, in a form that numba compiles for cores and for a GPU.

It uses whole numbers and flat loops; nothing calls it directly. It avoids ``min`` and ``max`` of two numbers, which
numba 0.68 does not compile for a GPU.
"""

from apps.military_server.terrain import FEATURES, MOST_PENALTY, WOODED, Ints

MOST = 2**31 - 1


def explore_one(heights: Ints, ground: Ints, width: int, at: Ints, found: Ints) -> None:
    """Write the features of the coordinate ``at`` to ``found``."""
    half = width // 2
    total = counts = highest = 0
    lowest = MOST
    for direction in range(4):
        left, top = at[0] - half, at[1] - half
        if direction == 0:
            top = at[1] - width
        elif direction == 1:
            left = at[0] + 1
        elif direction == 2:
            top = at[1] + 1
        else:
            left = at[0] - width
        for row in range(top, top + width):
            for column in range(left, left + width):
                height = int(heights[row, column])
                total += height
                if height < lowest:
                    lowest = height
                if height > highest:
                    highest = height
                counts += int(ground[row, column])
    squares = 4 * width * width
    found[0] = total // squares
    found[1] = highest - lowest
    found[2] = 1000 * (counts % WOODED) // squares
    found[3] = 1000 * (counts // WOODED) // squares


def place_one(features: Ints, wanted: Ints, weights: Ints) -> tuple[int, int]:
    """Return the best coordinate for a unit, and its penalty."""
    best, least = 0, MOST
    for coordinate in range(len(features)):
        penalty = 0
        for number in range(FEATURES):
            penalty += weights[number] * abs(features[coordinate, number] - wanted[number])
        if penalty < least:
            best, least = coordinate, penalty
    return best, least


def fit_one(penalties: Ints) -> int:
    """Return the number of penalties that are small enough."""
    count = 0
    for unit in range(len(penalties)):
        count += penalties[unit] <= MOST_PENALTY
    return count
