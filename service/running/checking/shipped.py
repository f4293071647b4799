"""The compositions that come with an app, and those of a list that an instance of it can run."""

from __future__ import annotations

import os
from collections.abc import Sequence

from apps import registry
from apps.contract import App
from compositions.document import loader
from compositions.enumeration import own_list
from compositions.errors import CompositionError, Fault
from compositions.model import Composition


def shipped(app: type[App]) -> tuple[Composition, ...]:
    """The compositions in the app's own file, or in the one shipped. Raises: CompositionError, with the file."""
    path = registry.compositions_file(app)
    if path is None:
        return ()
    try:
        return tuple(loader.load(path.read_bytes(), {app.name: app.stages}).compositions)
    except CompositionError as error:
        raise CompositionError([Fault(f"{path}", str(fault)) for fault in error.faults]) from error


def choices_for(app: App, known: Sequence[Composition] | None = None) -> tuple[Composition, ...]:
    """Those of ``known`` (default: shipped) that fit this instance, whose options may have changed its stages."""
    stages = tuple(stage.name for stage in app.stages)
    found = shipped(type(app)) if known is None else known
    return tuple(each for each in found if each.stages == stages) or own_list(app.stages, available_cores())


def available_cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0))
