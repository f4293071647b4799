"""Runs adjacent stages of an app on the items of a task, where the worker lives, and times each stage."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter, thread_time
from typing import Any, cast
from weakref import WeakKeyDictionary

from apps.contract import App
from compositions.errors import RecomposeError
from compositions.model import StageKind
from profiler.snapshot import StageTiming
from runtime.dispatch.events import ItemFault


@dataclass(frozen=True, slots=True)
class Executed:
    """What came out: the values after the last stage, one timing a stage for all of them, the new states of the
    stateful stages, and the items on which a stage raised, by position, whose values mean nothing."""

    values: list[Any]
    timings: tuple[StageTiming, ...]
    states: dict[str, Any]
    faults: tuple[ItemFault, ...] = ()


class StageError(RecomposeError):
    """A stage raised, and nothing of the task is done; ``traceback_text`` begins in the stage, not in the frames around
    it. ``position``: of the item at fault; None: any may be."""

    def __init__(self, stage: str, traceback_text: str, position: int | None = 0) -> None:
        self.stage = stage
        self.traceback_text = traceback_text
        self.position = position
        super().__init__(f"stage {stage!r} raised: {traceback_text}")


_stateful_of: WeakKeyDictionary[App, frozenset[str]] = WeakKeyDictionary()


def _stateful(app: App) -> frozenset[str]:
    """Names of the stages that keep a state; looked up once an instance, for instances may have stages of their own."""
    found = _stateful_of.get(app)
    if found is None:
        found = frozenset(stage.name for stage in app.stages if stage.kind is StageKind.STATEFUL)
        _stateful_of[app] = found
    return found


def run_stages(app: App, stages: tuple[str, ...], values: Sequence[Any], states: Mapping[str, Any]) -> Executed:
    """Runs ``stages`` in this order, each on what the one before it returned, item by item.

    Wall time is ``perf_counter``, CPU time that of the calling thread alone; both in seconds, for all items together. A
    stateful stage whose state is missing from ``states`` gets ``None``, as before its first item.

    Raises: StageError when a stage raises where one of ``stages`` is stateful: a state that saw a part of the items is
    of no use, so the task is not done at all. Elsewhere a fault is the item's own (``Executed.faults``).
    """
    stateful = _stateful(app).intersection(stages)
    run = _Run(values, stateful != frozenset())
    new_states = {}
    for name in stages:
        if name in stateful:
            new_states[name] = run.one_by_one(name, _method(app, name), states.get(name))
        else:
            run.stage(name, _method(app, name))
    return run.executed(new_states)


def _method(app: App, name: str) -> Callable[..., Any]:
    try:
        return cast(Callable[..., Any], getattr(app, name))
    except AttributeError as error:
        raise StageError(name, _traceback_from_stage(error), None) from error


class _Run:
    """The items of a task on their way through its stages. ``whole``: a fault of one is the end for all."""

    def __init__(self, values: Sequence[Any], whole: bool) -> None:
        self._values = list(values)
        self._whole = whole
        self._at: list[int] | None = None
        """Positions in the task of those that are left; None: all are."""
        self._faults: list[ItemFault] = []
        self._timings: list[StageTiming] = []
        self._wall_s, self._cpu_s = perf_counter(), thread_time()

    def stage(self, name: str, call: Callable[[Any], Any]) -> None:
        out: list[Any] = []
        failed: list[int] = []
        calls, expected = map(call, self._values), len(self._values)
        while len(out) < expected:
            try:
                out.extend(calls)  # what came before the one that raises is kept, and the rest can be had after it
                if len(out) < expected:  # a map ends where its function raises this
                    raise RuntimeError("the stage raised StopIteration")
            except (Exception, SystemExit) as error:  # sys.exit() in a stage fails its item, not the worker
                self._fail(name, len(out), error)
                failed.append(len(out))
                out.append(None)
        self._values = out
        if failed:
            self._leave_out(failed)
        self._timed(name)

    def one_by_one(self, name: str, call: Callable[[Any, Any], tuple[Any, Any]], state: Any) -> Any:
        """A stateful stage; returns the state that it leaves."""
        out: list[Any] = []
        try:
            for value in self._values:
                result, state = call(value, state)
                out.append(result)
        except (Exception, SystemExit) as error:
            self._fail(name, len(out), error)
        self._values = out
        self._timed(name)
        return state

    def executed(self, states: dict[str, Any]) -> Executed:
        if self._at is not None:
            whole: list[Any] = [None] * (len(self._at) + len(self._faults))
            for position, value in zip(self._at, self._values, strict=True):
                whole[position] = value
            self._values = whole
        return Executed(self._values, tuple(self._timings), states, tuple(self._faults))

    def _fail(self, name: str, index: int, error: BaseException) -> None:
        position = index if self._at is None else self._at[index]
        text = _traceback_from_stage(error)
        if self._whole:
            raise StageError(name, text, position) from error
        self._faults.append(ItemFault(position, name, text))

    def _leave_out(self, failed: Sequence[int]) -> None:
        gone = frozenset(failed)
        at = range(len(self._values)) if self._at is None else self._at
        self._at = [position for index, position in enumerate(at) if index not in gone]
        self._values = [value for index, value in enumerate(self._values) if index not in gone]

    def _timed(self, name: str) -> None:
        """The end of a stage is the start of the next: clocks are read once a boundary, they cost as much as a call."""
        wall_s, cpu_s = perf_counter(), thread_time()
        self._timings.append(StageTiming(name, wall_s - self._wall_s, cpu_s - self._cpu_s))
        self._wall_s, self._cpu_s = wall_s, cpu_s


def _traceback_from_stage(error: BaseException) -> str:
    inside = error.__traceback__.tb_next if error.__traceback__ else None
    return "".join(traceback.format_exception(type(error), error, inside or error.__traceback__)).rstrip()
