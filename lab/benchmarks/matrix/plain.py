"""A plain loop over an app: its results are what any composition has to deliver, byte for byte."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from apps.contract import App, Outputs
from compositions.model import Stage, StageKind


def serial(app: App, items: Iterable[Any] | None = None) -> list[Any]:
    """Stage after stage over all ``items``, those of the app if none are given."""
    app.setup()
    states: dict[Any, Any] = {}
    values = list(app.items(None) if items is None else items)
    for stage in app.stages:
        made: list[Any] = []
        for value in values:
            got = _called(app, stage, value, states)
            made += got if isinstance(got, Outputs) else [got]
        values = made
    return values


def _called(app: App, stage: Stage, value: Any, states: dict[Any, Any]) -> Any:
    method = getattr(app, stage.name)
    if stage.batch:
        schema = pa.schema([(name, pa.type_for_alias(kind)) for name, kind in stage.columns])
        return method(pa.RecordBatch.from_pylist([value], schema=schema))[0]
    if stage.kind is StageKind.STATELESS:
        return method(value)
    key = getattr(app, f"{stage.name}_key")(value) if stage.kind is StageKind.PARTITIONED else None
    got, states[stage.name, key] = method(value, states.get((stage.name, key)))
    return got
