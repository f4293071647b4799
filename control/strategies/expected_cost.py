"""Strategy ``expected-cost``: choose the composition whose workers, late items and change cost least.

The rule itself is :mod:`control.rule`. Here its inputs are made from snapshots, and its choices become proposals.
"""

import math
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace

import numpy as np

from compositions.model import Composition, Group, Pattern, Stage, TransitionKind
from compositions.notation import short_notation
from compositions.rules import MAX_REPLICAS, most_replicas
from compositions.wording import figure
from control.arbitration.arbiter import Reach
from control.decisions import Candidate, CandidateStatus
from control.objectives.objective import Objective
from control.rule.grouping import StageFacts
from control.rule.plans import Choice, Costing, Costs, Goal, Listing, Now, Plan, Seen
from control.rule.rule import Rule
from control.rule.settings import RuleSettings
from control.settings import Settings
from control.situation import Situation
from control.strategies.base import Limits, Pace, Proposal, Settle, Stay, Strategy, Trial
from control.strategies.fastest import Fastest
from control.strategies.start_times import StartTimes
from profiler.service_time import crowding, free_service_s
from profiler.slo import FASTEST
from profiler.snapshot import Snapshot

_MEAN_SHARE = 0.8
"""Share of an item in time if a mean latency is at its bound: a fifth of each item then counts as late."""
_BEHIND_S, _KEPT_UP_SHARE = 2.0, 0.95
"""A throughput objective as a goal: time after an item was due, and the share of items delivered within that time."""


def goals_of(objective: Objective) -> tuple[Goal, ...]:
    """Return the objective as goals of the rule, one per part."""
    return tuple(_goal(part) for part in objective.parts)


def _goal(objective: Objective) -> Goal:
    wanted_s, missed = objective.wanted_s, objective.bound(None)
    if wanted_s is None:
        return Goal(_BEHIND_S, _KEPT_UP_SHARE, math.inf if missed is None else missed / _KEPT_UP_SHARE)
    share, missed_s = objective.quantile, wanted_s if missed is None else missed / 1e3
    if share is None:  # a mean is late only if the objective counts as missed
        return Goal(missed_s, _MEAN_SHARE, of_mean=True)
    return Goal(wanted_s, share, tolerance=missed_s / wanted_s)


@dataclass(slots=True)
class _Counts:
    """Cumulative counts at a turn: items arrived and missed, and items and worker-seconds by stage."""

    at_s: float
    arrived: float
    missed: float
    done: dict[str, tuple[int, float]]


class ExpectedCost(Strategy):
    """Models the stream, so it is asked at each turn; makes no trials, and keeps no worker warm."""

    name = "expected-cost"
    keeps_warm = False
    begins_cheap = True
    several = True

    def __init__(self, settings: RuleSettings | None = None) -> None:
        self._settings = settings
        self._rule: Rule | None = None
        self._fastest = Fastest()
        self._counts: _Counts | None = None
        self._written: _Written | None = None
        self._starts = StartTimes()
        self._stages: Sequence[Stage] = ()

    def pace(self, settings: Settings) -> Pace:
        return Pace(settings.rhythm.check_interval_s, each_turn=True)

    def observe(self, snapshot: Snapshot, objective: Objective | None, stages: Sequence[Stage]) -> None:
        if objective is None:
            return
        if self._rule is None:
            facts = ((each.name, most_replicas([each]), each.price, each.concurrency) for each in stages)
            self._rule = Rule([StageFacts(*each) for each in facts], self._settings)
        self._stages = stages
        self._starts.note(snapshot.now_s, snapshot.workers_alive)
        before, self._counts = self._counts, _counted(snapshot)
        if before is None or self._counts.at_s <= before.at_s:
            return
        self._rule.observe(_seen(snapshot, objective, stages, before, self._counts, self._rule), goals_of(objective))

    def propose(self, situation: Situation, trials: tuple[Trial, ...]) -> Proposal:
        rule, active = self._rule, situation.active
        if active.dyn is not None:
            return Stay(f"{active.name} stays: {self.name} cannot predict workers that choose their stage")
        if any(part.slo.target == FASTEST for part in situation.objective.parts):
            return self._fastest.propose(situation)
        if rule is None:
            return Stay("no decision yet: no stage has timings", unknown=True)
        crew, alive = active.crew(self._stages), situation.snapshot.workers_alive
        self._starts.begin(situation.now_s, crew, alive)
        plans = _Plans(situation, rule, self._known(situation), self._start_s(situation))
        present = _plan(active)
        choice = rule.choose(self._now(situation, plans))
        if choice is None:
            return Stay(f"no decision yet: a stage has only {rule.stream.known} timings", unknown=True)
        reason = _told(rule, choice, plans)
        wanted = plans.composition(choice.chosen.plan)
        wanted_crew = wanted.crew(self._stages)
        kept = self._starts.keeps(situation.now_s, wanted_crew, crew)
        if kept or choice.chosen.plan == present:
            stays = f"{active.name} stays" if kept else f"{active.name} stays, as it {_why(choice)}"
            return Stay(f"{stays}: {reason}" + (f"; {kept}" if kept else ""), choice.hopeless)
        if wanted.name in situation.unavailable:
            return Stay(f"{active.name} stays: {wanted.name} {situation.unavailable[wanted.name]}")
        rule.changed(choice.chosen.plan, present, alive)
        self._starts.ask(situation.now_s, wanted_crew, crew, alive)
        told = f"{_change(situation, wanted, choice)}: {reason}"
        return Settle(wanted, _candidates(choice, rule, plans, situation), told, choice.hopeless)

    def reaches(self, situation: Situation, limits: Limits) -> tuple[Reach, ...] | None:
        rule = self._rule
        if rule is None or situation.active.dyn is not None:
            return None
        own = replace(situation, budget=situation.objective.slo.limits)
        plans = _Plans(own, rule, self._known(situation), self._start_s(situation))
        now = self._now(situation, plans)
        asked = [
            (plans.most_workers if each.workers is None else each.workers, each.cores or math.inf) for each in limits
        ]
        found = rule.reaches(now, asked)
        if found is None:
            return None
        return tuple(
            Reach(each.attained(now.goals), plans.composition(each.plan).name)
            if each.plan.workers <= most
            else Reach(0.0)
            for each, (most, _) in zip(found, asked, strict=True)
        )

    def supposing(self, rate_per_s: float | None) -> Strategy:
        other = deepcopy(self)
        if other._rule is not None and rate_per_s is not None:
            other._rule.suppose(rate_per_s)
        return other

    def _known(self, situation: Situation) -> "_Written":
        """Return the compositions that may be chosen as plans; cached until they change."""
        compositions, barred = situation.compositions, tuple(situation.unavailable)
        known = self._written
        if known is None or known.compositions is not compositions or known.barred != barred:
            known = self._written = _Written.of(compositions, barred)
        return known

    def _now(self, situation: Situation, plans: "_Plans") -> Now:
        snapshot, now_s = situation.snapshot, situation.now_s
        profiles = {each.name: each for each in snapshot.stages}
        known, crowd = [profiles.get(name) for name in plans.names], crowding(snapshot.stages, _cores(snapshot))
        times = [None if p is None else (p, max(free_service_s(p, crowd), 1e-12)) for p in known]
        shares = [1.0 if each is None else min(1.0, each[0].cpu_time_s / each[1]) for each in times]
        gpu_shares = [0.0 if each is None else each[0].gpu_s / each[1] for each in times]
        gpus = gpu_shares, [0.0 if p is None else p.gpus for p in known]
        return Now(
            active=_plan(situation.active),
            alive=snapshot.workers_alive,
            backlog=snapshot.backlog,
            inside=[0 if each is None else each.inside for each in known],
            goals=plans.goals,
            most_workers=plans.most_workers,
            start_s=plans.start_s,
            cores=plans.cores,
            announced=tuple((a.from_s - now_s, a.until_s - now_s, a.rate_per_s) for a in situation.announced),
            listed=plans.listed,
            costing=Costing(
                snapshot.hop_s, snapshot.bundle_items, snapshot.bundle_limit, shares, *(gpus if any(gpu_shares) else ())
            ),
            room=[plans.room.get((name,), math.inf) for name in plans.names] if plans.room else (),
        )

    def _start_s(self, situation: Situation) -> float:
        """Return the start time of the slowest class of workers, in seconds: the rule has one time for all."""
        crew = situation.active.crew(self._stages)
        return self._starts.slowest_s(crew, situation.settings.rhythm.worker_start_s)


def _cores(snapshot: Snapshot) -> float:
    """Return the number of cores that other programs leave."""
    return snapshot.cores if snapshot.cores_left is None else snapshot.cores_left


def _counted(snapshot: Snapshot) -> _Counts:
    demand = snapshot.demand
    arrived: float = max(snapshot.input.arrived, 0 if demand is None else demand.offered)
    done = {each.name: (each.done, each.worked_s) for each in snapshot.stages}
    return _Counts(snapshot.now_s, arrived, 0 if demand is None else demand.missed, done)


def _seen(
    snapshot: Snapshot, objective: Objective, stages: Sequence[Stage], before: _Counts, now: _Counts, rule: Rule
) -> Seen:
    """Return the turn's measurements; stage times exclude the slowdown by workers that share cores."""
    elapsed_s = now.at_s - before.at_s
    delivered, missed = (snapshot.throughput_per_s or 0.0) * elapsed_s, now.missed - before.missed
    set_per_s = snapshot.input.set_per_s  # a source that is held back delivers fewer items than its set rate
    arrived = max(0.0, now.arrived - before.arrived) if set_per_s is None else set_per_s * elapsed_s
    pairs = [(now.done.get(each.name, (0, 0.0)), before.done.get(each.name, (0, 0.0))) for each in stages]
    crowd = crowding(snapshot.stages, _cores(snapshot))
    free = {each.name: free_service_s(each, crowd) / max(each.service_time_s, 1e-12) for each in snapshot.stages}
    worked_s = [here[1] - there[1] for here, there in pairs]
    busy_s = [own_s * free.get(each.name, 1.0) for each, own_s in zip(stages, worked_s, strict=True)]
    late = [_late(goal, snapshot, elapsed_s, delivered, rule) + missed for goal in goals_of(objective)]
    done, alive = np.array([float(here[0] - there[0]) for here, there in pairs]), snapshot.workers_alive
    full = snapshot.backlog >= alive and not snapshot.switching
    return Seen(now.at_s, elapsed_s, arrived, done, np.array(busy_s), delivered + missed, late, alive, set_per_s, full)


def _late(goal: Goal, snapshot: Snapshot, elapsed_s: float, delivered: float, rule: Rule) -> float:
    """Return the number of late items of a turn, without those that were dropped."""
    latency, late = snapshot.latency, 0.0
    if latency is not None and goal.of_mean:
        late = delivered * rule.late_of_mean(goal, latency.mean_s)
    elif latency is not None and (within := latency.within(goal.bound_s)) is not None:
        late = delivered * (1 - within)
    if goal.per_s is None or snapshot.input_rate_per_s is None:
        return late
    asked, waits = min(goal.per_s, snapshot.input_rate_per_s), snapshot.backlog > 0
    kept_up = asked if not waits else (snapshot.throughput_per_s or 0.0)
    behind = (goal.share * asked - kept_up) * elapsed_s  # below 0 if ahead, so that random deviations cancel out
    return behind if goal.per_s < snapshot.input_rate_per_s else max(late, behind)  # items above the goal may be late


def _plan(composition: Composition) -> Plan:
    numbers = {name: number for number, name in enumerate(composition.stages)}
    grouping = tuple(tuple(numbers[name] for name in group.stages) for group in composition.groups)
    batch = composition.batch
    bundle = batch.items if batch is not None and isinstance(batch.items, int) else None
    return Plan(grouping, tuple(group.replicas for group in composition.groups), bundle)


@dataclass(frozen=True, slots=True)
class _Written:
    """A user's compositions as plans of the rule."""

    compositions: tuple[Composition, ...]
    barred: tuple[str, ...]
    """Names of the compositions that cannot be used now."""
    listing: Listing
    """The compositions that can be used."""
    named: Mapping[Plan, Composition]
    most_workers: int

    @staticmethod
    def of(compositions: tuple[Composition, ...], barred: tuple[str, ...]) -> "_Written":
        named = {_plan(each): each for each in compositions if each.dyn is None}
        listing = Listing(plan for plan, each in named.items() if each.name not in barred)
        return _Written(compositions, barred, listing, named, max((each.workers for each in compositions), default=0))


class _Plans:
    """Converts between compositions and plans of the rule, and has the limits: workers, cores and GPUs."""

    def __init__(self, situation: Situation, rule: Rule, written: _Written, start_s: float) -> None:
        """``start_s``: time that workers take to start, in seconds."""
        self.start_s = start_s
        self.listed = None if situation.generated else written.listing
        self._active, self._named = situation.active, written.named
        self.goals = goals_of(situation.objective)
        self.names = situation.active.stages
        snapshot, budget = situation.snapshot, situation.budget
        self.computing_s = [0.0 if each is None else each.cpu_time_s for each in map(snapshot.stage, self.names)]
        self.cores, self.room = _cores(snapshot), situation.room
        on_gpus = [each for each in snapshot.stages if each.gpu_s]
        self.gpu_s = [each.gpu_s for each in on_gpus]
        rooms = [self.room.get((each.name,), self.room.get((), math.inf)) for each in on_gpus]
        self.gpus = max((each.gpus * room for each, room in zip(on_gpus, rooms, strict=True)), default=math.inf)
        most = min(written.most_workers or situation.active.workers, self.room.get((), MAX_REPLICAS))
        self.most_workers = most if budget.workers is None else min(most, budget.workers)
        self.within_budget = self.most_workers < most
        if budget.cores is not None:
            self.cores = min(self.cores, budget.cores)
            computing = sum(each.cpu_time_s for each in snapshot.stages)
            share = computing / max(1e-12, sum(each.service_time_s for each in snapshot.stages))
            if rule.stream.rate_per_s * computing > budget.cores:  # all workers may be busy at once, so limit them
                self.most_workers = max(1, min(self.most_workers, int(budget.cores / max(share, 1e-3))))

    def composition(self, plan: Plan) -> Composition:
        """Return the plan as a composition, by its name in the user's list if it is there."""
        known = self._active if plan == _plan(self._active) else self._named.get(plan)
        if known is not None:
            return known
        groups = tuple(
            Group(tuple(self.names[number] for number in group), Pattern.PAR if count > 1 else Pattern.SEQ, count)
            for group, count in zip(plan.grouping, plan.replicas, strict=True)
        )
        return Composition(short_notation(Composition("", groups)), groups)


def _change(situation: Situation, wanted: Composition, choice: Choice) -> str:
    """Return a text about the change to ``wanted``: resize or switch, and why."""
    resize = situation.transition_to(wanted) is TransitionKind.RESIZE
    way = "resizing in place" if resize else "switching"
    return f"{way} from {situation.active.name} to {wanted.name}, which {_why(choice)}"


def _why(choice: Choice) -> str:
    cheapest = all(choice.chosen.total <= each.total for each in choice.others)
    usual = "has the lowest expected cost of workers, late items and changes"
    why = usual if cheapest else "is the cheapest composition that keeps the workers needed recently"
    return "handles most of the load" if choice.hopeless else why


def _workers(count: int) -> str:
    return f"{count} worker" if count == 1 else f"{count} workers"


def _candidates(choice: Choice, rule: Rule, plans: _Plans, situation: Situation) -> tuple[Candidate, ...]:
    ranked = [(choice.chosen, CandidateStatus.CHOSEN), *((each, CandidateStatus.REJECTED) for each in choice.others)]
    return tuple(_candidate(costs, status, choice, rule, plans, situation) for costs, status in ranked)


def _candidate(
    costs: Costs, status: CandidateStatus, choice: Choice, rule: Rule, plans: _Plans, situation: Situation
) -> Candidate:
    composition, horizon_s = plans.composition(costs.plan), choice.horizon_s
    parts = [f"{figure(costs.workers / horizon_s)} for workers", f"{figure(costs.late / horizon_s)} for late items"]
    if costs.change:
        parts.append(f"{figure(costs.change / horizon_s)} for the change")
    here = composition.shape == situation.active.shape
    return Candidate(
        composition.name,
        composition.workers,
        status,
        f"costs {figure(costs.total / horizon_s)} worker-seconds per second: {', '.join(parts)}",
        rule.stream.rate_per_s,
        costs.latency_s,
        predicted_in_time=_in_time(costs, plans.goals),
        transition=None if here else situation.transition_to(composition),
        transition_s=0.0 if composition.workers <= situation.snapshot.workers_alive else plans.start_s,
    )


def _in_time(costs: Costs, goals: Sequence[Goal]) -> float | None:
    """Return the share of items within the tightest latency bound; None without a bound on single items."""
    pairs = zip(goals, costs.late_shares, strict=True)
    timed = [(goal.bound_s, late) for goal, late in pairs if goal.per_s is None and not goal.of_mean]
    return 1 - min(timed)[1] if timed else None


def _told(rule: Rule, choice: Choice, plans: _Plans) -> str:
    """Return the reason as text: load, expected late items (for a mean, latency) of the choice and the next best, for
    the goal that is met worst."""
    stream, chosen, goals = rule.stream, choice.chosen, plans.goals
    at = max(range(len(goals)), key=lambda at: chosen.late_shares[at] / max(1e-3, 1 - goals[at].share))
    mean = at == 0 and goals[0].of_mean
    expected = ", ".join(
        (f"{figure(1e3 * each.latency_s, 4)} ms" if mean else f"{100 * each.late_shares[at]:.1f} %")
        + f" with {plans.composition(each.plan).name} ({_workers(each.plan.workers)})"
        for each in (chosen, *choice.others[:1])
    )
    told = f"the input rate is {figure(stream.rate_per_s)} items/s, and an item takes {figure(1e3 * stream.work_s)} ms"
    told += f"; expected {'mean latency' if mean else 'late items'}: {expected}"
    if not mean:
        told += f"; the objective allows {100 * (1 - goals[at].share):.1f} %"
        if (so_far := rule.prices[at].late_share) >= 0.0005:
            told += f"; {100 * so_far:.1f} % of the items of the last 5 min were late"
    if choice.hopeless:
        most = _workers(plans.most_workers)
        told += f"; no composition with at most {most} is expected to meet the objective: {_limit(rule, plans)}"
    return told


def _limit(rule: Rule, plans: _Plans) -> str:
    """Return the limit that keeps the objective from being met, and a remedy, as text."""
    rate, each_s = rule.stream.rate_per_s, rule.stream.each_s.tolist()
    if sum(each_s) > min(goal.bound_s for goal in plans.goals):
        return f"an item takes {figure(1e3 * sum(each_s))} ms even without a queue; only faster stages would help"
    for name, busy_s in zip(plans.names, each_s, strict=True):
        if rate * busy_s > (room := plans.room.get((name,), math.inf)):
            return f"the nodes have room for {_workers(int(room))} with {name}; more of its resources would help"
    single = [each.name for each, busy_s in zip(rule.stages, each_s, strict=True) if rate * busy_s > each.most]
    if single:
        return f"{single[0]} keeps a state, which limits its workers; only a faster {single[0]} would help"
    working = rate * sum(plans.gpu_s)
    if working > plans.gpus:
        return f"the items need {figure(working)} GPUs, but the nodes have {figure(plans.gpus)}; more would help"
    computing = rate * sum(plans.computing_s)
    if computing > plans.cores:
        return f"the items need {figure(computing)} cores, but there are {figure(plans.cores)}; more would help"
    if plans.within_budget:
        return f"the budget of {plans.most_workers} workers is the limit; a larger budget would help"
    if plans.listed is not None:
        return "the list of compositions is the limit; a composition with more workers would help"
    return "the number of workers is the limit"
