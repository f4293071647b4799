"""Let a policy steer a run: measure for it, and make compositions of its answers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable

from compositions.errors import RecomposeError
from compositions.model import Composition
from control.choices import Choices
from control.decisions import NoChange, State, SwitchTo
from control.manager import Manager, TickResult
from control.settings import Settings
from control.strategies.base import Static
from lab.gym.model import Play
from lab.gym.policies.port import Given, Load, Measured, Policy, StageNow
from profiler.slo import SloStatus
from profiler.snapshot import Snapshot
from runtime.dispatch.outcomes import Outcome, TaskTimed
from runtime.dispatch.views import DispatcherView

_KEPT = 0.9
"""Of what a stage was utilized, from one turn to the next: about two seconds count."""


def given_of(play: Play) -> Given:
    """Return what a policy is told of a play before it begins: nothing of its load or its costs."""
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


class Steered(Manager):
    """Asks a policy at each turn, and passes on what it wants as soon as no change is under way."""

    def __init__(
        self,
        settings: Settings,
        choices: Choices,
        play: Play,
        policy: Policy,
        look: Callable[[], DispatcherView],
    ) -> None:
        super().__init__(settings, Static(), choices)
        self._given, self._bound_s = given_of(play), play.bound_s
        self._policy = policy
        self._announced = tuple(Load(each.from_s, each.until_s, each.rate_per_s) for each in play.announced)
        self._look = look
        self._wanted = choices.active
        self._busy_s, self._utilized = defaultdict[str, float](float), defaultdict[str, float](float)
        self._done = Counter[str]()
        self._arrived = self._delivered = self._in_time = self._delivered_before = self._in_time_before = 0
        self._at_s = 0.0

    def note(self, outcome: Outcome) -> None:
        """Count what came back from workers."""
        if isinstance(outcome, TaskTimed):
            for timing in outcome.timings:
                self._busy_s[timing.stage] += timing.wall_s
                self._done[timing.stage] += outcome.items

    def left(self, latency_s: float) -> None:
        """Count an item that was delivered."""
        self._delivered += 1
        self._in_time += latency_s <= self._bound_s

    def tick(self, now_s: float, snapshot: Snapshot) -> TickResult:
        """Take a turn. Raises: RecomposeError if the policy fails, or wants what cannot be."""
        view = self._look()
        if now_s > self._at_s:
            self._wanted = self._asked(self._measured(snapshot, view)) or self._wanted
        change = not view.switching and self._wanted.shape != view.composition.shape
        commands = (SwitchTo(self._wanted),) if change else ()
        return TickResult(commands, NoChange(now_s, "a policy decides"), State.STABLE, SloStatus.UNKNOWN)

    def _asked(self, measured: Measured) -> Composition | None:
        given = self._given
        try:
            self._policy.observe(measured)
            asked = self._policy.decide()
        except RecomposeError:
            raise
        except Exception as error:  # the user's own code, whatever it raises
            raise RecomposeError(f"it fails at {measured.at_s:g} s: {type(error).__name__}: {error}") from error
        if not isinstance(asked, Composition):
            return None
        if asked.stages != given.stages or asked.workers > given.workers:
            raise RecomposeError(
                f"it asked for {asked.name} with {asked.workers} workers and the stages {', '.join(asked.stages)}; "
                f"must be at most {given.workers} and {', '.join(given.stages)}"
            )
        return asked

    def _measured(self, snapshot: Snapshot, view: DispatcherView) -> Measured:
        arrived = snapshot.demand.offered if snapshot.demand is not None else snapshot.input.arrived
        latency_s = None if snapshot.latency is None else snapshot.latency.mean_s
        ready = Counter(worker.group for worker in view.workers)
        groups = {stage: index for index, group in enumerate(view.composition.groups) for stage in group.stages}
        replicas = {stage: self._wanted.group_of(stage).replicas for stage in self._given.stages}
        for stage in replicas:
            self._utilized[stage] = _KEPT * self._utilized[stage] + self._busy_s[stage] / replicas[stage]
        fullest = max(replicas, key=self._utilized.__getitem__)
        stages = tuple(
            StageNow(
                stage,
                replicas[stage],
                self._busy_s[stage],
                self._done[stage],
                view.positions.get(stage, 0) + (snapshot.backlog if stage == fullest else 0),
                ready[groups[stage]],
            )
            for stage in replicas
        )
        came = (
            arrived - self._arrived,
            (self._in_time - self._in_time_before, self._delivered - self._delivered_before),
        )
        elapsed_s, self._at_s, self._arrived = snapshot.now_s - self._at_s, snapshot.now_s, arrived
        self._in_time_before, self._delivered_before = self._in_time, self._delivered
        self._busy_s.clear()
        self._done.clear()
        return Measured(
            snapshot.now_s, elapsed_s, came[0], latency_s, snapshot.backlog, stages, came[1], self._announced
        )
