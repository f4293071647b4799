"""Runs adjacent stages of an app on one value, where the worker lives, and times each of them."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter, thread_time
from typing import Any
from weakref import WeakKeyDictionary

from apps.contract import App
from compositions.errors import RecomposeError
from compositions.model import StageKind
from profiler.snapshot import StageTiming


@dataclass(frozen=True, slots=True)
class Executed:
    """What came out: the value after the last stage, one timing a stage, the new states of the stateful ones."""

    value: Any
    timings: tuple[StageTiming, ...]
    states: dict[str, Any]


class StageError(RecomposeError):
    """A stage raised; ``traceback_text`` begins in the stage, not in the frames around it."""

    def __init__(self, stage: str, traceback_text: str) -> None:
        self.stage = stage
        self.traceback_text = traceback_text
        super().__init__(f"stage {stage!r} raised: {traceback_text}")


_stateful_of: WeakKeyDictionary[App, frozenset[str]] = WeakKeyDictionary()


def _stateful(app: App) -> frozenset[str]:
    """Names of the stages that keep a state; looked up once an instance, for instances may have stages of their own."""
    found = _stateful_of.get(app)
    if found is None:
        found = frozenset(stage.name for stage in app.stages if stage.kind is StageKind.STATEFUL)
        _stateful_of[app] = found
    return found


def run_stages(app: App, stages: tuple[str, ...], value: Any, states: Mapping[str, Any]) -> Executed:
    """Runs ``stages`` in this order, each on what the one before it returned.

    Wall time is ``perf_counter``, CPU time that of the calling thread alone; both in seconds. A stateful stage whose
    state is missing from ``states`` gets ``None``, as before its first item.

    Raises: StageError when a stage raises, or a stateful one does not return a pair.
    """
    stateful = _stateful(app)
    timings = []
    new_states = {}
    name = ""
    wall, cpu = perf_counter(), thread_time()
    try:
        for name in stages:
            if name in stateful:
                value, new_states[name] = getattr(app, name)(value, states.get(name))
            else:
                value = getattr(app, name)(value)
            # The end of a stage is the start of the next: clocks are read once a boundary, they cost as much as a call.
            wall_end, cpu_end = perf_counter(), thread_time()
            timings.append(StageTiming(name, wall_end - wall, cpu_end - cpu))
            wall, cpu = wall_end, cpu_end
    except (Exception, SystemExit) as error:  # sys.exit() in a stage fails its item, not the worker
        raise StageError(name, _traceback_from_stage(error)) from error
    return Executed(value, tuple(timings), new_states)


def _traceback_from_stage(error: BaseException) -> str:
    inside = error.__traceback__.tb_next if error.__traceback__ else None
    return "".join(traceback.format_exception(type(error), error, inside or error.__traceback__)).rstrip()
