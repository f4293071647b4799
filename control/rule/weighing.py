"""Compare plans: choose the plans to compare at a turn, and compute the cost of each under the possible futures."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from typing import NamedTuple

import numpy as np

from compositions.capacity.costs import devices
from control.rule.grouping import Grouping, StageFacts, cheapest, grouping_cost, most_of, staffed, worker_price
from control.rule.plans import Costs, Listing, Now, Plan
from control.rule.queueing import GroupNow, ItemTime, waits
from control.rule.settings import RuleSettings
from control.rule.stream import Array, Futures

_ALL_COUNTED = 16
"""Largest group for which every number of replicas is considered; for larger ones, near numbers and a few others."""
_SCREENED = 20
"""Number of compositions of a user's list that are compared for each of three loads."""
_POINTS = 129
"""Number of waits for which the share of late items is computed; between them the share is interpolated."""


@dataclass(frozen=True, slots=True)
class History:
    """The rule's memory: the time since workers were requested, whether groups may change again, and prices."""

    asked_ago_s: float
    may_regroup: bool
    prices_s: Sequence[float]
    """Price of a late item, in worker-seconds, by goal."""
    most_per_s: float = math.inf
    """Rate beyond which more workers do not raise the throughput, in items/s."""


class _Queue(NamedTuple):
    """The queue of a group with a number of workers."""

    wait_s: Array
    """An arriving item's wait, by future and step."""
    late_after: Sequence[float]
    """Number of items that are late after the horizon, by goal."""
    kept_up: float
    """Part of the load that the group can process."""


_Key = tuple[tuple[int, ...], float, float, float]
"""A group, an item's part of a hop in seconds, and numbers of workers: all, and those that can be busy."""


def worker_cost(stages: Sequence[StageFacts], plan: Plan) -> float:
    """Return the cost of the plan's workers, in worker-seconds per second."""
    priced = zip(plan.grouping, plan.replicas, strict=True)
    return float(sum(worker_price(stages, group) * count for group, count in priced))


class Weighing:
    """The comparison of plans at one turn."""

    def __init__(
        self,
        stages: Sequence[StageFacts],
        settings: RuleSettings,
        now: Now,
        cv: float,
        futures: Futures,
        history: History,
    ) -> None:
        """``cv``: coefficient of variation of an item's time in all stages."""
        self._stages, self._settings, self._now, self._futures = stages, settings, now, futures
        self._history = history
        self._queues: dict[_Key, _Queue] = {}
        self._rooms: dict[tuple[tuple[int, ...], float], float] = {}
        self._each_s: list[float] = futures.mean_s.tolist()
        self._rate_per_s = float(futures.items.mean()) / futures.step_s
        stretch = [stage.at_once * max(1.0, now.costing.together) for stage in stages]
        self._item = ItemTime.of(sum(np.array(self._each_s) * stretch), cv)
        axes = {goal: np.linspace(0, goal.bound_s, _POINTS) for goal in now.goals}  # after a longer wait all are late
        self._late_after = {goal: (at, self._item.late(goal, at, self._rate_per_s)) for goal, at in axes.items()}

    def found(self) -> list[Costs]:
        """Return the costs of plans near the need; plans above the limit of workers only if none is within it."""
        found = self._composed() if self._now.listed is None else self._of_list(self._now.listed)
        return [each for each in found if each.plan.workers <= self._now.most_workers] or found

    def _composed(self) -> list[Costs]:
        """Return the costs of the present groups, and of the cheapest others if they save enough, over replicas."""
        now, grouping = self._now, self._now.active.grouping
        found = self._searched(grouping, list(now.active.replicas))
        loads = [self._rate_per_s * each_s for each_s in self._each_s]
        hop = self._rate_per_s * now.costing.hop_of_item_s()
        other = cheapest(self._stages, loads, hop)
        here = grouping_cost(self._stages, loads, grouping, hop)
        saved = here - grouping_cost(self._stages, loads, other, hop)
        if other != grouping and saved > self._settings.regroup * here and self._history.may_regroup:
            found += self._searched(other, self._staffed(other))
        return found

    def _of_list(self, listed: Listing) -> list[Costs]:
        """Return the costs of those compositions of a user's list that are nearest to the need."""
        active = self._now.active
        near = [
            plan
            for factor in (1.0, 1.4, 2.5)  # a backlog may need more workers than the mean load
            for plan in listed.near(partial(self._need, factor=factor), self._now.most_workers, _SCREENED)
        ]
        by_kind: dict[tuple[Grouping, int | None], dict[Plan, None]] = {}
        for plan in (active, *near):
            if plan == active or plan.grouping == active.grouping or self._history.may_regroup:
                by_kind.setdefault((plan.grouping, plan.bundle), {})[plan] = None
        return self.weighed([plan for plans in by_kind.values() for plan in plans])

    def _need(self, group: Sequence[int], factor: float = 1.0) -> float:
        return min(float(self._most(group)), factor * staffed(self._load(group)))

    def _most(self, group: Sequence[int]) -> int:
        most = most_of(self._stages, group)
        return int(min(most, *(self._now.room[index] for index in group))) if self._now.room else most

    def _load(self, group: Sequence[int]) -> float:
        """Return the number of workers that the group keeps busy."""
        return self._rate_per_s * (sum(self._each_s[index] for index in group) + self._now.costing.hop_of_item_s())

    def _staffed(self, grouping: Grouping) -> list[int]:
        """Return replicas by group: about as many as the mean load needs, within the limit of workers."""
        replicas = [max(1, math.ceil(self._need(group) - 0.5)) for group in grouping]
        while sum(replicas) > self._now.most_workers and max(replicas) > 1:
            replicas[replicas.index(max(replicas))] -= 1
        return replicas

    def _searched(self, grouping: Grouping, replicas: list[int]) -> list[Costs]:
        """Improve the replicas group by group, in two passes if there are several groups; return all costs found."""
        found: dict[Plan, Costs] = {}
        if len(grouping) > 1:  # if several groups are short of workers, more workers for one alone gain nothing
            begins = [Plan(grouping, tuple(each)) for each in (replicas, self._staffed(grouping))]
            begins = [each for each in begins if each.workers <= self._now.most_workers] or begins[1:]
            weighed = self.weighed(begins)
            found.update((each.plan, each) for each in weighed)
            replicas = list(min(weighed, key=lambda costs: costs.total).plan.replicas)
        for _ in range(1 if len(grouping) == 1 else 2):
            before = list(replicas)
            for at, group in enumerate(grouping):
                most = self._now.most_workers - sum(replicas) + replicas[at]
                counts = self._counts(group, replicas[at], max(1, min(most, self._most(group))))
                tried = [(*replicas[:at], count, *replicas[at + 1 :]) for count in counts]
                weighed = self.weighed([Plan(grouping, each) for each in tried])
                found.update((each.plan, each) for each in weighed)
                replicas[at] = min(weighed, key=lambda costs: costs.total).plan.replicas[at]
            if replicas == before:
                break
        return list(found.values())

    def _counts(self, group: Sequence[int], present: int, most: int) -> list[int]:
        if most <= _ALL_COUNTED:
            return list(range(1, most + 1))
        need = self._load(group)
        counts = {*range(present - 3, present + 5), int(need), int(need) + 1, int(1.2 * need) + 1, most}
        counts.update(round(count) for count in np.geomspace(1, most, 14).tolist())
        return sorted(count for count in counts if 1 <= count <= most)

    def weighed(self, plans: Sequence[Plan]) -> list[Costs]:
        """Return the costs of these plans."""
        now, futures = self._now, self._futures
        queues = self._queues_of(plans)
        # The slowest group sets the rate of those behind it: an item that waited for it meets no queue later.
        wait_s = np.array([reduce(np.maximum, [each.wait_s for each in of]) for of in queues])
        wait_s += now.costing.hop_s * np.array([len(of) for of in queues])[:, None, None]
        late = [np.interp(wait_s, *self._late_after[goal]) * futures.items for goal in now.goals]
        arriving = np.array([each.sum(axis=2).mean(axis=1) for each in late])
        after = np.array([[max(each.late_after[at] for each in of) for of in queues] for at in range(len(now.goals))])
        shares = np.minimum(1.0, arriving / max(float(futures.items.sum(axis=1).mean()), 1e-9))
        priced = np.array(self._history.prices_s) @ (arriving + after)
        first = now.goals[0]
        every_s = wait_s.reshape(len(plans), -1)
        waited_s = every_s.mean(axis=1) if first.of_mean else np.quantile(every_s, first.share, axis=1)
        return [
            Costs(
                plan,
                worker_cost(self._stages, plan) * futures.horizon_s,
                float(priced[row]),
                self._change(plan),
                tuple(shares[:, row].tolist()),
                float(waited_s[row]) + self._item.mean_s,
                min(each.kept_up for each in queues[row]),
            )
            for row, plan in enumerate(plans)
        ]

    def _queues_of(self, plans: Sequence[Plan]) -> list[list[_Queue]]:
        """Return the queues of each plan's groups, cached: many plans have a group with as many workers."""
        keys: list[list[_Key]] = []
        new: dict[tuple[tuple[int, ...], float], dict[_Key, None]] = {}
        for plan in plans:
            hop_s, gpus = self._now.costing.hop_of_item_s(plan.bundle), self._devices(plan)
            replicas = zip(plan.grouping, plan.replicas, strict=True)
            keys.append([(group, hop_s, float(count), self._room(group, gpus)) for group, count in replicas])
            for key in keys[-1]:
                if key not in self._queues:
                    new.setdefault(key[:2], {})[key] = None
        for (group, hop_s), missing in new.items():
            self._queues.update(zip(missing, self._simulated(group, hop_s, list(missing)), strict=True))
        return [[self._queues[key] for key in of] for of in keys]

    def _simulated(self, group: tuple[int, ...], hop_s: float, keys: Sequence[_Key]) -> Iterator[_Queue]:
        """Yield the group's queues: an item's wait, and the items that the queue at the end makes late, by goal."""
        now, futures = self._now, self._futures
        replicas, room = np.array([key[2:] for key in keys]).T
        each_s = max(sum(self._each_s[index] for index in group) + hop_s, 1e-9)
        wait_s, left_s = waits(self._group(group), replicas, futures, (each_s, hop_s), now.start_s, room)
        load, busy = self._rate_per_s * each_s, np.minimum(replicas, room)
        growing = np.maximum(0.0, load - busy) / each_s * futures.horizon_s
        after: list[Array] = []
        for goal in now.goals:
            slack_s = max(0.0, goal.bound_s - self._item.long_s)
            over = np.maximum(0.0, left_s - busy[:, None] * slack_s).mean(axis=1) / each_s
            after.append(np.maximum(over / (1 - np.minimum(load / busy, 0.9)), growing))
        kept_up = np.minimum(1.0, busy / max(load, 1e-9)).tolist()
        return map(_Queue, wait_s, np.array(after).T.tolist(), kept_up)

    def _devices(self, plan: Plan) -> float:
        """Return the number of GPUs that the plan's workers use; 0 if no stage uses any."""
        costing = self._now.costing
        if not costing.gpu_share:
            return 0.0
        reserved = [max(costing.gpus[index] for index in group) for group in plan.grouping]
        return float(devices(float(np.dot(plan.replicas, reserved))))

    def _room(self, group: tuple[int, ...], gpus: float) -> float:
        """Return how many workers can be busy: by the ceiling, and the cores and GPUs that other groups leave."""
        if (known := self._rooms.get((group, gpus))) is not None:
            return known
        now, costing = self._now, self._now.costing
        shared = self._history.most_per_s * (sum(self._each_s[index] for index in group) + costing.hop_of_item_s())
        room = min(shared, 1e9)
        for shares, count in ((costing.cpu_share, now.cores), (costing.gpu_share, gpus)):
            if not shares or math.isinf(count):
                continue
            work = [self._rate_per_s * each_s * share for each_s, share in zip(self._each_s, shares, strict=True)]
            own, every = sum(work[index] for index in group), sum(work)
            if own > 0:
                left = max(count - (every - own), count * own / every)
                room = max(0.1, min(room, left * self._load(group) / own))
        self._rooms[group, gpus] = room
        return room

    def _change(self, plan: Plan) -> float:
        """Return the cost of changing to the plan: half a start time of new workers, and what it has to save."""
        active, settings = self._now.active, self._settings
        if plan == active:
            return 0.0
        present = worker_cost(self._stages, active)
        more = worker_cost(self._stages, plan) - present
        save = 0.0 if more > 0 else self._present_late
        if plan.grouping != active.grouping:
            save += self._futures.horizon_s * present
        return settings.change + 0.5 * self._now.start_s * max(0.0, more) + settings.regroup * save

    @cached_property
    def _present_late(self) -> float:
        return self.weighed([self._now.active])[0].late

    def _group(self, group: tuple[int, ...]) -> GroupNow:
        """Return the present or planned state of the group. The backlog counts at every group: it has to pass all."""
        now, active = self._now, self._now.active
        waiting = now.backlog + sum(now.inside[index] for index in group)
        if group not in active.grouping:
            return GroupNow(group, 0, 0, waiting, 0.0, anew=True)
        at = active.grouping.index(group)
        replicas, missing = active.replicas[at], max(0, active.workers - now.alive)
        ready = max(0, replicas - missing) if at == active.replicas.index(max(active.replicas)) else replicas
        missing_s = max(self._futures.step_s, now.start_s - self._history.asked_ago_s) if ready < replicas else 0.0
        return GroupNow(group, replicas, ready, waiting, missing_s)
