"""Compute results of rows outside a stream: the stages of an app, in turn, as a worker runs them."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from apps import registry
from apps.contract import App, Outputs
from apps.expectations import read_item
from compositions.errors import RecomposeError
from compositions.model import StageKind, loads_of
from datapipe.sources.fed import why_of
from runtime.pools.calls import Calls
from runtime.pools.execute import Executed, StageError, execute
from runtime.pools.set_up import set_up
from service.runner.wiring.result_buffer import JsonForm, text_of


@dataclass(frozen=True, slots=True)
class Stages:
    """All stages of an app, for another process. A call returns a result for each row, as JSON."""

    name: str
    options: str
    apps_dirs: tuple[str, ...]

    def app(self) -> App:
        """Return a new app. Raises: RecomposeError for an unknown app, options or stages that keep state."""
        app = registry.create(self.name, json.loads(self.options), tuple(map(Path, self.apps_dirs)))
        kept = [stage.name for stage in app.stages if stage.kind is not StageKind.STATELESS]
        if kept:
            raise RecomposeError(
                f"app {self.name!r} cannot be run over a part of a table: stage {kept[0]!r} keeps state, so that its "
                "results depend on all rows before; start it with the table as its source"
            )
        return app

    def __call__(self, rows: Sequence[Any]) -> list[str]:
        app, calls = _of_process(self)
        items, results = [], [""] * len(rows)
        for place, row in enumerate(rows):
            try:
                items.append((place, read_item(app, row)))
            except Exception as error:  # any exception of an app concerns this row only
                results[place] = _error(f"{app.name} does not accept this row: {why_of(error)}")
        computed = _computed(calls, app, [value for _, value in items])
        for (place, _), result in zip(items, computed, strict=True):
            results[place] = result
        return results


@cache
def _of_process(stages: Stages) -> tuple[App, Calls]:
    """Return the process's only app: creating one may take as long as a thousand rows."""
    app = stages.app()
    set_up(lambda: app, loads_of(app.stages))
    return app, Calls(app)


def _computed(calls: Calls, app: App, values: Sequence[Any]) -> list[str]:
    """Return one result each; if one of several fails, each half is computed separately."""
    if not values:
        return []
    try:
        done = asyncio.run(execute(calls, tuple(stage.name for stage in app.stages), values, {}))
    except StageError as error:
        if len(values) == 1:
            return [_error(error.traceback_text)]
        half = len(values) // 2
        return _computed(calls, app, values[:half]) + _computed(calls, app, values[half:])
    return _texts(app, done)


def _texts(app: App, done: Executed) -> list[str]:
    faults = {fault.position: fault.error for fault in done.faults}
    formed = JsonForm(app, in_texts=True).of([None if place in faults else v for place, v in enumerate(done.values)])
    faults |= formed.faults
    if formed.texts is not None:
        results = [f'{{"value": {text}}}' for text in formed.texts]
    else:
        kinds = ("values" if type(value) is Outputs else "value" for value in formed.values)
        results = [text_of({kind: value}) for kind, value in zip(kinds, formed.values, strict=True)]
    for place, error in faults.items():
        results[place] = _error(error)
    return results


def _error(text: str) -> str:
    return json.dumps({"error": text}, ensure_ascii=False)
