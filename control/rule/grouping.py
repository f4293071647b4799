"""Choose the neighbouring stages that share workers: the cheapest partition of the pipeline for its mean load."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

Grouping = tuple[tuple[int, ...], ...]
MOST = 1000
"""Largest number of replicas of any group."""


@dataclass(frozen=True, slots=True)
class StageFacts:
    """The declared facts of a stage, known before it runs."""

    name: str
    most: int = MOST
    """Most replicas of a group that begins with it: 1 with a state, the number of partitions with a keyed state."""
    price: float = 0.0
    """Additional cost of a worker that runs it, in workers."""
    at_once: int = 1
    """Number of concurrent calls per worker; above 1 for a stage that waits, such as for a network."""


def most_of(stages: Sequence[StageFacts], group: Sequence[int]) -> int:
    """Return the maximum number of replicas of the group: 1 if a stage after the first has a limit."""
    return 1 if any(stages[index].most < MOST for index in group[1:]) else stages[group[0]].most


def worker_price(stages: Sequence[StageFacts], group: Sequence[int]) -> float:
    """Return the cost of a worker of the group, in workers: 1, plus the price of each of its stages."""
    return 1 + sum(stages[index].price for index in group)


def staffed(load: float) -> float:
    """Return about how many workers a group needs for a load (the mean number of busy workers). Items may queue within
    the bound, so the margin (Erlang's square-root rule) is small; 0.25 accounts for rounding to whole workers."""
    return max(1.0, load + 0.6 * math.sqrt(load) + 0.25)


def grouping_cost(stages: Sequence[StageFacts], loads: Sequence[float], grouping: Grouping, hop: float = 0.0) -> float:
    """Return the cost of the workers of all groups. ``hop``: additional load of each group by its hop."""
    return sum(_cost(stages, loads, group, hop) for group in grouping)


def cheapest(stages: Sequence[StageFacts], loads: Sequence[float], hop: float = 0.0) -> Grouping:
    """Return the cheapest partition into groups of neighbours, by dynamic programming over the last group."""
    best, cut = [0.0] + [math.inf] * len(stages), [0] * (len(stages) + 1)
    for end in range(1, len(stages) + 1):
        for begin in range(end):
            cost = best[begin] + _cost(stages, loads, range(begin, end), hop)
            if cost < best[end] - 1e-9:
                best[end], cut[end] = cost, begin
    groups, end = [], len(stages)
    while end:
        groups.append(tuple(range(cut[end], end)))
        end = cut[end]
    return tuple(reversed(groups))


_FULL, _BEYOND = 0.5, 20.0
"""Planned load of a group that may have one worker only, and the cost per unit of load beyond a limit, in workers."""


def _cost(stages: Sequence[StageFacts], loads: Sequence[float], group: Sequence[int], hop: float) -> float:
    load, most = hop + sum(loads[index] for index in group), most_of(stages, group)
    if most == 1:
        workers = 1 + _BEYOND * max(0.0, load - _FULL) if len(group) > 1 else 1.0
    else:
        workers = staffed(load) + _BEYOND * max(0.0, load - most)
    return worker_price(stages, group) * workers
