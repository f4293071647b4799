"""Compute the floor: no schedule of workers, however it is found, holds the objective at a lower cost.

It is the optimum of an easier problem, in which the load and all costs are known beforehand: any worker may work on
any item, several on one as well, hops take nothing, and the machine never slows down. What remains is what nobody can
evade: the work itself, whole workers, the start of each, items in order, and the share that may be late.

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
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lab.gym.model import Floats, Ints, Play, Windows, windows_of

_QUANTA = 2
"""Into so many the work of one worker in a step is cut."""
_MOST_LEFT = 200
"""Quanta of work; what exceeds them is forgotten, which lowers the floor."""
_ROUNDS = 16


@dataclass(frozen=True, slots=True)
class Floor:
    """The least cost, and the workers at work in each step by which the easier problem reaches it."""

    cost: float
    """Workers alive, by what they cost, on average over the judged time."""
    workers: Ints
    step_s: float
    from_s: float


def floor_of(play: Play, *, inflated: float = 1.0, rounds: int = _ROUNDS) -> Floor:
    """Return the floor of a play; with ``inflated`` times the work it is a plan with some room, and no floor."""
    windows = windows_of(play)
    problem = _Problem(play, windows, inflated)
    prices = np.full(len(windows.starts_s), 2.0 * problem.mean_s)
    best, workers = -math.inf, np.zeros(problem.steps, dtype=np.int64)
    for number in range(rounds):
        value, plan, late = problem.solve(prices)
        if value > best:
            best, workers = value, plan
        excess = np.clip((late - problem.allowed) / np.maximum(1.0, problem.allowed), -1.0, 2.0)
        prices = prices * np.exp(0.7 / (1 + number / 4) * excess)
    priced = any(stage.price for stage in play.stages)
    cost = max(0.0 if priced else best / windows.judged_s, _work_alone(play, windows))
    return Floor(cost, workers, problem.step_s, windows.starts_s[0])


def _work_alone(play: Play, windows: Windows) -> float:
    """Return what the work costs, on workers that do nothing else, up to the last item that has to be in time."""
    rates = np.array([1 + stage.price for stage in play.stages], dtype=np.float64) / max(play.machine.speeds)
    work_s = (play.work.cpu_s + play.work.wait_s) @ rates
    judged = np.flatnonzero(windows.of_item >= 0)
    last = judged[windows.of_item[judged] == windows.of_item[judged].max()] if judged.size else judged
    needed = judged[: judged.size - math.floor((1 - play.share) * last.size + 1e-9)]
    return float(work_s[needed].sum()) / windows.judged_s


class _Problem:
    """The easier problem of a play, for one price a late item in each window."""

    def __init__(self, play: Play, windows: Windows, inflated: float) -> None:
        machine, from_s = play.machine, windows.starts_s[0]
        self.step_s = min(max(0.25, play.bound_s / 4), max(machine.start_s / 2, 0.05))
        self.steps = math.ceil(windows.judged_s / self.step_s)
        self.start_cost = max(0.0, machine.start_s - 2 * self.step_s)
        self.allowed: Floats = np.floor((1 - play.share) * windows.items + 1e-9)
        self._most = machine.most_workers
        waits = bool(play.work.wait_s.any())
        fastest = machine.most_workers if waits else min(machine.cores, machine.most_workers)
        judged = windows.of_item >= 0
        work_s = inflated * (play.work.cpu_s + play.work.wait_s).sum(axis=1)[judged] / max(machine.speeds)
        self.mean_s = float(work_s.mean()) if work_s.size else 0.0
        upto = np.floor(np.cumsum(work_s) / (self.step_s / _QUANTA) + 1e-9).astype(np.int64)
        came = np.minimum(((play.work.due_s[judged] - from_s) / self.step_s).astype(np.int64), self.steps - 1)
        arrived = np.zeros(self.steps, dtype=np.int64)
        np.maximum.at(arrived, came, upto)
        arrived = np.maximum.accumulate(arrived)
        self._new = np.diff(arrived, prepend=0).tolist()
        due = came + math.ceil(play.bound_s / self.step_s)
        self._window = windows.of_item[judged]
        """Of each item that is checked, and below: when, and how much may be left then."""
        kept = due < self.steps
        self._window, due, upto = self._window[kept], due[kept], upto[kept]
        self._left = arrived[due] - upto
        self._checked = np.searchsorted(due, np.arange(self.steps + 1)).tolist()
        served = np.minimum(np.arange(self._most + 1), fastest) * _QUANTA
        self._after = np.arange(_MOST_LEFT + 1)[None, :] - served[:, None]

    def solve(self, prices: Floats) -> tuple[float, Ints, Floats]:
        """Return the dual value in worker-seconds, a plan that reaches it, and its late items by window."""
        counts = np.arange(self._most + 1, dtype=np.float64)[:, None]
        left = np.arange(_MOST_LEFT + 1)
        ahead = np.zeros((self._most + 1, _MOST_LEFT + 1))
        chosen = np.zeros((self.steps, *ahead.shape), dtype=np.uint8)
        rows = np.arange(self._most + 1, dtype=np.uint8)[:, None]
        item_prices = prices[self._window]
        for step in range(self.steps - 1, -1, -1):
            begin, end = self._checked[step], self._checked[step + 1]
            if end > begin:
                over = left[:, None] > self._left[begin:end]
                ahead = ahead + over @ item_prices[begin:end]
            after = np.clip(self._after + self._new[step], 0, _MOST_LEFT)
            cost = self.step_s * counts + np.take_along_axis(ahead, after, axis=1)
            fewer = np.minimum.accumulate(cost, axis=0)
            raised = cost + self.start_cost * counts
            more = np.minimum.accumulate(raised[::-1], axis=0)[::-1]
            which_fewer = np.maximum.accumulate(np.where(cost <= fewer, rows, 0), axis=0)
            which_more = np.minimum.accumulate(np.where(raised <= more, rows, 255)[::-1], axis=0)[::-1]
            more = more - self.start_cost * counts
            chosen[step] = np.where(more < fewer, which_more, which_fewer)
            ahead = np.minimum(fewer, more)
        first = int(np.argmin(ahead[:, 0] - self.step_s * counts[:, 0]))
        value = float(ahead[first, 0]) - self.step_s * first - float(prices @ self.allowed)
        return value, *self._follow(chosen, first)

    def _follow(self, chosen: npt.NDArray[np.uint8], first: int) -> tuple[Ints, Floats]:
        plan, late = np.zeros(self.steps, dtype=np.int64), np.zeros(len(self.allowed))
        workers, left = first, 0
        for step in range(self.steps):
            workers = int(chosen[step, workers, left])
            left = int(np.clip(self._after[workers, left] + self._new[step], 0, _MOST_LEFT))
            plan[step] = workers
            begin, end = self._checked[step], self._checked[step + 1]
            for item in range(begin, end):
                late[self._window[item]] += left > self._left[item]
        return plan, late
