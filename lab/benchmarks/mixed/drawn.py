"""Random shapes of :class:`lab.benchmarks.mixed.apps.shaped.Shaped`, random compositions, and results of a plain loop.

For the mixed run, and for the property tests: ``chance`` may be hypothesis's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from random import Random

from apps.contract import Outputs
from compositions.model import Composition, Group, Pattern, Stage
from compositions.rules import most_replicas
from lab.benchmarks.mixed.apps.shaped import KINDS, MAY_FAIL, STATEFUL, Kind, Shape, Shaped
from lab.benchmarks.plain import by_item

REPLICAS = 3


def drawn_kinds(chance: Random, least: int = 1, most: int = 5) -> tuple[Kind, ...]:
    kinds = [chance.choice(KINDS) for _ in range(chance.randint(least, most))]
    stateful = min((at for at, kind in enumerate(kinds) if kind in STATEFUL), default=len(kinds))
    kinds[stateful:] = ["pairs" if kind in MAY_FAIL else kind for kind in kinds[stateful:]]
    return tuple(kinds)


def drawn_composition(chance: Random, stages: tuple[Stage, ...]) -> Composition:
    members = [[stages[0]]]
    for each in stages[1:]:
        if chance.choice((True, False)):
            members.append([each])
        else:
            members[-1].append(each)
    plain = tuple(Group(tuple(each.name for each in group)) for group in members)
    return resized(chance, Composition("", plain), stages)


def resized(chance: Random, composition: Composition, stages: tuple[Stage, ...]) -> Composition:
    """Return the same groups, with other numbers of replicas or, by chance, the same."""
    groups = tuple(_sized(group, chance.randint(1, REPLICAS), stages) for group in composition.groups)
    return replace(composition, name="/".join(map(_named, groups)), groups=groups)


def _sized(group: Group, replicas: int, stages: tuple[Stage, ...]) -> Group:
    replicas = min(replicas, most_replicas([stage for stage in stages if stage.name in group.stages]))
    return Group(group.stages, Pattern.SEQ if replicas == 1 else Pattern.PAR, replicas)


def _named(group: Group) -> str:
    return f"{'+'.join(group.stages)}*{group.replicas}"


# --- what comes out ---------------------------------------------------------------------------------------------------

Out = int | Outputs | None
"""The result of an item: one value; any number of them if a stage returned ``Outputs``; None: a stage raised."""


def plain_loop(kinds: tuple[Kind, ...], numbers: Iterable[int]) -> list[Out]:
    return by_item(Shaped(Shape(kinds=kinds)), numbers)
