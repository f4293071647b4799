"""Random shapes of :class:`lab.benchmarks.mixed.apps.shaped.Shaped`, random compositions, and what a plain loop gives.

For the mixed run, and for the property tests: ``chance`` may be hypothesis's.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable
from dataclasses import replace
from random import Random
from typing import Any

from apps.contract import Outputs
from compositions.model import Composition, Group, Pattern, Stage, StageKind
from compositions.rules import most_replicas
from lab.benchmarks.mixed.apps.shaped import KINDS, MAY_FAIL, STATEFUL, Kind, Shape, Shaped

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
    """The same groups, with other numbers of replicas, or the same by chance."""
    groups = tuple(_sized(group, chance.randint(1, REPLICAS), stages) for group in composition.groups)
    return replace(composition, name="/".join(map(_named, groups)), groups=groups)


def _sized(group: Group, replicas: int, stages: tuple[Stage, ...]) -> Group:
    replicas = min(replicas, most_replicas([stage for stage in stages if stage.name in group.stages]))
    return Group(group.stages, Pattern.SEQ if replicas == 1 else Pattern.PAR, replicas)


def _named(group: Group) -> str:
    return f"{'+'.join(group.stages)}*{group.replicas}"


# --- what comes out ---------------------------------------------------------------------------------------------------

Out = int | Outputs | None
"""Of an item: one value; any number of them where a stage said so; None: a stage raised."""


def plain_loop(kinds: tuple[Kind, ...], numbers: Iterable[int]) -> list[Out]:
    """Written without anything of ours but the stages."""
    return asyncio.run(_plain_loop(Shaped(Shape(kinds=kinds)), numbers))


async def _plain_loop(app: Shaped, numbers: Iterable[int]) -> list[Out]:
    states: dict[str, Any] = {}
    return [await _through(app, number, states) for number in numbers]


async def _through(app: Shaped, number: int, states: dict[str, Any]) -> Out:
    values, several = [number], False
    try:
        for stage in app.stages:
            results = [await _called(app, stage, value, states) for value in values]
            several = several or any(isinstance(result, Outputs) for result in results)
            values = [value for result in results for value in (result if isinstance(result, Outputs) else [result])]
    except ValueError:
        return None
    return Outputs(values) if several else values[0]


async def _called(app: Shaped, stage: Stage, value: int, states: dict[str, Any]) -> Any:
    method: Callable[..., Any] = getattr(app, stage.name)
    argument = [value] if stage.batch else value
    if stage.kind is StageKind.STATEFUL:
        result, states[stage.name] = method(argument, states.get(stage.name))
    elif stage.kind is StageKind.PARTITIONED:
        mine, key = states.setdefault(stage.name, {}), app.key(value)
        if stage.batch:
            result, left = method(argument, {key: mine.get(key)})
            mine.update(left)
        else:
            result, mine[key] = method(value, mine.get(key))
    else:
        result = method(argument)
    if inspect.isawaitable(result):
        result = await result
    if inspect.isgenerator(result):
        result = Outputs(result)
    if stage.batch:
        (result,) = result  # ValueError where it returned too few
    return result
