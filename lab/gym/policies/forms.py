"""Give a rule that knows stages only the groups that it scales: each stage apart, or neighbours merged.

Systems that scale deployments leave it to their users what a deployment is. Users of a pipeline may deploy each stage
or the pipeline as a whole, so every rule is played in both forms. A group appears to the rule as one stage.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from compositions.errors import RecomposeError
from compositions.model import Composition
from lab.gym.model import Groups, compose, merged_groups
from lab.gym.policies.port import Given, Measured, Policy, Replicas, StageNow

MakePolicy = Callable[[Given], Policy]


def apart(make: MakePolicy) -> MakePolicy:
    """Return the same rule with a group for each stage."""
    return lambda given: Grouped(make, given, tuple((stage,) for stage in given.stages))


def merged(make: MakePolicy) -> MakePolicy:
    """Return the same rule for the fewest groups that may have replicas: neighbours together, state by itself."""
    return lambda given: Grouped(make, given, merged_groups(given.stages, given.stateful))


def granted(asked: Replicas, present: Mapping[str, int], workers: int) -> dict[str, int]:
    """Return the replicas for which there is room: fewer replicas first, then one more for each group in turn.

    Raises: RecomposeError if a group is unknown or is to have less than one replica.
    """
    for name, count in asked.items():
        if name not in present or not isinstance(count, int) or count < 1:
            raise RecomposeError(f"asked for {count!r} replicas of {name!r}; must be 1 or more of {', '.join(present)}")
    given = {name: min(count, asked.get(name, count)) for name, count in present.items()}
    room = workers - sum(given.values())
    while room > 0:
        short = [name for name, count in asked.items() if given[name] < count]
        if not short:
            break
        for name in short[:room]:
            given[name] += 1
        room -= len(short[:room])
    return given


class Grouped(Policy):
    """A rule that sees each group as a stage, and whose replicas become a composition."""

    def __init__(self, make: MakePolicy, given: Given, groups: Groups) -> None:
        self._given, self._groups = given, groups
        self._names = tuple("+".join(group) for group in groups)
        self._single = {
            name for name, group in zip(self._names, groups, strict=True) if set(group) & set(given.stateful)
        }
        self._present = dict.fromkeys(self._names, 1)
        self._rule = make(replace(given, stages=self._names, stateful=self._alone, prices=self._prices))
        self.WARM_S = getattr(self._rule, "WARM_S", Policy.WARM_S)  # a user's class need not inherit from it
        self._begun = False

    def observe(self, measured: Measured) -> None:
        by_name = {stage.name: stage for stage in measured.stages}
        groups = zip(self._names, self._groups, strict=True)
        stages = tuple(self._seen(name, [by_name[stage] for stage in group]) for name, group in groups)
        self._rule.observe(replace(measured, stages=stages))

    def decide(self) -> Replicas | Composition:
        asked = self._rule.decide() or {}
        if isinstance(asked, Composition):
            self._begun = True
            return asked
        if not isinstance(asked, Mapping):
            raise RecomposeError(f"it answered {asked!r}; must be replicas by stage, or a composition")
        wanted = {name: 1 if name in self._single else count for name, count in asked.items()}
        before = self._present
        self._present = granted(wanted, before, self._given.workers)
        if self._begun and self._present == before:
            return {}
        self._begun = True  # the first answer merges the groups, even if the rule has decided on replicas by then
        return compose(self._groups, tuple(self._present.values()))

    @property
    def _alone(self) -> tuple[str, ...]:
        return tuple(name for name in self._names if name in self._single)

    @property
    def _prices(self) -> tuple[int, ...]:
        """Return the price of a worker of each group, which must have the equipment of each of its stages."""
        prices = dict(zip(self._given.stages, self._given.prices, strict=True)) if self._given.prices else {}
        return tuple(sum(prices[stage] for stage in group) for group in self._groups) if prices else ()

    def _seen(self, name: str, stages: Sequence[StageNow]) -> StageNow:
        return StageNow(
            name=name,
            replicas=self._present[name],
            busy_s=sum(stage.busy_s for stage in stages),
            done=stages[-1].done,
            waiting=sum(stage.waiting for stage in stages),
            ready=min(stage.ready for stage in stages),
        )
