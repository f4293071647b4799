"""The rule's inputs at a turn (a tick of the manager), the plans that it compares, and its choice."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from control.rule.grouping import Grouping
from control.rule.stream import Array


@dataclass(frozen=True, slots=True)
class Goal:
    """One objective: at least ``share`` of the items must be delivered within ``bound_s`` after they were due."""

    bound_s: float
    share: float
    per_s: float | None = None
    """Throughput objective in items/s; items beyond this rate may be late. None: the goal is a latency."""
    of_mean: bool = False
    """True if the bound is on the mean latency: an item then counts as late in proportion to its wait."""
    tolerance: float = 1.0
    """Multiple of the bound beyond which the objective counts as missed."""

    @property
    def most_per_s(self) -> float:
        return math.inf if self.per_s is None else self.per_s

    @property
    def tolerated(self) -> Goal:
        """The goal with the bound beyond which the objective counts as missed."""
        return replace(self, bound_s=self.bound_s * self.tolerance)


@dataclass(frozen=True, slots=True)
class Seen:
    """One turn of the stream. Arrays have one value per stage."""

    at_s: float
    elapsed_s: float
    arrived: float
    done: Array
    busy_s: Array
    delivered: float
    late: Sequence[float]
    """Number of late items, by goal."""
    alive: int = 0
    """Number of running workers."""
    set_per_s: float | None = None
    """Rate of a source with a schedule, in items/s; None without one."""
    full: bool = False
    """True if no worker is idle for lack of items."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Groups of stages with their replicas."""

    grouping: Grouping
    replicas: tuple[int, ...]
    bundle: int | None = None
    """Bundle size that the composition sets itself; None if it sets none."""

    @property
    def workers(self) -> int:
        return sum(self.replicas)


class Listing:
    """The plans that a user's list allows, ordered so that plans with the same groups are adjacent."""

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
        """Return the plans nearest to their groups' ``need``; a missing worker counts four times a spare one."""
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
    """Measured costs of an item beside its time in the stages: hops, bundles, and shares of CPU and GPU time."""

    hop_s: float = 0.0
    """Time of a hop between two groups, in seconds, during which the worker is idle."""
    together: float = 1.0
    """Present mean bundle size, in items."""
    most_together: float = 1.0
    """Bundle size if many items wait."""
    cpu_share: Sequence[float] = ()
    """Share of a stage's time in which it uses a core, by stage; empty if unknown."""
    gpu_share: Sequence[float] = ()
    """Share of a stage's time in which it uses a GPU exclusively, by stage; empty if unknown."""
    gpus: Sequence[float] = ()
    """GPUs that a worker with the stage reserves (may be a fraction), by stage."""

    def hop_of_item_s(self, bundle: int | None = None) -> float:
        """Return an item's part of a hop in bundles of ``bundle`` items; None: in the largest that may form."""
        return self.hop_s / max(1.0, self.most_together if bundle is None else bundle)


@dataclass(frozen=True, slots=True)
class Now:
    """The present: the active plan, the goals, and the limits of the choice."""

    active: Plan
    alive: int
    """Number of running workers."""
    backlog: float
    """Number of items that no worker has begun."""
    inside: Sequence[float]
    """Number of items in the pipeline, by the stage that they need next."""
    goals: tuple[Goal, ...]
    most_workers: int
    start_s: float
    """Time that a worker takes to start."""
    cores: float = math.inf
    """Number of cores that all workers share."""
    announced: tuple[tuple[float, float, float], ...] = ()
    """Planned loads: begin and end in seconds from now, and rate in items/s."""
    listed: Listing | None = None
    """Plans that may be chosen; None: all possible ones."""
    costing: Costing = Costing()
    room: Sequence[float] = ()
    """Number of workers with the stage that fit on the nodes, by stage; empty: unlimited."""

    @property
    def empty(self) -> Now:
        """The same without items that wait or are in the pipeline."""
        return replace(self, backlog=0.0, inside=(0.0,) * len(self.inside))


@dataclass(frozen=True, slots=True)
class Costs:
    """A plan with its expected costs over the horizon, in worker-seconds."""

    plan: Plan
    workers: float
    late: float
    change: float
    late_shares: tuple[float, ...]
    """Share of late items among those that arrive within the horizon, by goal."""
    latency_s: float
    """Predicted mean of the latency, or the quantile that the first goal names, in seconds."""
    kept_up: float = 1.0
    """Part of the load that the bottleneck group can process; 1: all of it."""

    @property
    def total(self) -> float:
        return self.workers + self.late + self.change

    def attained(self, goals: Sequence[Goal]) -> float:
        """Return the attained part of the goal that is met worst; 1: all goals are met. For a throughput goal, the
        processed part of the load counts too: items of a long queue are late, but delivered."""
        in_time = [min(1.0, (1 - late) / goal.share) for late, goal in zip(self.late_shares, goals, strict=True)]
        kept = [0.0 if goal.per_s is None else min(1.0, self.kept_up / goal.share) for goal in goals]
        return min((max(pair) for pair in zip(in_time, kept, strict=True)), default=1.0)

    def keeps(self, goals: Sequence[Goal], part: float) -> bool:
        """Return True if the plan lasts and, for each goal, at most ``part`` of the allowed late items are late."""
        pairs = zip(self.late_shares, goals, strict=True)
        return self.lasts(goals) and all(late <= part * (1 - goal.share) + 1e-9 for late, goal in pairs)

    def lasts(self, goals: Sequence[Goal]) -> bool:
        """Return True if no queue grows without limit, however slowly. Above a rate that is a goal, it may."""
        return self.kept_up >= max(1.0 if math.isinf(goal.most_per_s) else goal.share for goal in goals)


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen plan and the best plans that were compared with it."""

    chosen: Costs
    others: tuple[Costs, ...]
    """The best other plans; the active plan comes first unless it is chosen."""
    horizon_s: float
    hopeless: bool = False
    """True if no allowed plan would meet the goals in the long run."""
