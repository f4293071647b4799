"""Let a player steer a run: a strategy of the product in its own loop, or a policy through its port."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from compositions.enumeration import own_list
from compositions.errors import RecomposeError
from compositions.model import Composition, concurrencies
from control.choices import Choices
from control.decisions import SwitchTo
from control.manager import Manager, TickResult
from control.settings import Measuring, Settings
from control.strategies.base import Strategy
from lab.gym.model import Play
from lab.gym.policies.port import Given, Load, Measured, Policy, StageNow
from profiler.drain_samples import KINDS
from profiler.monitor import Monitor, MonitorSettings
from profiler.slo import Slo
from profiler.snapshot import Announcement, Demand
from runtime.dispatch.outcomes import Delivered, Outcome, Shed, TaskTimed
from runtime.dispatch.views import DispatcherView
from runtime.engine import Engine
from service.runner.loop import TICK_S, ControlLoop, LoopSettings

LATENCY_WINDOW_S = 10.0
_DECAY = 0.9
"""Weight of a stage's utilization after one more turn: about the last two seconds count."""

Take = Callable[[Delivered | Shed], None]


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the composition that has begun."""

    at_s: float
    composition: str
    reason: str


class Steering(Protocol):
    """The part that advances the engine and changes its composition."""

    changes: list[Change]

    def came(self, times_s: Sequence[float]) -> None:
        """Record items that were due at these times."""

    def asked(self, now_s: float, demand: Demand) -> None:
        """Record the numbers of items that have come and that were admitted."""

    def step(self, until_s: float) -> None:
        """Advance until an event happens, or until ``until_s``."""


class ByStrategy:
    """The product's own monitor, manager and loop, with the compositions that its users get."""

    def __init__(self, play: Play, strategy: Strategy, engine: Engine, first: Composition, take: Take) -> None:
        stages, machine = play.app_stages, play.machine
        settings = Settings(measuring=Measuring(latency_from=strategy.latency_from), style=strategy.style)
        slo = Slo("latency", 1e3 * play.bound_s, statistic="share", share=play.share)
        choices = Choices(stages, own_list(stages, machine.most_workers / 2), first, generated=True)
        manager = Manager(settings, strategy, choices, slo=slo)
        manager.announce([Announcement(each.from_s, each.until_s, each.rate_per_s) for each in play.announced])
        names = [stage.name for stage in stages]
        self._monitor = Monitor(MonitorSettings(), names, machine.cores, concurrencies(stages))
        how = LoopSettings(lambda: machine.cores, settings.style, KINDS[strategy.drain_sample]())
        self._loop = ControlLoop(engine, self._monitor, manager, how, take)
        self._turn: TickResult | None = None
        self.changes: list[Change] = []

    def came(self, times_s: Sequence[float]) -> None:
        self._monitor.record_arrivals(times_s)

    def asked(self, now_s: float, demand: Demand) -> None:
        self._monitor.record_demand(now_s, demand)

    def step(self, until_s: float) -> None:
        self._loop.step(until_s)
        result = self._loop.result
        if result is None or result is self._turn:
            return
        self._turn = result
        for command in result.commands:
            if isinstance(command, SwitchTo):
                change = Change(self._loop.engine.now_s, command.composition.name, result.decision.reason)
                self.changes.append(change)


def given_of(play: Play) -> Given:
    """Return what a policy knows of a play in advance; its load and its costs are not part of it."""
    return Given(
        stages=tuple(stage.name for stage in play.stages),
        bound_s=play.bound_s,
        workers=play.machine.most_workers,
        share=play.share,
        cores=play.machine.cores,
        start_s=play.machine.start_s,
        stateful=tuple(stage.name for stage in play.stages if stage.stateful),
        prices=tuple(stage.price for stage in play.stages),
    )


class ByPolicy:
    """Ask a policy four times a second, and carry out its answer when no change is in progress.

    After a change of groups, items go to the new composition at once, as a policy has no estimate of the drain.
    """

    def __init__(self, play: Play, policy: Policy, engine: Engine, first: Composition, take: Take) -> None:
        self._given, self._policy, self._engine, self._take = given_of(play), policy, engine, take
        self._announced = tuple(Load(each.from_s, each.until_s, each.rate_per_s) for each in play.announced)
        self._wanted = first
        self._busy_s, self._utilized = defaultdict[str, float](float), defaultdict[str, float](float)
        self._done = Counter[str]()
        self._arrived = self._delivered = self._in_time = 0
        self._shown = (0, 0, 0)
        """The same three counts, as of the last turn."""
        self._latencies = deque[tuple[float, float]]()
        self._latency_sum_s = 0.0
        self._turn_s = self._next_turn_s = 0.0
        self.changes: list[Change] = []

    def came(self, times_s: Sequence[float]) -> None:
        self._arrived += len(times_s)

    def asked(self, now_s: float, demand: Demand) -> None:
        """Do nothing: a policy sees waiting items in the backlog."""

    def step(self, until_s: float) -> None:
        """Take a turn. Raises: RecomposeError if the policy fails, or requests something impossible."""
        for outcome in self._engine.advance(min(until_s, self._next_turn_s)):
            self._note(outcome)
        now_s = self._engine.now_s
        if now_s >= self._next_turn_s:
            self._next_turn_s = max(self._next_turn_s + TICK_S, now_s)
            if now_s > self._turn_s:
                self._turn(now_s)

    def _note(self, outcome: Outcome) -> None:
        if isinstance(outcome, TaskTimed):
            for timing in outcome.timings:
                self._busy_s[timing.stage] += timing.wall_s
                self._done[timing.stage] += outcome.items
        elif isinstance(outcome, Delivered | Shed):
            self._take(outcome)
            if isinstance(outcome, Delivered):
                for since_s in outcome.since_s:
                    latency_s = outcome.at_s - since_s
                    self._delivered += 1
                    self._in_time += latency_s <= self._given.bound_s
                    self._latencies.append((outcome.at_s, latency_s))
                    self._latency_sum_s += latency_s

    def _turn(self, now_s: float) -> None:
        view = self._engine.view()
        self._wanted = self._asked_for(self._measured(now_s, view)) or self._wanted
        if not view.switching and self._wanted.shape != view.composition.shape:
            self._engine.switch(self._wanted)
            self.changes.append(Change(now_s, self._wanted.name, ""))

    def _asked_for(self, measured: Measured) -> Composition | None:
        given = self._given
        try:
            self._policy.observe(measured)
            asked = self._policy.decide()
        except RecomposeError:
            raise
        except Exception as error:  # code of the user, which may raise anything
            raise RecomposeError(f"it fails at {measured.at_s:g} s: {type(error).__name__}: {error}") from error
        if not isinstance(asked, Composition):
            return None
        if asked.stages != given.stages or asked.workers > given.workers:
            raise RecomposeError(
                f"it asked for {asked.name} with {asked.workers} workers and the stages {', '.join(asked.stages)}; "
                f"must be at most {given.workers} and {', '.join(given.stages)}"
            )
        return asked

    def _measured(self, now_s: float, view: DispatcherView) -> Measured:
        elapsed_s, self._turn_s = now_s - self._turn_s, now_s
        arrived, in_time, delivered = self._shown
        self._shown = (self._arrived, self._in_time, self._delivered)
        backlog = view.queued + self._arrived - view.accepted
        measured = Measured(
            now_s,
            elapsed_s,
            self._arrived - arrived,
            self._latency_s(now_s),
            backlog,
            self._stages(view, backlog),
            (self._in_time - in_time, self._delivered - delivered),
            self._announced,
        )
        self._busy_s.clear()
        self._done.clear()
        return measured

    def _latency_s(self, now_s: float) -> float | None:
        while self._latencies and self._latencies[0][0] < now_s - LATENCY_WINDOW_S:
            self._latency_sum_s -= self._latencies.popleft()[1]
        return self._latency_sum_s / len(self._latencies) if self._latencies else None

    def _stages(self, view: DispatcherView, backlog: int) -> tuple[StageNow, ...]:
        ready = Counter(worker.group for worker in view.workers)
        groups = {stage: index for index, group in enumerate(view.composition.groups) for stage in group.stages}
        replicas = {stage: self._wanted.group_of(stage).replicas for stage in self._given.stages}
        for stage, count in replicas.items():
            self._utilized[stage] = _DECAY * self._utilized[stage] + self._busy_s[stage] / count
        fullest = max(replicas, key=self._utilized.__getitem__)
        return tuple(
            StageNow(
                stage,
                count,
                self._busy_s[stage],
                self._done[stage],
                view.positions.get(stage, 0) + (backlog if stage == fullest else 0),
                ready[groups[stage]],
            )
            for stage, count in replicas.items()
        )
