"""A plain loop over an app, written without the runtime: every composition must deliver the same results."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from apps.contract import App, Outputs
from compositions.model import Stage, StageKind

States = dict[str, Any]


def serial(app: App, items: Iterable[Any] | None = None) -> list[Any]:
    """Return all results for ``items`` (default: the app's), computed one after the other."""
    app.setup()
    return asyncio.run(_serial(app, app.items(None) if items is None else items))


async def _serial(app: App, items: Iterable[Any]) -> list[Any]:
    states: States = {}
    return [value for item in items for value in (await _through(app, item, states))[0]]


def by_item(app: App, items: Iterable[Any]) -> list[Any]:
    """Return the result of each item: a value, ``Outputs`` if a stage returned some, or None if a stage raised."""
    return asyncio.run(_by_item(app, items))


async def _by_item(app: App, items: Iterable[Any]) -> list[Any]:
    states: States = {}
    results = []
    for item in items:
        try:
            values, several = await _through(app, item, states)
            results.append(Outputs(values) if several else values[0])
        except ValueError:
            results.append(None)
    return results


async def _through(app: App, item: Any, states: States) -> tuple[list[Any], bool]:
    values, several = [item], False
    for stage in app.stages:
        results = [await _called(app, stage, value, states) for value in values]
        several = several or any(isinstance(result, Outputs) for result in results)
        values = [value for result in results for value in (result if isinstance(result, Outputs) else [result])]
    return values, several


async def _called(app: App, stage: Stage, value: Any, states: States) -> Any:
    method: Callable[..., Any] = getattr(app, stage.name)
    argument = _bundle(stage, value) if stage.batch else value
    if stage.kind is StageKind.STATEFUL:
        result, states[stage.name] = method(argument, states.get(stage.name))
    elif stage.kind is StageKind.PARTITIONED:
        mine, key = states.setdefault(stage.name, {}), getattr(app, f"{stage.name}_key")(value)
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
        (result,) = result  # ValueError if it returned too few
    return result


def _bundle(stage: Stage, value: Any) -> Any:
    if not stage.columns:
        return [value]
    schema = pa.schema([(name, pa.type_for_alias(kind)) for name, kind in stage.columns])
    return pa.RecordBatch.from_pylist([value], schema=schema)
