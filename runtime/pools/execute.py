"""Run adjacent stages of an app on the items of a task, in the worker, and time each stage."""

import traceback
from collections.abc import Container, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from time import perf_counter, thread_time
from typing import Any, TypeVar, cast

from compositions.errors import RecomposeError
from profiler.snapshot import StageTiming
from runtime.dispatch.events import ItemFault
from runtime.pools.calls import Call, Calls, TogetherError
from runtime.transport.values import any_outputs, gathered, owners, spread, unnested

T = TypeVar("T")
_HERE = __file__.removesuffix("execute.py")
"""Frames of this folder are not the stage's."""


@dataclass(frozen=True, slots=True)
class Executed:
    """The result of a task: the values after the last stage, one timing a stage for all of them, the new states of the
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


def run_now(work: Coroutine[Any, Any, T]) -> T:
    """Runs to its end what has nothing to wait for, without an event loop."""
    try:
        work.send(None)
    except StopIteration as end:
        return cast(T, end.value)
    work.close()
    raise AssertionError("a stage that is an async def runs in an event loop")


async def execute(
    calls: Calls,
    stages: tuple[str, ...],
    values: Sequence[Any],
    states: Mapping[str, Any],
    broken: Sequence[ItemFault] = (),
) -> Executed:
    """Runs ``stages`` in this order, each on what the one before it returned. ``broken``: values that no stage gets,
    faults from the beginning.

    Wall time is ``perf_counter``, CPU time that of the calling thread alone; both in seconds, for all items together. A
    stateful stage whose state is missing from ``states`` gets ``None``, as before its first item.

    Raises: StageError when a stage raises where one of ``stages`` is stateful: a state that saw a part of the items is
    of no use, so the task is not done at all. Elsewhere a fault is the item's own (``Executed.faults``), but for a
    batch stage that raises on several: any may be at fault, so the task is not done either.
    """
    stateful = calls.stateful.intersection(stages)
    run = _Run(values, broken, stateful != frozenset())
    new_states = {}
    for name in stages:
        state = await run.stage(name, _call(calls, name), states.get(name))
        if name in stateful and name not in calls.keyed:
            new_states[name] = state
    return run.executed(new_states)


def _call(calls: Calls, name: str) -> Call:
    try:
        return calls.of(name)
    except AttributeError as error:
        raise StageError(name, traceback_from_stage(error), None) from error


class _Run:
    """The items of a task on their way through its stages. ``whole``: a fault of one is the end for all."""

    def __init__(self, values: Sequence[Any], broken: Sequence[ItemFault], whole: bool) -> None:
        self._values = list(values)
        self._whole = whole
        self._at: list[int] | None = None
        """Positions in the task of those that are left; None: all are."""
        self._faults = list(broken)
        if broken:
            self._keep_but({fault.position for fault in broken})
        self._several = any_outputs(self._values)
        """An item may be several values, or none."""
        self._timings: list[StageTiming] = []
        self._wall_s, self._cpu_s = perf_counter(), thread_time()

    async def stage(self, name: str, call: Call, state: Any) -> Any:
        """Returns the state that it leaves."""
        values, counts = spread(self._values) if self._several else (self._values, None)
        try:
            called = await call(values, state)
        except TogetherError as error:
            raise StageError(name, traceback_from_stage(error.__cause__ or error), None) from error
        self._values, failed = called.values, called.failed
        if counts is not None:
            self._values, owner = gathered(self._values, counts), owners(counts)
            failed = {owner[index]: failed[index] for index in sorted(failed, reverse=True)}  # the first of each item
        self._several = any_outputs(self._values)
        if self._several:
            self._values = unnested(self._values)
        if failed:
            self._fail(name, failed)
        self._timed(name, called.waited)
        return called.state

    def executed(self, states: dict[str, Any]) -> Executed:
        if self._at is not None:
            whole: list[Any] = [None] * (len(self._at) + len(self._faults))
            for position, value in zip(self._at, self._values, strict=True):
                whole[position] = value
            self._values = whole
        return Executed(self._values, tuple(self._timings), states, tuple(self._faults))

    def _fail(self, name: str, failed: Mapping[int, BaseException]) -> None:
        """Items at these indexes are at fault, and leave."""
        at = range(len(self._values)) if self._at is None else self._at
        for index, error in sorted(failed.items(), key=itemgetter(0)):
            text = traceback_from_stage(error)
            if self._whole:
                raise StageError(name, text, at[index]) from error
            self._faults.append(ItemFault(at[index], name, text))
        self._keep_but(failed)

    def _keep_but(self, gone: Container[int]) -> None:
        """Those at these indexes leave."""
        at = range(len(self._values)) if self._at is None else self._at
        self._at = [position for index, position in enumerate(at) if index not in gone]
        self._values = [value for index, value in enumerate(self._values) if index not in gone]

    def _timed(self, name: str, waited: tuple[float, float] | None) -> None:
        """The end of a stage is the start of the next: clocks are read once a boundary, they cost as much as a call."""
        wall_s, cpu_s = perf_counter(), thread_time()
        own_wall_s, own_cpu_s = waited or (wall_s - self._wall_s, cpu_s - self._cpu_s)
        self._timings.append(StageTiming(name, own_wall_s, own_cpu_s))
        self._wall_s, self._cpu_s = wall_s, cpu_s


def traceback_from_stage(error: BaseException) -> str:
    """Without the frames around the stage, where it got so far."""
    inside = error.__traceback__
    while inside is not None and inside.tb_frame.f_code.co_filename.startswith(_HERE):
        inside = inside.tb_next
    return "".join(traceback.format_exception(type(error), error, inside or error.__traceback__)).rstrip()
