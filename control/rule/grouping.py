"""Which neighbouring stages share workers: the cheapest cut of the pipeline for its mean load."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

Grouping = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class StageFacts:
    """What is known of a stage before it runs."""

    name: str
    alone: bool = False
    """It keeps a state: one worker, which runs nothing else."""
    price: float = 0.0
    """A worker that runs it costs so much more than one."""


def worker_price(stages: Sequence[StageFacts], group: Sequence[int]) -> float:
    """Return the cost of a worker of the group: it must have what each of its stages needs."""
    return 1 + sum(stages[index].price for index in group)


def staffed(load: float) -> float:
    """Return about how many workers a group needs for a load, in workers that it keeps busy: a queue may build up
    within the bound, so the share of Erlang's square root is small, and a quarter stands for whole workers."""
    return max(1.0, load + 0.6 * math.sqrt(load) + 0.25)


def grouping_cost(stages: Sequence[StageFacts], loads: Sequence[float], grouping: Grouping) -> float:
    """Return the cost of its workers."""
    return sum(_cost(stages, loads, group) for group in grouping)


def cheapest(stages: Sequence[StageFacts], loads: Sequence[float]) -> Grouping:
    """Return the cut into groups of neighbours that costs least, by dynamic programming over the last cut."""
    best, cut = [0.0] + [math.inf] * len(stages), [0] * (len(stages) + 1)
    for end in range(1, len(stages) + 1):
        for begin in range(end):
            cost = best[begin] + _cost(stages, loads, range(begin, end))
            if cost < best[end] - 1e-9:
                best[end], cut[end] = cost, begin
    groups, end = [], len(stages)
    while end:
        groups.append(tuple(range(cut[end], end)))
        end = cut[end]
    return tuple(reversed(groups))


def _cost(stages: Sequence[StageFacts], loads: Sequence[float], group: Sequence[int]) -> float:
    single = any(stages[index].alone for index in group)
    if single and len(group) > 1:
        return math.inf
    return worker_price(stages, group) * (1.0 if single else staffed(sum(loads[index] for index in group)))
