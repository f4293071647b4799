"""Compute the floor: no schedule of workers, however it is found, holds the objective at a lower cost.

It is the optimum of an easier problem, in which the load and all costs are known beforehand: any worker may work on
any item, several on one as well, hops take nothing, and the machine never slows down. What remains is what no schedule
can avoid: the work itself, whole workers, the start of each, items in order, and the share that may be late.

Time is cut into steps. Of the workers at work in a step the greatest number counts; so two steps of each start are
taken off its price again, and one of each worker that was there at the beginning. Work is cut into quanta, rounded down
over all time together: as capacity is in whole quanta, this shortens nothing but the last part of one. An item is late
if work up to it is left at the end of the last step in which it could be in time. Windows may have their share of late
items: a price for each window, the dual variable of that limit, separates the problem over time, and by weak duality
the value is below the optimum whatever the prices are (Boyd and Vandenberghe, Convex Optimization, section 5.2.2).
They follow the excess of late items, round by round: they decide how close the floor is, not whether it is one.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from numba import njit

from lab.gym.model import Floats, Ints, Play, Windows, windows_of

Choices = npt.NDArray[np.uint8]

_QUANTA = 2
"""Number of parts into which the work of one worker in a step is divided."""
_MOST_LEFT = 200
"""Maximum quanta of work that are tracked; the excess is dropped, which lowers the floor."""
_STARTS = (10.0, 1000.0)
"""Initial prices over the work of an item: a smooth load needs low ones, an outage with catch-up high ones."""
_ROUNDS = 12


def floor_of(play: Play) -> float:
    """Return the floor of a play: workers alive, by cost, on average; infinite if no schedule holds the objective."""
    windows = windows_of(play)
    alone = _work_alone(play, windows)
    if any(stage.price for stage in play.stages):
        return alone
    problem = _Problem(play, windows)
    floor = max(alone, *(_ascended(problem, start) / windows.judged_s for start in _STARTS))
    return floor if floor <= play.machine.most_workers else math.inf


def _ascended(problem: _Problem, start: float) -> float:
    prices = np.full(len(problem.allowed), start * problem.mean_s)
    best = -math.inf
    for number in range(_ROUNDS):
        value, late = problem.solve(prices)
        best = max(best, value)
        excess = np.clip((late - problem.allowed) / np.maximum(1.0, problem.allowed), -1.0, 2.0)
        prices = prices * np.exp(0.7 / (1 + number / 4) * excess)
    return best


def _work_alone(play: Play, windows: Windows) -> float:
    """Return the cost of the work, on workers that do nothing else, up to the last item that must be in time."""
    rates = np.array([1 + stage.price for stage in play.stages], dtype=np.float64) / max(play.machine.speeds)
    work_s = (play.work.cpu_s + play.work.wait_s) @ rates
    judged = np.flatnonzero(windows.of_item >= 0)
    last = judged[windows.of_item[judged] == windows.of_item[judged].max()] if judged.size else judged
    needed = judged[: judged.size - math.floor((1 - play.share) * last.size + 1e-9)]
    return float(work_s[needed].sum()) / windows.judged_s


class _Problem:
    """The easier problem of a play, for one price per late item in each window."""

    def __init__(self, play: Play, windows: Windows) -> None:
        machine, from_s = play.machine, windows.starts_s[0]
        self.step_s = min(max(0.25, play.bound_s / 4), max(machine.start_s / 2, 0.05))
        self.steps = math.ceil(windows.judged_s / self.step_s)
        self.start_cost = max(0.0, machine.start_s - 2 * self.step_s)
        self.allowed: Floats = np.floor((1 - play.share) * windows.items + 1e-9)
        waits = bool(play.work.wait_s.any())
        fastest = machine.most_workers if waits else min(machine.cores, machine.most_workers)
        judged = windows.of_item >= 0
        work_s = (play.work.cpu_s + play.work.wait_s).sum(axis=1)[judged] / max(machine.speeds)
        self.mean_s = float(work_s.mean()) if work_s.size else 0.0
        upto = np.floor(np.cumsum(work_s) / (self.step_s / _QUANTA) + 1e-9).astype(np.int64)
        came = np.minimum(((play.work.due_s[judged] - from_s) / self.step_s).astype(np.int64), self.steps - 1)
        arrived = np.zeros(self.steps, dtype=np.int64)
        np.maximum.at(arrived, came, upto)
        arrived = np.maximum.accumulate(arrived)
        self._new = np.diff(arrived, prepend=0)
        due = came + math.ceil(play.bound_s / self.step_s)
        self._window = windows.of_item[judged]
        """Window of each checked item; ``_left`` and ``_checked``: the work that may be left, and when."""
        kept = due < self.steps
        self._window, due, upto = self._window[kept], due[kept], upto[kept]
        self._left = arrived[due] - upto
        self._checked = np.searchsorted(due, np.arange(self.steps + 1))
        self._served = np.minimum(np.arange(machine.most_workers + 1), fastest) * _QUANTA

    def solve(self, prices: Floats) -> tuple[float, Floats]:
        """Return the dual value in worker-seconds, and the late items by window of the plan that reaches it."""
        item_prices = prices[self._window]
        ahead, chosen = _planned(
            self._new, self._left, item_prices, self._checked, self._served, self.step_s, self.start_cost
        )
        counts = np.arange(len(self._served))
        first = int(np.argmin(ahead[:, 0] - self.step_s * counts))
        value = float(ahead[first, 0]) - self.step_s * first - float(prices @ self.allowed)
        over = _late(chosen, self._new, self._left, self._checked, self._served, first)
        late: Floats = np.bincount(self._window, weights=over, minlength=len(self.allowed)).astype(np.float64)
        return value, late


@njit(cache=True)  # type: ignore[untyped-decorator]
def _planned(
    new: Ints, may_be_left: Ints, prices: Floats, checked: Ints, served: Ints, step_s: float, start_cost: float
) -> tuple[Floats, Choices]:
    """Return the least cost from the first step on, by workers before it and quanta left, and the workers of each step
    by the same two: backward induction, with the minima over fewer and over more workers kept as running ones."""
    steps, most = len(new), len(served)
    ahead, before = np.zeros((most, _MOST_LEFT + 1)), np.zeros((most, _MOST_LEFT + 1))
    chosen = np.zeros((steps, most, _MOST_LEFT + 1), dtype=np.uint8)
    cost, fewer, which_fewer = np.zeros(most), np.zeros(most), np.zeros(most, dtype=np.uint8)
    for step in range(steps - 1, -1, -1):
        for item in range(checked[step], checked[step + 1]):
            ahead[:, max(0, may_be_left[item] + 1) :] += prices[item]
        for left in range(_MOST_LEFT + 1):
            least, which = np.inf, 0
            for workers in range(most):
                after = min(max(left - served[workers] + new[step], 0), _MOST_LEFT)
                cost[workers] = step_s * workers + ahead[workers, after]
                if cost[workers] <= least:
                    least, which = cost[workers], workers
                fewer[workers], which_fewer[workers] = least, which
            least, which = np.inf, 0
            for workers in range(most - 1, -1, -1):
                raised = cost[workers] + start_cost * workers
                if raised <= least:
                    least, which = raised, workers
                more = least - start_cost * workers
                before[workers, left] = min(more, fewer[workers])
                chosen[step, workers, left] = which if more < fewer[workers] else which_fewer[workers]
        ahead, before = before, ahead
    return ahead, chosen


@njit(cache=True)  # type: ignore[untyped-decorator]
def _late(chosen: Choices, new: Ints, may_be_left: Ints, checked: Ints, served: Ints, workers: int) -> Floats:
    """Follow the choices, and return 1 for each checked item that is late."""
    late = np.zeros(len(may_be_left))
    left = 0
    for step in range(len(new)):
        workers = int(chosen[step, workers, left])
        left = min(max(left - served[workers] + new[step], 0), _MOST_LEFT)
        for item in range(checked[step], checked[step + 1]):
            if left > may_be_left[item]:
                late[item] = 1.0
    return late
