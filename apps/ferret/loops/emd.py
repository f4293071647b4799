"""Ferret's rank stage: the Earth Mover's Distance between two sets of weighted regions.

Rubner, Tomasi and Guibas 2000, "The Earth Mover's Distance as a Metric for Image Retrieval", IJCV 40(2), section 3:
the least cost of carrying one distribution of mass onto another, solved exactly as a transportation problem. Solved by
successive shortest paths with dual prices (Ahuja, Magnanti and Orlin 1993, section 9.7), in double precision.

The loops index flat sequences only, so the same source runs in plain Python over lists (kernel ``exact``) and compiled
over arrays (kernel ``fast``), and both give the same bits.
"""

from collections.abc import MutableSequence, Sequence
from math import inf, sqrt
from typing import NamedTuple


def grow_box(pixels: Sequence[int], width: int) -> tuple[int, int, int, int, int]:
    """Return (top, bottom, left, right, pixels inside) of a box that leaves sparse outliers out.

    A current box takes pixels while they fill more than 15 % of it; a sparser one is merged into an accumulated box,
    and a new one begins. At the end, only the current box counts if the accumulated one has less than 10 % of the
    pixels. The original compares a single-precision quotient with 0.15, which is true of 3/20: hence "at least".
    """
    top = left = width
    bottom = right = -1
    all_top = all_left = width
    all_bottom = all_right = -1
    inside = outside = 0
    for pixel in pixels:
        row, column = pixel // width, pixel % width
        if inside == 0 or 20 * inside >= 3 * (bottom - top + 1) * (right - left + 1):
            top, bottom = min(top, row), max(bottom, row)
            left, right = min(left, column), max(right, column)
            inside += 1
        else:
            all_top, all_bottom = min(all_top, top), max(all_bottom, bottom)
            all_left, all_right = min(all_left, left), max(all_right, right)
            outside += inside
            top = bottom = row
            left = right = column
            inside = 1
    if 10 * outside < inside + outside:
        return top, bottom, left, right, inside
    all_top, all_bottom = min(all_top, top), max(all_bottom, bottom)
    all_left, all_right = min(all_left, left), max(all_right, right)
    return all_top, all_bottom, all_left, all_right, inside + outside


class Search(NamedTuple):
    """Working storage of a transport: dual prices, and the cheapest known paths from one row."""

    row_prices: MutableSequence[float]
    column_prices: MutableSequence[float]
    row_of: MutableSequence[int]
    """The row before a column on its path."""
    column_of: MutableSequence[int]
    """The column before a row, or -1."""
    reach: MutableSequence[float]
    """The cost of reaching a column, by the prices."""
    entered: MutableSequence[int]
    """1 for columns whose path is final."""


def distances(
    weights: Sequence[float],
    features: Sequence[float],
    other_weights: Sequence[float],
    other_features: Sequence[float],
    starts: Sequence[int],
    results: MutableSequence[float],
) -> None:
    """Writes to ``results`` the distance of one set of regions to each of ``len(results)`` others.

    Args:
        weights, features: of the one set; features flat, the same number of them per region everywhere.
        other_weights, other_features: of all other sets, one after the other.
        starts: set k's regions are ``starts[k]`` up to ``starts[k + 1]``.
    """
    width = len(features) // len(weights)
    for k in range(len(results)):
        low, high = starts[k], starts[k + 1]
        costs = ground_distances(features, other_features[low * width : high * width], width)
        results[k] = transport_cost(shares(weights), shares(other_weights[low:high]), costs)


def ground_distances(features: Sequence[float], others: Sequence[float], width: int) -> MutableSequence[float]:
    """Return Euclidean distances of every region to every other one, row by row."""
    costs = zeros(len(features) // width * (len(others) // width))
    k = 0
    for a in range(0, len(features), width):
        for b in range(0, len(others), width):
            total = 0.0
            for f in range(width):
                total += (features[a + f] - others[b + f]) ** 2
            costs[k] = sqrt(total)
            k += 1
    return costs


def shares(weights: Sequence[float]) -> MutableSequence[float]:
    """Return weights over their sum: both sides of a transport must have equal mass; single precision leaves 1e-7."""
    total = 0.0
    for weight in weights:
        total += weight
    result = zeros(len(weights))
    for k in range(len(weights)):
        result[k] = weights[k] / total
    return result


def zeros(count: int) -> MutableSequence[float]:
    """Return working storage; the compiled kernel replaces it by an array."""
    return [0.0] * count


def unset(count: int) -> MutableSequence[int]:
    """Return working storage of indices, each -1; the compiled kernel replaces it by an array."""
    return [-1] * count


def transport_cost(supply: MutableSequence[float], demand: MutableSequence[float], costs: Sequence[float]) -> float:
    """Return the least cost of carrying ``supply`` to ``demand`` (both sum to 1 and are used up); ``costs`` row by row.

    Each row's supply leaves along cheapest paths, which may take back what earlier rows have sent. The dual prices keep
    every reduced cost at 0 or above, so that Dijkstra's algorithm finds those paths.
    """
    rows, columns = len(supply), len(demand)
    flows = zeros(rows * columns)
    search = Search(zeros(rows), zeros(columns), unset(columns), unset(rows), zeros(columns), unset(columns))
    for row in range(rows):
        while supply[row] > 0.0:
            end = cheapest_path(row, demand, costs, flows, search)
            if end < 0:  # rounding left a remainder of supply after all demand was met
                break
            send(row, end, supply, demand, flows, search)
    total = 0.0
    for k in range(len(flows)):
        total += flows[k] * costs[k]
    return total


def cheapest_path(
    start: int, demand: Sequence[float], costs: Sequence[float], flows: Sequence[float], search: Search
) -> int:
    """Return the column with unmet demand that is cheapest to reach from row ``start``, or -1. Leaves the path in
    ``search`` and updates the prices."""
    columns = len(demand)
    column_of, reach, entered = search.column_of, search.reach, search.entered
    for column in range(columns):
        reach[column] = inf
        entered[column] = 0
    for row in range(len(column_of)):
        column_of[row] = -1
    relax(start, 0.0, costs, search)
    end = -1
    while True:
        column = nearest(entered, reach)
        if column < 0:
            return -1
        entered[column] = 1
        if demand[column] > 0.0:
            end = column
            break
        for row in range(len(column_of)):
            if row != start and column_of[row] < 0 and flows[row * columns + column] > 0.0:
                column_of[row] = column
                relax(row, reach[column], costs, search)
    reprice(start, reach[end], search)
    return end


def relax(row: int, base: float, costs: Sequence[float], search: Search) -> None:
    """Record the columns that are cheaper to reach through a row, which itself is reached at ``base``."""
    reach, entered, row_of, column_prices = search.reach, search.entered, search.row_of, search.column_prices
    columns = len(reach)
    offset = base - search.row_prices[row]
    for column in range(columns):
        if not entered[column]:
            through = offset + costs[row * columns + column] - column_prices[column]
            if through < reach[column]:
                reach[column] = through
                row_of[column] = row


def nearest(entered: Sequence[int], reach: Sequence[float]) -> int:
    """Return the cheapest column not yet entered, or -1."""
    best = -1
    lowest = inf
    for column in range(len(reach)):
        if not entered[column] and reach[column] < lowest:
            lowest = reach[column]
            best = column
    return best


def reprice(start: int, length: float, search: Search) -> None:
    """Raise the prices of everything nearer than ``length``, so that the found path costs nothing beyond them."""
    row_prices, column_prices = search.row_prices, search.column_prices
    column_of, reach, entered = search.column_of, search.reach, search.entered
    row_prices[start] += length
    for row in range(len(column_of)):
        if column_of[row] >= 0:
            row_prices[row] += length - reach[column_of[row]]
    for column in range(len(reach)):
        if entered[column]:
            column_prices[column] -= length - reach[column]


def send(
    start: int,
    end: int,
    supply: MutableSequence[float],
    demand: MutableSequence[float],
    flows: MutableSequence[float],
    search: Search,
) -> None:
    """Send as much as supply, demand and the flows to take back allow, along the path from start to end."""
    row_of, column_of = search.row_of, search.column_of
    columns = len(demand)
    amount = min(supply[start], demand[end])
    row = row_of[end]
    while row != start:
        amount = min(amount, flows[row * columns + column_of[row]])
        row = row_of[column_of[row]]
    column = end
    while True:
        row = row_of[column]
        flows[row * columns + column] += amount
        if row == start:
            break
        column = column_of[row]
        flows[row * columns + column] -= amount
    supply[start] -= amount
    demand[end] -= amount
