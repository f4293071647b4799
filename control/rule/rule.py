"""The rule: of all compositions the one whose workers, late items and change cost least over the horizon.

    J(c) = workers of c · horizon + price · late items expected under c + cost of the change to c

Costs are in worker-seconds, or in dearer ones where a worker needs more than a core. The horizon is the time until a
worker that is asked for now has started and an item that comes then is due.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from control.rule.grouping import Grouping, StageFacts, cheapest, grouping_cost, staffed, worker_price
from control.rule.price import Price
from control.rule.queueing import GroupNow, ItemTime, waits
from control.rule.settings import RuleSettings
from control.rule.stream import Array, Futures, Stream

_ENOUGH = 5
"""Items of each stage before anything is chosen."""
_ALL_COUNTED = 16
"""Up to so many workers each number of replicas is looked at, beyond it those near the present and some others."""
_SCREENED = 50
"""Compositions of a user's list that are looked at under all futures: those nearest to what the mean load needs."""
_UNLIMITED = 1e9


@dataclass(frozen=True, slots=True)
class Seen:
    """One turn of the stream. Arrays have a value a stage."""

    at_s: float
    elapsed_s: float
    arrived: float
    done: Array
    busy_s: Array
    delivered: float
    late: float


@dataclass(frozen=True, slots=True)
class Plan:
    """Groups of stages with their replicas."""

    grouping: Grouping
    replicas: tuple[int, ...]

    @property
    def workers(self) -> int:
        return sum(self.replicas)


class Listing:
    """The plans that a user's list allows, by grouping."""

    def __init__(self, plans: Iterable[Plan]) -> None:
        by_grouping: dict[Grouping, list[tuple[int, ...]]] = {}
        for plan in plans:
            by_grouping.setdefault(plan.grouping, []).append(plan.replicas)
        self.replicas = {grouping: np.array(counts) for grouping, counts in by_grouping.items()}

    def near(self, needs: Callable[[Grouping], Sequence[float]], most_workers: int, count: int) -> list[Plan]:
        """Return the plans nearest to what their groups need: what a group lacks counts four times."""
        found: list[tuple[float, Plan]] = []
        for grouping, replicas in self.replicas.items():
            room = replicas - np.array(needs(grouping))
            far = np.where(room > 0, room, -4 * room).sum(axis=1) + 0.1 * len(grouping)
            far[replicas.sum(axis=1) > most_workers] = np.inf
            nearest = np.argsort(far, kind="stable")[:count]
            found += [(float(far[row]), Plan(grouping, tuple(replicas[row].tolist()))) for row in nearest.tolist()]
        ranked = sorted((each for each in found if each[0] < math.inf), key=lambda each: each[0])
        return [plan for _, plan in ranked[:count]]


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
    bound_s: float
    share: float
    """So many of the items have to be within the bound."""
    most_workers: int
    start_s: float
    """Time that a worker takes to start."""
    announced: tuple[tuple[float, float, float], ...] = ()
    """Loads that are to come: from and until, in seconds from now, and items/s."""
    listed: Listing | None = None
    """What may be chosen; None: whatever can be composed."""


@dataclass(frozen=True, slots=True)
class Costs:
    """A plan and what it would cost over the horizon, in worker-seconds."""

    plan: Plan
    workers: float
    late: float
    change: float
    late_share: float
    """Of the items that arrive within the horizon."""
    latency_s: float
    """Within which the share of the items would be that the objective names."""

    @property
    def total(self) -> float:
        return self.workers + self.late + self.change


@dataclass(frozen=True, slots=True)
class Choice:
    """What is chosen, and what was compared."""

    chosen: Costs
    others: tuple[Costs, ...]
    """The best of the rest; the present one is among them unless it is chosen."""
    horizon_s: float
    price_s: float
    """Of a late item, in worker-seconds."""


class Rule:
    """One app. Pure: the same turns give the same choices."""

    def __init__(self, stages: Sequence[StageFacts], settings: RuleSettings | None = None) -> None:
        self._stages, self._settings = tuple(stages), settings or RuleSettings()
        self.stream, self.price = Stream(len(stages), self._settings), Price(self._settings)
        self._wanted = deque[tuple[float, Costs]]()
        self._at_s, self._asked_s, self._regrouped_s = 0.0, -math.inf, -math.inf

    def observe(self, seen: Seen, share: float) -> None:
        """Note a turn; ``share``: of items that have to be in time."""
        self._at_s = seen.at_s
        self.stream.add(seen.elapsed_s, seen.arrived, seen.done, seen.busy_s)
        window_s = min(seen.at_s, self._settings.window_s)
        expected = 0.5 * self.stream.slow_per_s * window_s
        self.price.add(seen.at_s, seen.elapsed_s, seen.delivered, seen.late, expected, share)

    def choose(self, now: Now) -> Choice | None:
        """Return the choice for the next turns; None while too little is known of the stages."""
        if self.stream.known < _ENOUGH:
            return None
        start_s = self._settings.start_share * now.start_s
        horizon_s = start_s + now.bound_s + self._settings.beyond_s
        futures = self.stream.futures(horizon_s).announced(now.announced)
        weighing = _Weighing(self, now, futures)
        found = weighing.of_list(now.listed) if now.listed is not None else weighing.composed()
        found = [each for each in found if each.plan.workers <= now.most_workers] or found
        wanted = min(found, key=lambda costs: costs.total)
        chosen = self._held(wanted, {each.plan: each for each in found}, now)
        others = sorted((each for each in found if each.plan != chosen.plan), key=lambda costs: costs.total)
        present = [each for each in others if each.plan == now.active]
        told = dict.fromkeys((*present, *others))
        return Choice(chosen, tuple(told)[:4], weighing.horizon_s, weighing.price_s)

    def changed(self, plan: Plan, active: Plan) -> None:
        """Note that ``plan`` was asked for."""
        if plan.workers > active.workers:
            self._asked_s = self._at_s
        if plan.grouping != active.grouping:
            self._regrouped_s = self._at_s
            self._wanted.clear()

    def worker_cost(self, plan: Plan) -> float:
        """Return the cost of the plan's workers a second."""
        priced = zip(plan.grouping, plan.replicas, strict=True)
        return float(sum(worker_price(self._stages, group) * count for group, count in priced))

    def _held(self, wanted: Costs, found: Mapping[Plan, Costs], now: Now) -> Costs:
        """Return what is wanted; where that is less than there is, the most that was wanted of late."""
        while self._wanted and self._wanted[0][0] < self._at_s - self._settings.held_s:
            self._wanted.popleft()
        self._wanted.append((self._at_s, wanted))
        if wanted.plan.grouping != now.active.grouping or wanted.plan.workers > now.active.workers:
            return wanted
        kept = [found.get(costs.plan, costs) for _, costs in self._wanted if self._allowed(costs.plan, found, now)]
        return max(kept, key=lambda costs: self.worker_cost(costs.plan), default=wanted)

    @staticmethod
    def _allowed(plan: Plan, found: Mapping[Plan, Costs], now: Now) -> bool:
        """Return whether a plan that was wanted of late may still be had: limit and list may have changed since."""
        alike = plan.grouping == now.active.grouping and plan.workers <= now.most_workers
        return alike and (now.listed is None or plan in found)


class _Weighing:
    """What compositions would cost under the futures of one turn."""

    def __init__(self, rule: Rule, now: Now, futures: Futures) -> None:
        self._rule, self._now, self._futures = rule, now, futures
        self._stages, self._settings = rule._stages, rule._settings
        self._each_s = rule.stream.each_s.tolist()
        self._item = ItemTime.of(rule.stream.work_s, rule.stream.cv)
        self._rate_per_s = float(futures.items.mean()) / futures.step_s
        self.horizon_s: float = futures.step_s * futures.items.shape[1]
        self.price_s = rule.price.in_work * rule.stream.work_s

    def composed(self) -> list[Costs]:
        """Weigh the present groups, and the cheapest others if they save enough, with all numbers of replicas."""
        now, grouping = self._now, self._now.active.grouping
        found = self._searched(grouping, list(now.active.replicas))
        stream = self._rule.stream
        loads = (stream.each_s * max(stream.slow_per_s, stream.rate_per_s)).tolist()
        other = cheapest(self._stages, loads)
        here = grouping_cost(self._stages, loads, grouping)
        saved = here - grouping_cost(self._stages, loads, other)
        if other != grouping and saved > self._settings.regroup * here and self._may_regroup:
            found += self._searched(other, self._staffed(other))
        return found

    def of_list(self, listed: Listing) -> list[Costs]:
        """Weigh the compositions of a user's list that are nearest to the need."""
        active = self._now.active
        by_grouping: dict[Grouping, list[tuple[int, ...]]] = {active.grouping: [active.replicas]}
        for plan in listed.near(self._needs, self._now.most_workers, _SCREENED):
            if plan != active and (plan.grouping == active.grouping or self._may_regroup):
                by_grouping.setdefault(plan.grouping, []).append(plan.replicas)
        return [costs for grouping, counts in by_grouping.items() for costs in self._weighed(grouping, counts)]

    def _needs(self, grouping: Grouping) -> list[float]:
        return [1.0 if self._alone(group) else staffed(self._load(group)) for group in grouping]

    @property
    def _may_regroup(self) -> bool:
        pause_s = 5 * self._now.start_s + 10
        return self._rule._at_s - self._rule._regrouped_s > pause_s

    def _alone(self, group: Sequence[int]) -> bool:
        return any(self._stages[index].alone for index in group)

    def _load(self, group: Sequence[int]) -> float:
        return self._rate_per_s * sum(self._each_s[index] for index in group)

    def _staffed(self, grouping: Grouping) -> list[int]:
        """Return about what the mean load needs, within the limit of workers."""
        replicas = [math.ceil(need - 0.5) for need in self._needs(grouping)]
        while sum(replicas) > self._now.most_workers and max(replicas) > 1:
            replicas[replicas.index(max(replicas))] -= 1
        return replicas

    def _searched(self, grouping: Grouping, replicas: list[int]) -> list[Costs]:
        """Improve the replicas of one group after the other, twice where there are several."""
        found: dict[Plan, Costs] = {}
        if len(grouping) > 1:  # where several groups are short, more for one of them alone is in vain
            begins = [tuple(replicas), tuple(self._staffed(grouping))]
            replicas = list(min(self._weighed(grouping, begins), key=lambda costs: costs.total).plan.replicas)
        for _ in range(1 if len(grouping) == 1 else 2):
            before = list(replicas)
            for at, group in enumerate(grouping):
                most = self._now.most_workers - sum(replicas) + replicas[at]
                counts = [1] if self._alone(group) else self._counts(group, replicas[at], most)
                weighed = self._weighed(grouping, [(*replicas[:at], count, *replicas[at + 1 :]) for count in counts])
                found.update((each.plan, each) for each in weighed)
                replicas[at] = min(weighed, key=lambda costs: costs.total).plan.replicas[at]
            if replicas == before:
                break
        return list(found.values())

    def _counts(self, group: Sequence[int], present: int, most: int) -> list[int]:
        most = max(1, most)
        if most <= _ALL_COUNTED:
            return list(range(1, most + 1))
        need = self._load(group)
        counts = {*range(present - 3, present + 5), int(need), int(need) + 1, int(1.2 * need) + 1, most}
        counts.update(round(count) for count in np.geomspace(1, most, 14).tolist())
        return sorted(count for count in counts if 1 <= count <= most)

    def _weighed(self, grouping: Grouping, counts: Sequence[tuple[int, ...]]) -> list[Costs]:
        """Return what these numbers of replicas would cost."""
        now, futures, settings = self._now, self._futures, self._settings
        table = np.array(counts, dtype=np.float64)
        slack_s = max(0.0, now.bound_s - self._item.long_s)
        wait_s = np.zeros((len(counts), *futures.items.shape))
        left = np.zeros(len(counts))
        for at, group in enumerate(grouping):
            replicas, rows = np.unique(table[:, at], return_inverse=True)
            each_s = max(sum(self._each_s[index] for index in group), 1e-9)
            group_wait_s, left_s = waits(self._group(group), replicas, futures, each_s, now.start_s)
            wait_s += group_wait_s[rows]
            over = np.maximum(0.0, left_s - replicas[:, None] * slack_s).mean(axis=1) / each_s
            left += (over / (1 - np.minimum(self._load(group) / replicas, 0.9)))[rows]
        late = (self._item.beyond(now.bound_s - wait_s) * futures.items[None]).sum(axis=2).mean(axis=1)
        coming = max(float(futures.items.sum(axis=1).mean()), 1e-9)
        latency_s = np.quantile(wait_s.reshape(len(counts), -1), now.share, axis=1) + self._rule.stream.work_s
        found = []
        for row, replicas_of in enumerate(counts):
            plan = Plan(grouping, replicas_of)
            share = min(1.0, float(late[row]) / coming)
            costs = Costs(
                plan,
                self._rule.worker_cost(plan) * self.horizon_s,
                self.price_s * float(late[row] + left[row]),
                self._change(plan, settings),
                share,
                float(latency_s[row]),
            )
            found.append(costs)
        return found

    def _change(self, plan: Plan, settings: RuleSettings) -> float:
        """Return the cost of going there: half of a start is lost, and other groups have to drain."""
        active = self._now.active
        if plan == active:
            return 0.0
        dearer = self._rule.worker_cost(plan) - self._rule.worker_cost(active)
        starts = 0.5 * self._now.start_s * max(0.0, dearer)
        if plan.grouping == active.grouping:
            return settings.change + starts
        return settings.change + starts + settings.regroup * self.horizon_s * self._rule.worker_cost(active)

    def _group(self, group: tuple[int, ...]) -> GroupNow:
        """Return the group as it is, or as it would be; what has not begun waits for the group that is fullest."""
        now = self._now
        if group not in now.active.grouping:
            inside = sum(now.inside[index] for index in group)
            backlog = now.backlog if group[0] == 0 else 0.0
            return GroupNow(group, int(_UNLIMITED), int(_UNLIMITED), inside + backlog, 0.0)
        active = now.active
        used = [self._load(each) / count for each, count in zip(active.grouping, active.replicas, strict=True)]
        at = active.grouping.index(group)
        inside = sum(now.inside[index] for index in group) + (now.backlog if at == used.index(max(used)) else 0.0)
        replicas = active.replicas[at]
        missing = max(0, active.workers - now.alive)
        ready = max(0, replicas - missing) if at == active.replicas.index(max(active.replicas)) else replicas
        asked_s = self._rule._at_s - self._rule._asked_s
        missing_s = max(self._futures.step_s, now.start_s - asked_s) if ready < replicas else 0.0
        return GroupNow(group, replicas, ready, inside, missing_s)
