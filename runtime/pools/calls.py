"""Call a stage: on one value after the other, on all values of a task together, or with concurrent async calls.

In every case a call gets single values: ``Outputs`` are flattened before it and gathered after it.
"""

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter, thread_time
from typing import Any

from apps.contract import App, Outputs
from compositions.errors import RecomposeError
from compositions.model import Stage, StageKind
from runtime.pools.keyed import KeyedStage, KeyedStages, Together
from runtime.pools.port import no_pair


@dataclass(slots=True)
class Called:
    """The results of a stage's call; those at the positions in ``failed`` mean nothing. ``waited``: sums of the wall
    and CPU seconds of overlapping calls; None: the calls did not overlap, so the elapsed times count."""

    values: list[Any]
    failed: dict[int, BaseException] = field(default_factory=dict)
    state: Any = None
    waited: tuple[float, float] | None = None


Methods = tuple[tuple[str, Callable[[Any], Any]], ...]


class TogetherError(Exception):
    """A call on several values raised its cause; any of the values may be at fault."""


Call = Callable[[list[Any], Any], Coroutine[Any, Any, Called]]
"""A function that calls a stage with values and a state. Raises: TogetherError."""


class Calls:
    """The functions to call each stage of an app, in one worker."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._stages = {stage.name: stage for stage in app.stages}
        self._made: dict[str, Call] = {}
        self._plain: dict[tuple[str, ...], Methods | None] = {}
        self._alone: dict[tuple[str, ...], bool] = {}
        self.keyed = KeyedStages(app)
        for name in self._stages:  # now, so that their imports are loaded before the first item
            with suppress(AttributeError):
                self.of(name)
        self.stateful = frozenset(stage.name for stage in app.stages if stage.keeps_state)
        self.wait = any(map(self._is_async, self._stages))
        """True if a stage needs an event loop."""

    def plain(self, stages: tuple[str, ...]) -> Methods | None:
        """Return the name and method of each stage if all are plain functions from one value to one, else None."""
        found = self._plain.get(stages, ())
        if found == ():
            found = None
            if all(map(self._is_plain, stages)) and not self.keyed.follow(stages):
                found = tuple((name, getattr(self._app, name)) for name in stages)
            self._plain[stages] = found
        return found

    def not_plain(self, stages: tuple[str, ...]) -> None:
        """Record that one of ``stages`` has returned ``Outputs``, so that they are not plain."""
        self._plain[stages] = None

    def _is_plain(self, name: str) -> bool:
        stage, method = self._stages.get(name), getattr(self._app, name, None)
        if stage is None or method is None or stage.kind is not StageKind.STATELESS or stage.batch:
            return False
        return not inspect.iscoroutinefunction(method) and not inspect.isgeneratorfunction(method)

    def of(self, name: str) -> Call:
        """Return the function to call a stage. Raises: AttributeError if the app has no such stage or method."""
        made = self._made.get(name)
        if made is None:
            if name not in self._stages:
                raise AttributeError(f"app {self._app.name!r} has no stage {name!r}")
            method, stage = getattr(self._app, name), self._stages[name]
            partitioned = stage.kind is StageKind.PARTITIONED
            made = _call_by_key(method, stage, self.keyed.of(name)) if partitioned else _call_of(method, stage)
            self._made[name] = made
        return made

    def at_once(self, stages: Iterable[str]) -> int:
        """Return the maximum number of concurrent calls of ``stages``; 1 if none is async."""
        return max((self._stages[name].concurrency for name in stages if self._is_async(name)), default=1)

    def alone(self, stages: tuple[str, ...]) -> bool:
        """Return whether a task of ``stages`` must end before a later one begins."""
        found = self._alone.get(stages)
        if found is None:
            found = self._alone[stages] = self.at_once(stages) == 1 or not self.stateful.isdisjoint(stages)
        return found

    def _is_async(self, name: str) -> bool:
        return inspect.iscoroutinefunction(getattr(self._app, name, None))


def _call_by_key(method: Callable[..., Any], stage: Stage, keyed: KeyedStage) -> Call:
    return partial(_all_by_key, stage.name, keyed, _together(method, stage)) if stage.batch else partial(_by_key, keyed)


def _together(method: Callable[..., Any], stage: Stage) -> Callable[..., Any]:
    """Return the method of a batch stage; if the stage has columns, it gets the values as a record batch."""
    if not stage.columns:
        return method
    import pyarrow as pa  # imported here, as few apps need it and it is large

    schema = pa.schema([(name, pa.type_for_alias(kind)) for name, kind in stage.columns])
    return lambda values, *state: method(pa.RecordBatch.from_pylist(values, schema=schema), *state)


def _call_of(method: Callable[..., Any], stage: Stage) -> Call:
    stateful = stage.kind is StageKind.STATEFUL
    if stage.batch:
        together = _together(method, stage)
        return partial(_all, stage.name, together if stateful else lambda values, _: (together(values), None))
    if stateful:
        return partial(_in_turn, method)
    if inspect.iscoroutinefunction(method):
        return partial(_waiting, method, asyncio.Semaphore(stage.concurrency))
    return partial(_each, (lambda value: Outputs(method(value))) if inspect.isgeneratorfunction(method) else method)


async def _each(call: Callable[[Any], Any], values: list[Any], state: Any) -> Called:
    out: list[Any] = []
    failed: dict[int, BaseException] = {}
    calls, expected = map(call, values), len(values)
    while len(out) < expected:
        try:
            out.extend(calls)  # results before an error are kept, and the map continues after it
            if len(out) < expected:  # the map ended early because the stage raised StopIteration
                raise RuntimeError("the stage raised StopIteration")
        except (Exception, SystemExit) as error:  # sys.exit() in a stage fails its item, not the worker
            failed[len(out)] = error
            out.append(None)
    return Called(out, failed)


async def _in_turn(call: Callable[[Any, Any], tuple[Any, Any]], values: list[Any], state: Any) -> Called:
    """Call a stateful stage on each value; stop at the first fault."""
    out: list[Any] = []
    try:
        for value in values:
            result, state = call(value, state)
            out.append(result)
    except (Exception, SystemExit) as error:
        raised = no_pair(error, call, "(value, state)")
        return Called([*out, *[None] * (len(values) - len(out))], {len(out): raised})
    return Called(out, state=state)


async def _by_key(stage: KeyedStage, values: list[Any], state: Any) -> Called:
    """Call a partitioned stage on each value; stop at the first fault."""
    out, error = stage.run(values)
    if error is None:
        return Called(out)
    return Called([*out, *[None] * (len(values) - len(out))], {len(out): error})


# --- together ---------------------------------------------------------------------------------------------------------


async def _all(
    name: str, call: Callable[[list[Any], Any], tuple[Iterable[Any], Any]], values: list[Any], state: Any
) -> Called:
    if not values:
        return Called([], state=state)
    count = len(values)
    try:
        results, state = call(values, state)
        return Called(_as_many(name, results, count), state=state)
    except (Exception, SystemExit) as error:
        return _failed_together(values, no_pair(error, call, "(values, state)"))


async def _all_by_key(name: str, stage: KeyedStage, call: Together, values: list[Any], state: Any) -> Called:
    if not values:
        return Called([])
    try:
        results, error = stage.run_together(values, call)
        if error is not None:
            return Called([None] * len(values), {len(results): error})
        return Called(_as_many(name, results, len(values)))
    except (Exception, SystemExit) as raised:
        return _failed_together(values, raised)


def _failed_together(values: Sequence[Any], error: BaseException) -> Called:
    if len(values) == 1:
        return Called([None], {0: error})
    raise TogetherError from error


def _as_many(name: str, results: Any, count: int) -> list[Any]:
    found = _listed(results)
    if found is None or len(found) != count:
        told = f"{results!r:.80}" if found is None else f"{len(found)} values"
        want = "it must return one for each, Outputs() for none and Outputs([...]) for several"
        raise RecomposeError(f"batch stage {name!r} returned {told} for {count}; {want}")
    return found


def _listed(results: Any) -> list[Any] | None:
    """Return the results as a list; None if they are not iterable, or a single string or mapping."""
    if hasattr(results, "to_pylist"):  # an Arrow table: its rows as dicts
        rows: list[Any] = results.to_pylist()
        return rows
    if isinstance(results, str | bytes | Mapping) or not isinstance(results, Iterable):
        return None
    return list(results)


# --- waiting ----------------------------------------------------------------------------------------------------------


async def _waiting(
    call: Callable[[Any], Coroutine[Any, Any, Any]], room: asyncio.Semaphore, values: list[Any], state: Any
) -> Called:
    done = Called([None] * len(values), waited=(0.0, 0.0))
    await asyncio.gather(*(_wait_for(call, room, value, at, done) for at, value in enumerate(values)))
    return done


async def _wait_for(
    call: Callable[[Any], Coroutine[Any, Any, Any]], room: asyncio.Semaphore, value: Any, at: int, done: Called
) -> None:
    async with room:
        began_s, metered = perf_counter(), _Metered(call, value)
        try:
            done.values[at] = await metered
        except (Exception, SystemExit) as error:
            done.failed[at] = error
        except asyncio.CancelledError as error:  # the stage may have awaited something that was cancelled
            if (own := asyncio.current_task()) is not None and own.cancelling():
                raise
            done.failed[at] = error
        assert done.waited is not None, "calls that overlap are timed one by one"
        wall_s, cpu_s = done.waited
        done.waited = wall_s + perf_counter() - began_s, cpu_s + metered.cpu_s


class _Metered:
    """Awaits a call, and adds up the CPU time of its steps; between the steps, other calls use the thread."""

    def __init__(self, call: Callable[[Any], Coroutine[Any, Any, Any]], value: Any) -> None:
        self._call, self._value = call, value
        self.cpu_s = 0.0

    def __await__(self) -> Generator[Any, Any, Any]:
        steps = self._call(self._value)
        step, what = steps.send, None
        while True:
            began_s = thread_time()
            try:
                awaited = step(what)
            except StopIteration as end:
                return end.value
            finally:
                self.cpu_s += thread_time() - began_s
            try:
                step, what = steps.send, (yield awaited)
            except BaseException as error:  # the awaited object failed or was cancelled: pass it to the call
                step, what = steps.throw, error
