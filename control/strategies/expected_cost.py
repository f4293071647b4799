"""Strategy ``expected-cost``: of all compositions the one whose workers, late items and change cost least.

The rule itself is :mod:`control.rule`; here it gets its turns, and its choices become proposals and sentences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from compositions.model import Composition, Group, Pattern, Stage, StageKind
from compositions.notation import short_notation
from compositions.wording import figure
from control.decisions import Candidate, CandidateStatus
from control.objectives.objective import Objective
from control.rule.grouping import StageFacts
from control.rule.rule import Choice, Costs, Listing, Now, Plan, Rule, Seen
from control.settings import Settings
from control.situation import Situation
from control.strategies.base import Pace, Proposal, Settle, Stay, Strategy, Trial
from profiler.snapshot import Snapshot

Shape = tuple[tuple[tuple[str, ...], int], ...]
_Written = tuple[tuple[Composition, ...], tuple[str, ...]]
_MEAN_SHARE = 0.8
"""For a mean latency so many of the items are to be within it: of an exponential wait 0.63 are, of an even one more."""
_BEHIND_S, _KEPT_UP_SHARE = 2.0, 0.95
"""For a throughput so many of the items are to be out within so long after they were due."""


@dataclass(frozen=True, slots=True)
class Goal:
    """What items are held to."""

    bound_s: float
    share: float

    @classmethod
    def of(cls, objective: Objective) -> Goal:
        """Return the bound and the share that stand for the objective."""
        wanted_s = objective.wanted_s
        if wanted_s is None:
            return cls(_BEHIND_S, _KEPT_UP_SHARE)
        return cls(wanted_s, objective.quantile or _MEAN_SHARE)


@dataclass(slots=True)
class _Counts:
    """Sums since the start, as of the last turn."""

    at_s: float
    arrived: float
    missed: float
    done: dict[str, tuple[int, float]]


class ExpectedCost(Strategy):
    """Has a belief about the stream, so it is asked at each turn; tries nothing, and keeps no worker warm."""

    name = "expected-cost"
    keeps_warm = False

    def __init__(self) -> None:
        self._rule: Rule | None = None
        self._counts: _Counts | None = None
        self._list: tuple[_Written, Listing, Mapping[Shape, Composition]] | None = None
        self._start_s: float | None = None
        """Measured time that workers take to start."""
        self._asked: tuple[float, int] | None = None
        """When workers were asked for, and how many are to be there then."""

    def pace(self, settings: Settings) -> Pace:
        return Pace(settings.rhythm.check_interval_s, votes=1, each_turn=True)

    def observe(self, snapshot: Snapshot, objective: Objective | None, stages: Sequence[Stage]) -> None:
        if objective is None:
            return
        if self._rule is None:
            self._rule = Rule([StageFacts(each.name, each.kind is StageKind.STATEFUL, each.price) for each in stages])
        self._note_start(snapshot)
        before, self._counts = self._counts, _counted(snapshot)
        if before is None or self._counts.at_s <= before.at_s:
            return
        goal, now = Goal.of(objective), self._counts
        delivered = (snapshot.throughput_per_s or 0.0) * (now.at_s - before.at_s)
        missed = now.missed - before.missed
        within = None if snapshot.latency is None else snapshot.latency.within(goal.bound_s)
        late = missed + (0.0 if within is None else delivered * (1 - within))
        pairs = [(now.done.get(each.name, (0, 0.0)), before.done.get(each.name, (0, 0.0))) for each in stages]
        seen = Seen(
            now.at_s,
            now.at_s - before.at_s,
            max(0.0, now.arrived - before.arrived),
            np.array([float(here[0] - there[0]) for here, there in pairs]),
            np.array([here[1] - there[1] for here, there in pairs]),
            delivered + missed,
            late,
        )
        self._rule.observe(seen, goal.share)

    def propose(self, situation: Situation, trials: tuple[Trial, ...]) -> Proposal:
        rule, active = self._rule, situation.active
        if rule is None or active.dyn is not None:
            return Stay(f"{active.name} stays: {self.name} has no belief about workers that choose their stage")
        listed, named = self._known(situation)
        plans = _Plans(situation, listed, named)
        goal, present = Goal.of(situation.objective), _plan(active)
        choice = rule.choose(self._now(situation, plans, goal))
        if choice is None:
            return Stay(f"too few samples: a stage has {rule.stream.known} timings")
        reason = _told(rule, choice, situation, plans, goal)
        if choice.chosen.plan == present:
            return Stay(f"{active.name} stays: {reason}")
        wanted = plans.composition(choice.chosen.plan)
        if wanted.name in situation.unavailable:
            return Stay(f"{active.name} stays: {wanted.name} {situation.unavailable[wanted.name]}")
        rule.changed(choice.chosen.plan, present)
        more = wanted.workers > situation.snapshot.workers_alive
        self._asked = (situation.now_s, wanted.workers) if more else None
        return Settle(wanted, _candidates(choice, rule, plans), reason, _short(choice, goal, plans.most_workers))

    def _known(self, situation: Situation) -> tuple[Listing | None, Mapping[Shape, Composition]]:
        """Return what may be chosen where somebody wrote it, or where stages share keys, and the compositions by shape;
        made anew when they change."""
        written = situation.compositions, tuple(situation.unavailable)
        if self._list is None or self._list[0] != written:
            bound = [each for each in situation.compositions if each.dyn is None]
            free = (_plan(each) for each in bound if each.name not in situation.unavailable)
            self._list = written, Listing(free), {each.shape: each for each in bound}
        keyed = any(stage.kind is StageKind.PARTITIONED for stage in situation.stages)
        return (self._list[1] if keyed or not situation.generated else None), self._list[2]

    def _now(self, situation: Situation, plans: _Plans, goal: Goal) -> Now:
        snapshot, now_s = situation.snapshot, situation.now_s
        start_s = situation.settings.trust.worker_start_s if self._start_s is None else self._start_s
        inside = {each.name: each.inside for each in snapshot.stages}
        announced = tuple((a.from_s - now_s, a.until_s - now_s, a.rate_per_s) for a in situation.announced)
        return Now(
            _plan(situation.active),
            snapshot.workers_alive,
            snapshot.backlog,
            [inside.get(name, 0) for name in plans.names],
            goal.bound_s,
            goal.share,
            plans.most_workers,
            start_s,
            announced,
            plans.listed,
        )

    def _note_start(self, snapshot: Snapshot) -> None:
        """Learn how long workers take to start."""
        if self._asked is None or snapshot.workers_alive < self._asked[1]:
            return
        took_s = snapshot.now_s - self._asked[0]
        self._start_s = took_s if self._start_s is None else 0.7 * self._start_s + 0.3 * took_s
        self._asked = None


def _counted(snapshot: Snapshot) -> _Counts:
    demand = snapshot.demand
    arrived = max(snapshot.input.arrived, 0 if demand is None else demand.offered)
    done = {each.name: (each.done, each.worked_s) for each in snapshot.stages}
    return _Counts(snapshot.now_s, arrived, 0 if demand is None else demand.missed, done)


def _plan(composition: Composition) -> Plan:
    numbers = {name: number for number, name in enumerate(composition.stages)}
    grouping = tuple(tuple(numbers[name] for name in group.stages) for group in composition.groups)
    return Plan(grouping, tuple(group.replicas for group in composition.groups))


class _Plans:
    """Compositions as plans of the rule, and back."""

    def __init__(self, situation: Situation, listed: Listing | None, named: Mapping[Shape, Composition]) -> None:
        self.listed, self._named = listed, named
        self.names = situation.active.stages
        budget = situation.budget.workers
        most = max((each.workers for each in situation.compositions), default=situation.active.workers)
        self.most_workers = most if budget is None else min(most, budget)

    def composition(self, plan: Plan) -> Composition:
        """Return the composition, under the name that it has among those that can be chosen."""
        groups = tuple(
            Group(tuple(self.names[number] for number in group), Pattern.PAR if count > 1 else Pattern.SEQ, count)
            for group, count in zip(plan.grouping, plan.replicas, strict=True)
        )
        made = Composition("", groups)
        return self._named.get(made.shape) or Composition(short_notation(made), groups)


def _short(choice: Choice, goal: Goal, most_workers: int) -> bool:
    """Return whether nothing that may be chosen is expected to hold the objective."""
    every = (choice.chosen, *choice.others)
    full = choice.chosen.plan.workers >= most_workers
    return full and min(each.late_share for each in every) > 1 - goal.share


def _candidates(choice: Choice, rule: Rule, plans: _Plans) -> tuple[Candidate, ...]:
    ranked = [(choice.chosen, CandidateStatus.CHOSEN), *((each, CandidateStatus.REJECTED) for each in choice.others)]
    return tuple(_candidate(costs, status, choice, rule, plans) for costs, status in ranked)


def _candidate(costs: Costs, status: CandidateStatus, choice: Choice, rule: Rule, plans: _Plans) -> Candidate:
    composition, horizon_s = plans.composition(costs.plan), choice.horizon_s
    parts = [f"{figure(costs.workers / horizon_s)} for workers", f"{figure(costs.late / horizon_s)} for late items"]
    if costs.change:
        parts.append(f"{figure(costs.change / horizon_s)} for the change")
    why = f"costs {figure(costs.total / horizon_s)} worker-seconds a second: {', '.join(parts)}"
    return Candidate(composition.name, composition.workers, status, why, rule.stream.rate_per_s, costs.latency_s)


def _told(rule: Rule, choice: Choice, situation: Situation, plans: _Plans, goal: Goal) -> str:
    """Return belief, choice, the best other composition and the price, in one sentence."""
    stream, chosen = rule.stream, choice.chosen
    late = f"{100 * chosen.late_share:.1f} % late expected"
    belief = f"{figure(stream.rate_per_s)} items/s that take {figure(1e3 * stream.work_s)} ms each"
    told = f"{belief}: {chosen.plan.workers} workers, {late}"
    if choice.others:
        other = choice.others[0]
        told += f", {plans.composition(other.plan).name} would have {100 * other.late_share:.1f} %"
    price = f"an item late counts as {figure(rule.price.in_work)} others, as {100 * rule.price.late_share:.1f} % of the"
    told += f"; {price} last minutes were late and {100 * (1 - goal.share):.1f} % may be"
    if _short(choice, goal, plans.most_workers):
        told += f"; no composition with at most {plans.most_workers} workers is expected to do"
    return told
