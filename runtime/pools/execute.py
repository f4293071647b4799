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
"""The folder of this module; traceback frames in it are not the stage's."""


@dataclass(frozen=True, slots=True)
class Executed:
    """The result of a task: the values after the last stage, one timing per stage for all items, the new states of the
    stateful stages, and the faults. Values at positions of faults mean nothing."""

    values: list[Any]
    timings: tuple[StageTiming, ...]
    states: dict[str, Any]
    faults: tuple[ItemFault, ...] = ()


class StageError(RecomposeError):
    """A stage raised, and the whole task failed. ``traceback_text`` begins in the stage, without the frames around it.
    ``position``: of the item at fault; None if unknown."""

    def __init__(self, stage: str, traceback_text: str, position: int | None = 0) -> None:
        self.stage = stage
        self.traceback_text = traceback_text
        self.position = position
        super().__init__(f"stage {stage!r} raised: {traceback_text}")


def run_now(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits to its end, without an event loop."""
    try:
        work.send(None)
    except StopIteration as end:
        return cast(T, end.value)
    work.close()
    raise AssertionError("an async def stage needs an event loop, but was called without one")


async def execute(
    calls: Calls,
    stages: tuple[str, ...],
    values: Sequence[Any],
    states: Mapping[str, Any],
    broken: Sequence[ItemFault] = (),
) -> Executed:
    """Run ``stages`` in this order, each on the results of the one before. ``broken``: faults of values that could not
    be unpickled, which no stage gets.

    Wall time is ``perf_counter``, CPU time that of the calling thread alone; both in seconds, for all items together. A
    stateful stage without a state in ``states`` gets None, as before its first item.

    Raises: StageError if a stage raises and one of ``stages`` keeps a state: a state after only some of the items is
    useless, so the task fails as a whole. Otherwise only the item fails (``Executed.faults``), except in a batch stage
    that raises on several items: any of them may be at fault, so the task fails as well.
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
    """The items of a task on their way through its stages. ``whole``: a fault of one item fails the task."""

    def __init__(self, values: Sequence[Any], broken: Sequence[ItemFault], whole: bool) -> None:
        self._values = list(values)
        self._whole = whole
        self._at: list[int] | None = None
        """Positions in the task of the remaining items; None: all remain."""
        self._faults = list(broken)
        if broken:
            self._keep_but({fault.position for fault in broken})
        self._several = any_outputs(self._values)
        """True if an item has several values, or none."""
        self._timings: list[StageTiming] = []
        self._wall_s, self._cpu_s = perf_counter(), thread_time()

    async def stage(self, name: str, call: Call, state: Any) -> Any:
        """Run one stage on the items, and return the state after it."""
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
        """Record faults, by index of the item, and remove these items. Raises: StageError if ``whole``."""
        at = range(len(self._values)) if self._at is None else self._at
        for index, error in sorted(failed.items(), key=itemgetter(0)):
            text = traceback_from_stage(error)
            if self._whole:
                raise StageError(name, text, at[index]) from error
            self._faults.append(ItemFault(at[index], name, text))
        self._keep_but(failed)

    def _keep_but(self, gone: Container[int]) -> None:
        """Remove the items at the indexes ``gone``."""
        at = range(len(self._values)) if self._at is None else self._at
        self._at = [position for index, position in enumerate(at) if index not in gone]
        self._values = [value for index, value in enumerate(self._values) if index not in gone]

    def _timed(self, name: str, waited: tuple[float, float] | None) -> None:
        """Record a stage's times. Its end is the next one's start, as reading the clocks costs as much as a call."""
        wall_s, cpu_s = perf_counter(), thread_time()
        own_wall_s, own_cpu_s = waited or (wall_s - self._wall_s, cpu_s - self._cpu_s)
        self._timings.append(StageTiming(name, own_wall_s, own_cpu_s))
        self._wall_s, self._cpu_s = wall_s, cpu_s


def traceback_from_stage(error: BaseException) -> str:
    """Return the traceback without the frames around the stage, if the error was raised in the stage."""
    inside = error.__traceback__
    while inside is not None and inside.tb_frame.f_code.co_filename.startswith(_HERE):
        inside = inside.tb_next
    return "".join(traceback.format_exception(type(error), error, inside or error.__traceback__)).rstrip()
