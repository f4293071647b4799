"""A policy at the helm of a simulated run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from compositions.errors import RecomposeError
from compositions.model import Composition, Group, Pattern
from profiler.snapshot import Snapshot
from runtime.dispatch.outcomes import Outcome, TaskTimed
from runtime.dispatch.views import DispatcherView
from service.gym.policies.port import Given, Measured, Policy, Replicas, StageNow

_KEPT = 0.9
"""Of what a stage was utilized, from one turn to the next: about two seconds count."""


def parallel(replicas: Mapping[str, int]) -> Composition:
    """Each stage a group of its own."""
    groups = tuple(Group((stage,), Pattern.PAR, count) for stage, count in replicas.items())
    return Composition("replicas " + "-".join(str(count) for count in replicas.values()), groups)


def granted(asked: Replicas, present: Mapping[str, int], most: int) -> dict[str, int]:
    """What is asked for, as far as there is room for it: what is given back first, then one more a stage in turn.

    Raises: RecomposeError when a stage is not one of the app's, or is to have less than one replica.
    """
    for stage, count in asked.items():
        if stage not in present or not isinstance(count, int) or count < 1:
            stages = ", ".join(present)
            raise RecomposeError(f"a policy asked for {count!r} replicas of {stage!r}; must be 1 or more of {stages}")
    given = {stage: min(count, asked.get(stage, count)) for stage, count in present.items()}
    while sum(given.values()) < most:
        short = [stage for stage, count in asked.items() if given[stage] < count]
        if not short:
            break
        for stage in short[: most - sum(given.values())]:
            given[stage] += 1
    return given


class Piloting:
    """Measures for the policy, and makes a composition of what it says."""

    def __init__(self, given: Given, policy: Policy) -> None:
        self._given, self._policy = given, policy
        self._replicas = dict.fromkeys(given.stages, 1)
        self._busy_s = defaultdict[str, float](float)
        self._done = defaultdict[str, int](int)
        self._utilized = defaultdict[str, float](float)
        self._arrived, self._at_s = 0, 0.0

    def observe(self, outcome: Outcome) -> None:
        if isinstance(outcome, TaskTimed):
            for timing in outcome.timings:
                self._busy_s[timing.stage] += timing.wall_s
                self._done[timing.stage] += outcome.items

    def decide(self, snapshot: Snapshot, view: DispatcherView) -> Composition | None:
        """Raises: RecomposeError when the policy fails, or wants what cannot be."""
        if snapshot.now_s <= self._at_s:  # no time has passed in which anything could be measured
            return None
        asked = self._asked(self._measured(snapshot, view))
        if not asked:
            return None
        if isinstance(asked, Composition):
            self._replicas = {stage: asked.group_of(stage).replicas for stage in self._given.stages}
            return asked
        self._replicas = granted(asked, self._replicas, self._given.workers)
        return parallel(self._replicas)

    def _asked(self, measured: Measured) -> Replicas | Composition | None:
        name, given = type(self._policy).__name__, self._given
        try:
            self._policy.observe(measured)
            asked = self._policy.decide()
        except Exception as error:  # the user's own code, whatever it raises
            raise RecomposeError(
                f"policy {name} fails at {measured.at_s:g} s: {type(error).__name__}: {error}"
            ) from error
        if isinstance(asked, Composition) and (asked.stages != given.stages or asked.workers > given.workers):
            raise RecomposeError(
                f"policy {name} asked for {asked.name} with {asked.workers} workers and the stages "
                f"{', '.join(asked.stages)}; must be at most {given.workers} and {', '.join(given.stages)}"
            )
        if asked is not None and not isinstance(asked, Composition | Mapping):
            raise RecomposeError(f"policy {name} answered {asked!r}; must be replicas by stage, or a composition")
        return asked

    def _measured(self, snapshot: Snapshot, view: DispatcherView) -> Measured:
        arrived = snapshot.demand.offered if snapshot.demand is not None else snapshot.input.arrived
        latency_s = None if snapshot.latency is None else snapshot.latency.mean_s
        for name in self._given.stages:
            self._utilized[name] = _KEPT * self._utilized[name] + self._busy_s[name] / self._replicas[name]
        stages = tuple(self._stage(name, snapshot, view) for name in self._given.stages)
        elapsed_s, came = snapshot.now_s - self._at_s, arrived - self._arrived
        self._at_s, self._arrived = snapshot.now_s, arrived
        self._busy_s.clear()
        self._done.clear()
        return Measured(snapshot.now_s, elapsed_s, came, latency_s, snapshot.backlog, stages)

    def _stage(self, name: str, snapshot: Snapshot, view: DispatcherView) -> StageNow:
        held_back = snapshot.backlog if name == max(self._given.stages, key=self._utilized.__getitem__) else 0
        waiting = view.positions.get(name, 0) + held_back
        return StageNow(name, self._replicas[name], self._busy_s[name], self._done[name], waiting)
