"""Choose which neighbouring stages share workers: the cheapest cut of the pipeline for its mean load."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

Grouping = tuple[tuple[int, ...], ...]


MOST = 1000
"""Largest number of replicas of any group."""


@dataclass(frozen=True, slots=True)
class StageFacts:
    """What is known of a stage before it runs."""

    name: str
    most: int = MOST
    """Most replicas of a group that begins with it: 1 with a state, as many as partitions where it has keys."""
    price: float = 0.0
    """Additional price of a worker that runs it, in workers."""
    at_once: int = 1
    """Number of calls that one worker runs at a time, for a stage that waits."""


def most_of(stages: Sequence[StageFacts], group: Sequence[int]) -> int:
    """Return how many replicas the group may have: only one where a stage after the first has a limit."""
    return 1 if any(stages[index].most < MOST for index in group[1:]) else stages[group[0]].most


def worker_price(stages: Sequence[StageFacts], group: Sequence[int]) -> float:
    """Return the cost of a worker of the group: it must have what each of its stages needs."""
    return 1 + sum(stages[index].price for index in group)


def staffed(load: float) -> float:
    """Return about how many workers a group needs for a load, in workers that it keeps busy: a queue may build up
    within the bound, so the share of Erlang's square root is small, and a quarter stands for whole workers."""
    return max(1.0, load + 0.6 * math.sqrt(load) + 0.25)


def grouping_cost(stages: Sequence[StageFacts], loads: Sequence[float], grouping: Grouping, hop: float = 0.0) -> float:
    """Return the cost of its workers. ``hop``: what each group adds to its load for the way to it."""
    return sum(_cost(stages, loads, group, hop) for group in grouping)


def cheapest(stages: Sequence[StageFacts], loads: Sequence[float], hop: float = 0.0) -> Grouping:
    """Return the cut into groups of neighbours that costs least, by dynamic programming over the last cut."""
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
"""A single worker is planned to be at most half busy; each unit of load beyond a limit costs this many workers."""


def _cost(stages: Sequence[StageFacts], loads: Sequence[float], group: Sequence[int], hop: float) -> float:
    load, most = hop + sum(loads[index] for index in group), most_of(stages, group)
    if most == 1:
        workers = 1 + _BEYOND * max(0.0, load - _FULL) if len(group) > 1 else 1.0
    else:
        workers = staffed(load) + _BEYOND * max(0.0, load - most)
    return worker_price(stages, group) * workers
