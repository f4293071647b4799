"""Search for the cheapest schedule that holds the objective, if the load and all costs are known in advance.

Three kinds are tried on the plant itself, each by bisection over one number, as more workers hold what fewer do:

- one composition all the time;
- a plan: in each step as many workers as finish the items due from then on by their deadlines, times a margin for
  queues, which the plan does not know;
- the square-root rule, with the safety that suits this load best.

The cheapest found schedule can be carried out, so a policy's cost is compared with it; the floor limits what any
schedule can reach. If a policy is cheaper than that, the search can be improved; the policy has not cheated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from compositions.model import Composition
from lab.gym.model import Floats, Groups, Play, compose
from lab.gym.player import play_run
from lab.gym.policies.forms import MakePolicy, apart, merged
from lab.gym.policies.port import Given, Measured, Policy
from lab.gym.policies.square_root import SquareRoot, SquareRootSettings
from lab.gym.score import score_of

_ROOM = (0.75, 0.8, 0.85, 0.9, 0.95, 1.0, 1.05, 1.1, 1.15, 1.2, 1.25, 1.3, 1.4, 1.5, 1.65, 1.8, 2.0, 2.3, 2.7)
"""Margins of a plan that are tried, as factors of the need."""
_BETA = (0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 1.0, 1.3, 1.7, 2.2)
"""Safety factors that are tried: workers beyond the load, in square roots of the load."""
FIXED_ROOM = 1.25
"""Workers of ``peak`` and ``mean``, as a multiple of the workers that their work keeps busy."""
_STEP_S = 0.25
_HORIZON = 20
"""Number of bounds that a plan looks ahead."""


@dataclass(frozen=True, slots=True)
class Found:
    """The cheapest schedule that was found to hold the objective."""

    cost: float
    """Infinite if none holds it."""
    name: str
    fixed: float
    """The cost of the cheapest fixed composition; infinite if none holds it."""


def search(play: Play) -> Found:
    """Return the cheapest schedule of all that are tried."""
    forms = tuple(dict.fromkeys((play.merged, play.apart)))
    fixed = [(_cheapest_fixed(play, groups), groups) for groups in forms]
    (cost, name), groups = min(fixed, key=lambda found: found[0])
    form = apart if groups == play.apart else merged
    others = [
        _cheapest(
            play, _ROOM, lambda room: partial(_Plan, play=play, groups=groups, room=room), "plan, {:g} × the need"
        ),
        _cheapest(
            play,
            _BETA,
            lambda beta: form(partial(SquareRoot, settings=SquareRootSettings(beta=beta))),
            "square root, β {:g}",
        ),
    ]
    return Found(*min((cost, name), *others), fixed=cost)


def _cheapest_fixed(play: Play, groups: Groups) -> tuple[float, str]:
    counts = range(len(groups), play.machine.most_workers + 1)
    cost, name = _cheapest(play, counts, lambda count: partial(Fixed, composition=shared(play, groups, count)), "{:g}")
    return cost, name if math.isinf(cost) else shared(play, groups, int(name)).name


def _cheapest(play: Play, numbers: Sequence[float], make: Callable[..., MakePolicy], name: str) -> tuple[float, str]:
    """Return the cheapest of these schedules that holds; if one holds, so do those with larger numbers."""
    best = (math.inf, "none")
    least, most = 0, len(numbers) - 1
    while least <= most:
        middle = (least + most) // 2
        cost = _cost(play, make(numbers[middle]))
        if cost < best[0]:
            best = (cost, name.format(numbers[middle]))
        least, most = (middle + 1, most) if math.isinf(cost) else (least, middle - 1)
    return best


def shared(play: Play, groups: Groups, workers: int) -> Composition:
    """Return the composition in which groups share this many workers by their work, each at least one."""
    work = dict(zip((stage.name for stage in play.stages), _work_s(play).sum(axis=0).tolist(), strict=True))
    stateful = {stage.name for stage in play.stages if stage.stateful}
    loads = [math.inf if stateful & set(group) else sum(work[stage] for stage in group) for group in groups]
    replicas = [1] * len(groups)
    for _ in range(min(workers, play.machine.most_workers) - len(groups)):
        needs = [0.0 if math.isinf(load) else load / count for load, count in zip(loads, replicas, strict=True)]
        if not any(needs):
            break
        replicas[needs.index(max(needs))] += 1
    return compose(groups, tuple(replicas))


def fixed_for(play: Play, steps_s: float) -> MakePolicy:
    """Return the fixed composition for the busiest period of this length, with merged groups and a margin."""
    work_s = _work_s(play).sum(axis=1)
    steps = np.bincount((play.work.due_s // steps_s).astype(np.int64), weights=work_s)
    workers = math.ceil(FIXED_ROOM * float(steps.max()) / min(steps_s, play.duration_s))
    return partial(Fixed, composition=shared(play, play.merged, max(len(play.merged), workers)))


def _work_s(play: Play) -> Floats:
    """Return the time that a worker of mean speed takes, with a row per item and a column per stage."""
    return play.work.cpu_s / float(np.mean(play.machine.speeds)) + play.work.wait_s


class Fixed(Policy):
    """One composition all the time."""

    def __init__(self, given: Given, composition: Composition) -> None:
        self._composition = composition

    def observe(self, measured: Measured) -> None:
        """Do nothing: the composition never changes."""

    def decide(self) -> Composition:
        return self._composition


class _Plan(Policy):
    """Follow the need of each group, earlier by the start of a worker, and more where items wait all the same."""

    def __init__(self, given: Given, play: Play, groups: Groups, room: float) -> None:
        names = [stage.name for stage in play.stages]
        work_s = _work_s(play)
        start_steps = math.ceil(play.machine.start_s / _STEP_S)
        self._groups, self._most = groups, given.workers
        self._single = [bool(set(group) & set(given.stateful)) for group in groups]
        self._counts: list[Floats] = []
        for group in groups:
            need = room * _need(play, work_s[:, [names.index(stage) for stage in group]].sum(axis=1))
            ahead = _windowed_max(np.ceil(need - 1e-9), start_steps + 4)
            # A gap that is shorter than a start is not worth one: it costs as much to stay.
            self._counts.append(-_windowed_max(-_windowed_max(ahead, start_steps)[::-1], start_steps)[::-1])
        self._item_s = float(work_s.sum(axis=1).mean())
        self._bound_s = play.bound_s
        self._turn = Measured(0.0, 0.0, 0, None, 0, ())

    def observe(self, measured: Measured) -> None:
        self._turn = measured

    def decide(self) -> Composition:
        step = min(int(self._turn.at_s / _STEP_S), len(self._counts[0]) - 1)
        more = int(self._turn.backlog * self._item_s / self._bound_s)
        replicas = [
            1 if one else max(1, int(counts[step]) + more)
            for one, counts in zip(self._single, self._counts, strict=True)
        ]
        while sum(replicas) > self._most and max(replicas) > 1:
            replicas[replicas.index(max(replicas))] -= 1
        return compose(self._groups, tuple(replicas))


def _need(play: Play, work_s: Floats) -> Floats:
    """Return, for each step, the workers with which all items due from it on are finished by their deadlines.

    Items that are due within a time after the step have until the bound after that time.
    """
    steps = math.ceil(play.duration_s / _STEP_S)
    due = np.minimum((play.work.due_s / _STEP_S).astype(np.int64), steps - 1)
    came_s = np.concatenate([[0.0], np.cumsum(np.bincount(due, weights=work_s, minlength=steps))])
    need = np.zeros(steps)
    for ahead in np.unique(np.geomspace(1, max(2, _HORIZON * play.bound_s / _STEP_S), 24).astype(np.int64)):
        until = np.minimum(np.arange(steps) + ahead, steps)
        need = np.maximum(need, (came_s[until] - came_s[:-1]) / (ahead * _STEP_S + play.bound_s))
    return need


def _windowed_max(values: Floats, steps: int) -> Floats:
    """Return the maximum of each value and this many values after it."""
    padded = np.concatenate([values, np.full(steps, values[-1])])
    greatest: Floats = np.lib.stride_tricks.sliding_window_view(padded, steps + 1).max(axis=1)
    return greatest


def _cost(play: Play, make: MakePolicy) -> float:
    """Return the cost of a schedule; infinite if the objective does not hold."""
    score = score_of(play_run(play, make, gives_up=True))
    return score.cost if score.holds else math.inf
