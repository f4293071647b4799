"""The rule: choose the composition whose workers, late items and change cost least over the horizon.

    J(c) = workers of c · horizon + Σ price · late items expected under c + cost of the change to c

Costs are in worker-seconds; a worker with a ``price`` costs more per second. The horizon is the time until a worker
that is requested now has started and an item that arrives then is due. The sum is over the goals.
"""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from control.rule.ceiling import Ceiling
from control.rule.grouping import StageFacts
from control.rule.plans import Choice, Costs, Goal, Now, Plan, Seen
from control.rule.price import WINDOW_S, Price
from control.rule.queueing import ItemTime
from control.rule.settings import RuleSettings
from control.rule.stream import Futures, Stream
from control.rule.weighing import History, Weighing, worker_cost

_ENOUGH = 5
"""Smallest number of items of each stage for a choice."""
_LOOKED_S = 2.0
"""Time between two searches for the best composition in the long run, in seconds."""
_TOLD = 9
"""Number of plans that are reported beside the chosen one."""
_LONGEST_S = 1800.0
"""Longest time until the groups may change again, in seconds."""
_LONG_STEPS = 240
"""Number of steps of a stationary future: near saturation a queue takes long to build up."""


class Rule:
    """The rule for one app. Pure: the same turns give the same choices."""

    def __init__(self, stages: Sequence[StageFacts], settings: RuleSettings | None = None) -> None:
        self.stages, self._settings = tuple(stages), settings or RuleSettings()
        self.stream = Stream([stage.at_once for stage in stages], self._settings)
        self._goals: tuple[Goal, ...] = ()
        self.prices: tuple[Price, ...] = ()
        """One price per goal."""
        self._ceiling, self._start = Ceiling(), _Start(self._settings.catch_up_s)
        self._wanted, self._calm = deque[tuple[float, Costs]](), deque[tuple[float, Costs]]()
        self._hope: tuple[float, Costs | None, float] = (-math.inf, None, -math.inf)
        """Times of the latest search and of the latest miss, and between them the best plan if none meets the goals."""
        self._at_s, self._asked_s, self._regrouped_s = 0.0, -math.inf, -math.inf
        self._regroup_after = 1.0  # multiple of the usual time until the groups may change again

    @property
    def most_per_s(self) -> float:
        """Rate in items/s beyond which more workers do not raise the throughput."""
        return self._ceiling.per_s(self._at_s)

    def observe(self, seen: Seen, goals: tuple[Goal, ...]) -> None:
        """Record a turn. If the goals changed, their prices start at the usual price."""
        if goals != self._goals:
            self._goals, self.prices = goals, tuple(Price(self._settings) for _ in goals)
        self._at_s = seen.at_s
        self._ceiling.look(seen.at_s, seen.elapsed_s, seen.alive, float(seen.done[-1]), full=seen.full)
        self.stream.add(seen.elapsed_s, seen.arrived, seen.done, seen.busy_s, seen.set_per_s)
        if not self._start.is_over(seen, goals):
            return
        window_s = min(seen.at_s, WINDOW_S)
        for price, goal, late in zip(self.prices, goals, seen.late, strict=True):
            expected = 0.5 * min(self.stream.slow_per_s, goal.most_per_s) * window_s
            price.add(seen.at_s, seen.elapsed_s, seen.delivered, late, expected, goal.share)

    def late_of_mean(self, goal: Goal, latency_s: float) -> float:
        """Return the share of an item that counts as late at this mean latency; below 0 if it is faster than usual."""
        item, rate_per_s = ItemTime.of(self.stream.work_s, self.stream.cv), self.stream.rate_per_s
        return float(item.late_of_mean(goal, np.array(latency_s - item.ordered_s(rate_per_s)), rate_per_s))

    def suppose(self, rate_per_s: float) -> None:
        """Assume this input rate from now on, with the same pattern of arrivals."""
        self.stream.suppose(rate_per_s)

    def choose(self, now: Now) -> Choice | None:
        """Return the choice for the next turns; None if there are too few timings of the stages."""
        if self.stream.known < _ENOUGH:
            return None
        self._start.begin(self._at_s, now.start_s + max(goal.bound_s for goal in now.goals))
        counts = max(goal.most_per_s for goal in now.goals) >= self.stream.rate_per_s  # else no goal counts a backlog
        if not counts or (self._is_calm and not self._waits_long(now)):  # a short queue in a calm stream is chance
            now = now.empty
        futures = self._futures(now)
        weighing = self._weighing(now, futures)
        found = weighing.found()
        chosen = self._held(weighing, {each.plan: each for each in found}, now)
        hopeless = self._hopeless(chosen, now)
        present = next((each for each in found if each.plan == now.active), None)
        if hopeless and present is not None:
            best = self._hope[1] or present  # the choice for the present backlog would differ at each turn
            chosen = present if best.plan == now.active else best
        others = sorted((each for each in found if each.plan != chosen.plan), key=lambda costs: costs.total)
        told = dict.fromkeys(([] if present in (None, chosen) else [present]) + others)
        return Choice(chosen, tuple(told)[:_TOLD], futures.horizon_s, hopeless)

    def reaches(self, now: Now, limits: Sequence[tuple[int, float]]) -> list[Costs] | None:
        """Return the costs of the best plan in the long run within each limit (workers, cores), if known."""
        if self.stream.known < _ENOUGH:
            return None
        futures, calm = self._lasting(now)
        computing = sum(each * share for each, share in zip(futures.mean_s, now.costing.cpu_share, strict=False))
        used_cores = computing * float(futures.items.mean()) / futures.step_s
        found: dict[int, Costs] = {}
        last: Costs | None = None
        for at in sorted(range(len(limits)), key=lambda at: limits[at], reverse=True):
            workers, cores = min(limits[at][0], now.most_workers), min(limits[at][1], now.cores)
            if last is None or last.plan.workers > workers or used_cores > 0.5 * cores:  # else the last plan is best
                within = replace(calm, most_workers=workers, cores=cores)
                last = min(self._weighing(within, futures).found(), key=lambda costs: costs.total - costs.change)
            found[at] = last
        return [found[at] for at in range(len(limits))]

    def changed(self, plan: Plan, active: Plan, alive: int) -> None:
        """Record a request for ``plan``. While workers of an earlier request start, its start time still counts."""
        if plan.workers > active.workers and alive >= active.workers:
            self._asked_s = self._at_s
        if plan.grouping != active.grouping:  # without news since the last time, it takes twice as long
            no_news = self.stream.calm_s > self._at_s - self._regrouped_s
            self._regroup_after, self._regrouped_s = 2 * self._regroup_after if no_news else 1.0, self._at_s
            self._wanted.clear()

    def _in_the_long_run(self, now: Now) -> Costs:
        """Return the costs of the cheapest plan that meets the goals if the stream stays as it is, without backlog."""
        futures, calm = self._lasting(now)
        weighed = self._weighing(calm, futures, self._settings.usual_price).found()
        keeping: list[Costs] = []
        for part in (self._settings.used_share, 1.0):  # with a reserve for unforeseen events, else without
            keeping = keeping or [each for each in weighed if each.keeps(now.goals, part)]
        present = next((each for each in weighed if each.plan == now.active), None)
        if not keeping:  # choose the plan that processes most of the load
            best = max(weighed, key=lambda costs: (round(costs.kept_up, 2), costs.change - costs.total))
            little = present is not None and best.kept_up < (1 + self._settings.regroup) * present.kept_up
            return present if little and present else best
        best = min(keeping, key=lambda costs: costs.total - costs.change)
        if present not in keeping:
            return best
        saved = 1 - (best.total - best.change) / max(present.total, 1e-9)
        same = best.plan.grouping == now.active.grouping
        return best if same or saved > self._settings.regroup else present

    def _lasting(self, now: Now) -> tuple[Futures, Now]:
        """Return long stationary futures, and the present without a backlog and without start times."""
        step_s = min(1.0, max(0.25, min(goal.bound_s for goal in now.goals) / 4))
        futures = self.stream.stationary(step_s, _LONG_STEPS).at_most(max(goal.most_per_s for goal in now.goals))
        return futures, replace(now.empty, start_s=0.0)

    def _futures(self, now: Now) -> Futures:
        settings = self._settings
        bound_s = max(goal.bound_s for goal in now.goals)
        futures = self.stream.futures(settings.start_share * now.start_s + bound_s + settings.beyond_s)
        if self._is_calm:  # recent random fluctuations do not predict the next ones
            futures = self.stream.stationary(futures.step_s, settings.steps)
        if self._waits_long(now):  # such a wait multiplies an error of the mean
            futures = replace(futures, mean_s=self.stream.each_s)
        return futures.announced(now.announced).at_most(max(goal.most_per_s for goal in now.goals))

    def _waits_long(self, now: Now) -> bool:
        """Return True if an item that arrives now waits for more than half of the bound."""
        return now.backlog * self.stream.work_s > 0.5 * max(goal.bound_s for goal in now.goals) * now.alive

    @property
    def _is_calm(self) -> bool:
        return self.stream.calm_s > self._settings.calm_after_s

    def _weighing(self, now: Now, futures: Futures, least_price: float = 0.0) -> Weighing:
        prices_s = [max(least_price, price.in_work) * self.stream.work_s for price in self.prices]
        may_regroup = self._at_s - self._regrouped_s > min(_LONGEST_S, self._regroup_after * (5 * now.start_s + 10))
        history = History(self._at_s - self._asked_s, may_regroup, prices_s, self.most_per_s)
        return Weighing(self.stages, self._settings, now, self.stream.cv, futures, history)

    def _hopeless(self, chosen: Costs, now: Now) -> bool:
        """Return True if no plan that may be chosen would meet the goals even in the long run."""
        looked_s, best, missed_s = self._hope
        if chosen.attained(now.goals) < 1:
            missed_s = self._at_s
        elif best is None or self._at_s - missed_s > self._settings.held_s:
            self._hope = -math.inf, None, missed_s
            return False
        if self._at_s - looked_s >= _LOOKED_S:
            tolerant = replace(now, goals=tuple(goal.tolerated for goal in now.goals))
            looked_s, best = self._at_s, self._in_the_long_run(tolerant)
            best = best if best.attained(now.goals) < 1 else None
        self._hope = looked_s, best, missed_s
        return best is not None

    def _held(self, weighing: Weighing, found: Mapping[Plan, Costs], now: Now) -> Costs:
        """Return the cheapest plan. If it releases workers, choose from the present plan and those that were cheapest
        recently or, in a calm stream, best in the long run: the cheapest with as many workers as any of these. A plan
        whose queue would grow is not chosen for a release."""
        cost = partial(worker_cost, self.stages)
        here = cost(now.active)

        def may_follow(each: Costs) -> bool:
            return each.lasts(now.goals) or (not self._is_calm and (each.plan == now.active or cost(each.plan) > here))

        wanted = min(list(filter(may_follow, found.values())) or found.values(), key=lambda costs: costs.total)
        _note(self._wanted, self._at_s, wanted, self._settings.held_s + now.start_s)
        if not self._is_calm:
            self._calm.clear()
        elif not self._calm or self._at_s - self._calm[-1][0] >= _LOOKED_S:
            _note(self._calm, self._at_s, self._in_the_long_run(now), self._settings.calm_after_s + now.start_s)
        if cost(wanted.plan) >= here:
            return wanted
        recent = dict.fromkeys(  # since then the limit of workers or the list may have changed
            costs.plan
            for _, costs in (*self._wanted, *self._calm)
            if costs.plan.workers <= now.most_workers and (now.listed is None or costs.plan in found)
        )
        least = min(here, max(map(cost, recent), default=0.0))
        plans = [each for each in (*recent, now.active) if cost(each) >= least and each.workers <= now.most_workers]
        weighed = filter(may_follow, weighing.weighed(plans) if plans else [])
        return min(weighed, key=lambda costs: costs.total, default=wanted)


@dataclass(slots=True)
class _Start:
    """The start of an app. Until it is over, late items are not counted: they waited for the first choice."""

    most_s: float
    began_s: float = math.inf
    """Time of the first choice."""
    settled_s: float = 0.0
    """Time after the first choice in which its workers start and the items that arrive then are due."""
    over: bool = False

    def begin(self, at_s: float, settled_s: float) -> None:
        self.began_s, self.settled_s = min(self.began_s, at_s), min(settled_s, self.most_s)

    def is_over(self, seen: Seen, goals: Sequence[Goal]) -> bool:
        if seen.at_s >= self.began_s + self.settled_s and not self.over:
            few = all(late <= (1 - goal.share) * seen.delivered for late, goal in zip(seen.late, goals, strict=True))
            self.over = (few and seen.delivered > 0) or seen.at_s - self.began_s > self.most_s
        return self.over


def _note(noted: deque[tuple[float, Costs]], at_s: float, costs: Costs, span_s: float) -> None:
    """Add the best plan of this turn, and drop those older than ``span_s``."""
    while noted and noted[0][0] < at_s - span_s:
        noted.popleft()
    noted.append((at_s, costs))
