"""Registered apps in answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from apps.contract import App
from compositions.model import Composition, Stage
from control.decisions import State
from service.bodies.base import Answer


class StageInfo(Answer):
    name: str
    kind: str
    batch: bool = False
    columns: list[tuple[str, str]] = []
    """Names and Arrow types of what a batch stage gets."""
    concurrency: int = 1
    """Calls that wait at a time in one worker."""

    @classmethod
    def of(cls, stage: Stage) -> StageInfo:
        columns = list(stage.columns)
        return cls(
            name=stage.name, kind=str(stage.kind), batch=stage.batch, columns=columns, concurrency=stage.concurrency
        )


class AppInfo(Answer):
    name: str
    description: str
    stages: list[StageInfo]
    compositions: list[str]
    options: dict[str, Any]
    """Their JSON schema."""
    input_classes: dict[str, int] = {}
    """Amounts of input by name, in items: what ``--items`` of the command line may be."""
    running: bool
    state: State

    @classmethod
    def of(cls, app: type[App], compositions: Sequence[Composition], state: State) -> AppInfo:
        return cls(
            name=app.name,
            description=app.description,
            stages=[StageInfo.of(stage) for stage in app.stages],
            compositions=[composition.name for composition in compositions],
            options=app.options_model.model_json_schema(),
            input_classes=dict(app.input_classes),
            running=state not in (State.STOPPED, State.FAILED),
            state=state,
        )
