"""Define what the rule is told at a turn, the plans that it compares, and its choice."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from control.rule.grouping import Grouping
from control.rule.stream import Array


@dataclass(frozen=True, slots=True)
class Goal:
    """One objective: a share of the items has to be out within a bound after they were due."""

    bound_s: float
    share: float
    per_s: float | None = None
    """For a throughput: more items per second need not be met. None: the goal is a latency."""
    of_mean: bool = False
    """The mean is to be within the bound: an item counts as late in proportion to its wait."""
    tolerance: float = 1.0
    """Multiple of the bound beyond which the objective counts as missed."""

    @property
    def most_per_s(self) -> float:
        return math.inf if self.per_s is None else self.per_s

    @property
    def tolerated(self) -> Goal:
        """Return the goal that is missed where the objective is."""
        return replace(self, bound_s=self.bound_s * self.tolerance)


@dataclass(frozen=True, slots=True)
class Seen:
    """One turn of the stream. Arrays have a value a stage."""

    at_s: float
    elapsed_s: float
    arrived: float
    done: Array
    busy_s: Array
    delivered: float
    late: Sequence[float]
    """Share of late items, by goal."""
    alive: int = 0
    """Workers that are there."""
    set_per_s: float | None = None
    """Rate of a source with a schedule."""
    full: bool = False
    """No worker lacks items."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Groups of stages with their replicas."""

    grouping: Grouping
    replicas: tuple[int, ...]
    bundle: int | None = None
    """Items that may travel together, where the composition says so itself."""

    @property
    def workers(self) -> int:
        return sum(self.replicas)


class Listing:
    """The plans that a user's list allows, those with the same groups side by side."""

    def __init__(self, plans: Iterable[Plan]) -> None:
        by_kind: dict[tuple[Grouping, int | None], list[Plan]] = {}
        for plan in plans:
            by_kind.setdefault((plan.grouping, plan.bundle), []).append(plan)
        self._plans = [plan for each in by_kind.values() for plan in each]
        numbers = {group: at for at, group in enumerate({group for plan in self._plans for group in plan.grouping})}
        width = max((len(plan.grouping) for plan in self._plans), default=0)
        self._groups, self._at = tuple(numbers), np.full((width, len(self._plans)), len(numbers))
        self._replicas = np.zeros((width, len(self._plans)))
        for column, plan in enumerate(self._plans):
            self._at[: len(plan.grouping), column] = [numbers[group] for group in plan.grouping]
            self._replicas[: len(plan.grouping), column] = plan.replicas
        self._workers = self._replicas.sum(axis=0)
        self._hops = 0.1 * np.count_nonzero(self._replicas, axis=0)

    def near(self, need: Callable[[Sequence[int]], float], most_workers: int, count: int) -> list[Plan]:
        """Return the plans nearest to what their groups ``need``: what a group lacks counts four times."""
        needs, far = np.array([*map(need, self._groups), 0.0]), np.zeros(len(self._plans))
        for replicas, at in zip(self._replicas, self._at, strict=True):
            room = replicas - needs[at]
            far += np.maximum(room, -4 * room)
        far += self._hops
        far[self._workers > most_workers] = np.inf
        limit = np.partition(far, count - 1)[count - 1] if count < len(far) else np.inf
        nearest = np.flatnonzero((far <= limit) & (far < np.inf))
        return [self._plans[at] for at in nearest[np.argsort(far[nearest], kind="stable")][:count].tolist()]


@dataclass(frozen=True, slots=True)
class Costing:
    """What a turn showed of the way of an item beside its time in the stages."""

    hop_s: float = 0.0
    """Cost of a hop between two groups, during which the worker has nothing to do."""
    together: float = 1.0
    """Items that travel together now, on average."""
    most_together: float = 1.0
    """Largest number of items that travel together if many wait."""
    cpu_share: Sequence[float] = ()
    """The share of its time in which a stage computes, by stage; empty: nothing is known of it."""
    gpu_share: Sequence[float] = ()
    """The share of its time in which it has its GPU to itself, by stage; empty: nothing is known of GPUs."""
    gpus: Sequence[float] = ()
    """The share of a GPU that a worker with it reserves, by stage."""

    def hop_of_item_s(self, bundle: int | None = None) -> float:
        """Return the part of a hop that one of ``bundle`` items pays where many wait; None: as it is now."""
        return self.hop_s / max(1.0, self.most_together if bundle is None else bundle)


@dataclass(frozen=True, slots=True)
class Now:
    """What runs, what is asked for, and what may be had."""

    active: Plan
    alive: int
    """Workers that are there."""
    backlog: float
    """Items that no worker has begun."""
    inside: Sequence[float]
    """Items inside, by the stage that they need next."""
    goals: tuple[Goal, ...]
    most_workers: int
    start_s: float
    """Time that a worker takes to start."""
    cores: float = math.inf
    """Cores that all workers share."""
    announced: tuple[tuple[float, float, float], ...] = ()
    """Loads that are to come: from and until, in seconds from now, and items/s."""
    listed: Listing | None = None
    """What may be chosen; None: whatever can be composed."""
    costing: Costing = Costing()
    room: Sequence[float] = ()
    """Workers with this stage that the nodes could hold, by stage; empty: as many as one likes."""


@dataclass(frozen=True, slots=True)
class Costs:
    """A plan and what it would cost over the horizon, in worker-seconds."""

    plan: Plan
    workers: float
    late: float
    change: float
    late_shares: tuple[float, ...]
    """Of the items that arrive within the horizon, by goal."""
    latency_s: float
    """Latency within which the share of the items that the first goal names would be."""
    kept_up: float = 1.0
    """The part of the load that the group with the least workers for it can take."""

    @property
    def total(self) -> float:
        return self.workers + self.late + self.change

    def attained(self, goals: Sequence[Goal]) -> float:
        """Return how well the goal that is met worst would be: 1 is all of it. A throughput is met as far as the
        workers take the load: who is behind for long is late with everything, and what comes out is still worth
        something."""
        in_time = [min(1.0, (1 - late) / goal.share) for late, goal in zip(self.late_shares, goals, strict=True)]
        kept = [0.0 if goal.per_s is None else min(1.0, self.kept_up / goal.share) for goal in goals]
        return min((max(pair) for pair in zip(in_time, kept, strict=True)), default=1.0)

    def keeps(self, goals: Sequence[Goal], part: float) -> bool:
        """Return whether no goal would use up more than a part of the late items that it allows."""
        pairs = zip(self.late_shares, goals, strict=True)
        return all(late <= part * (1 - goal.share) + 1e-9 for late, goal in pairs)


@dataclass(frozen=True, slots=True)
class Choice:
    """What is chosen, and what was compared."""

    chosen: Costs
    others: tuple[Costs, ...]
    """The best of the rest; the present one is among them unless it is chosen."""
    horizon_s: float
    hopeless: bool = False
    """Nothing that may be chosen would meet the goals in the long run."""
