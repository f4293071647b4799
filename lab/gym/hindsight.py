"""Search for the cheapest schedule that holds the objective, with the load and all costs known beforehand.

Two kinds are searched on the plant itself: one composition all the time, and the plan of the floor with some room, by
the share that work is inflated by; each with the stages merged as far as may be, and apart. Both are bisected, as more
workers hold what fewer do. What is found can be carried out, so it is what a policy's cost is compared with; the floor
says how much better anything could be.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from compositions.model import Composition
from lab.gym.floor import Floor, floor_of
from lab.gym.model import Groups, Play, compose
from lab.gym.player import play_run
from lab.gym.policies.port import Given, Measured, Policy
from lab.gym.score import score_of

_ROOM = (1.05, 1.15, 1.25, 1.4, 1.6, 1.9)
"""By so much the work is inflated for a plan."""
_ROUNDS = 6
"""Of prices, for a plan: it need not be the best one."""
_AHEAD_S = 1.0
"""A plan is followed so much earlier than workers take to start, and its peaks are kept so long."""


@dataclass(frozen=True, slots=True)
class Found:
    """The cheapest schedule that was found to hold the objective."""

    cost: float
    """Infinite if none holds it."""
    name: str
    fixed: float
    """The cost of the cheapest fixed composition; infinite if none holds it."""


def search(play: Play) -> Found:
    """Return the cheapest of all that is tried."""
    fixed = [(*_cheapest_fixed(play, groups), groups) for groups in dict.fromkeys((play.merged, play.apart))]
    cost, name, groups = min(fixed, key=lambda found: found[0])
    return Found(*min((cost, name), _cheapest_plan(play, groups)), fixed=cost)


def _cheapest_fixed(play: Play, groups: Groups) -> tuple[float, str]:
    least, most = len(groups), play.machine.most_workers
    best = (math.inf, "none")
    while least <= most:
        middle = most if math.isinf(best[0]) else (least + most) // 2
        composition = shared(play, groups, middle)
        cost = _cost(play, lambda _, fixed=composition: fixed)  # type: ignore[misc]
        if cost == math.inf and math.isinf(best[0]):
            break  # not even with all workers
        best, least, most = (
            (best, middle + 1, most) if cost == math.inf else ((cost, composition.name), least, middle - 1)
        )
    return best


def _cheapest_plan(play: Play, groups: Groups) -> tuple[float, str]:
    best = (math.inf, "none")
    low, high = 0, len(_ROOM) - 1
    while low <= high:
        middle = (low + high) // 2
        cost = _cost(play, _following(play, groups, floor_of(play, inflated=_ROOM[middle], rounds=_ROUNDS)))
        low, high = (middle + 1, high) if cost == math.inf else (low, middle - 1)
        best = min(best, (cost, f"plan with {_ROOM[middle]:g} times the work, in {len(groups)} groups"))
    return best


def _following(play: Play, groups: Groups, plan: Floor) -> Callable[[float], Composition]:
    span = math.ceil((play.machine.start_s + 2 * _AHEAD_S) / plan.step_s)
    padded = np.concatenate([plan.workers, np.full(span, plan.workers[-1])])
    ahead = np.lib.stride_tricks.sliding_window_view(padded, span).max(axis=1)

    def composition(at_s: float) -> Composition:
        step = int((at_s + _AHEAD_S - plan.from_s) / plan.step_s)
        return shared(play, groups, int(ahead[min(max(step, 0), len(ahead) - 1)]))

    return composition


def shared(play: Play, groups: Groups, workers: int) -> Composition:
    """Return the composition in which groups share so many workers by their work, each at least one."""
    work = dict(zip((stage.name for stage in play.stages), _work(play), strict=True))
    stateful = {stage.name for stage in play.stages if stage.stateful}
    loads = [math.inf if stateful & set(group) else sum(work[stage] for stage in group) for group in groups]
    replicas = [1] * len(groups)
    for _ in range(min(workers, play.machine.most_workers) - len(groups)):
        needs = [0.0 if math.isinf(load) else load / count for load, count in zip(loads, replicas, strict=True)]
        if not any(needs):
            break
        replicas[needs.index(max(needs))] += 1
    return compose(groups, tuple(replicas))


def _work(play: Play) -> list[float]:
    return [float(each) for each in (play.work.cpu_s + play.work.wait_s).sum(axis=0)]


def _cost(play: Play, composition: Callable[[float], Composition]) -> float:
    """Return what it costs to follow; infinite if the objective does not hold."""

    class Following(Policy):
        def __init__(self, given: Given) -> None:
            self._at_s = 0.0

        def observe(self, measured: Measured) -> None:
            self._at_s = measured.at_s

        def decide(self) -> Composition:
            return composition(self._at_s)

    run = play_run(play, Following, gives_up=True)
    score = score_of(run)
    return score.cost if score.holds else math.inf
