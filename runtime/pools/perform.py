"""Perform a task from end to end in the worker: unpickle, run the stages, pickle the results."""

from collections.abc import Mapping
from time import perf_counter, thread_time
from typing import Any, NamedTuple

from apps.contract import Outputs
from profiler.snapshot import StageTiming
from runtime.dispatch.events import NOTHING_KEYED, ItemFault, KeyedDone
from runtime.dispatch.instructions import Task
from runtime.dispatch.keys import Payload
from runtime.pools.calls import Calls
from runtime.pools.execute import Executed, StageError, execute, traceback_from_stage
from runtime.pools.keyed import StatesError
from runtime.pools.port import STATE_MUST, VALUE_MUST, Codec, unfit
from runtime.transport.values import Broken, count_values, picked_of
from runtime.transport.wire import Message

# Run a task of one item through plain stages: the fast path, without the work that only several items need. A task that
# it cannot run takes the general path (``perform``).


def perform_alone(
    calls: Calls, stages: tuple[str, ...], task: Task | Message, codec: Codec
) -> tuple[Payload, list[float]] | None:
    """Return the resulting payload, and the wall and CPU seconds of each stage, alternating. None: the task needs the
    general path, which may repeat stages that ran here.

    Raises: StageError if a stage raises.
    """
    if task.items != 1 or task.states or (methods := calls.plain(stages)) is None:
        return None
    value: Any = codec.decode(task.payload, task.start, task.start + 1)[0]
    if type(value) in _NOT_PLAIN:
        return None
    times: list[float] = []
    wall_s, cpu_s = perf_counter(), thread_time()
    for name, method in methods:
        try:
            value = method(value)
        except (Exception, SystemExit) as error:  # sys.exit() in a stage fails its item, not the worker
            raise StageError(name, traceback_from_stage(error)) from error
        end_s, cpu_end_s = perf_counter(), thread_time()
        times += end_s - wall_s, cpu_end_s - cpu_s
        wall_s, cpu_s = end_s, cpu_end_s
        if type(value) is Outputs:
            calls.not_plain(stages)
            return None
    try:
        return codec.encode([value]), times
    except Exception:
        return None  # the general path reports the error


_NOT_PLAIN = frozenset({Outputs, Broken})


class Performed(NamedTuple):
    """The result of a task: a payload with a value for each item; values at positions of ``faults`` mean nothing."""

    payload: Payload
    timings: tuple[StageTiming, ...]
    states: Mapping[str, Payload]
    faults: tuple[ItemFault, ...] = ()
    keyed: KeyedDone = NOTHING_KEYED
    values: int | None = None
    """Number of result values of the items that succeeded; None: one each."""


async def perform(calls: Calls, task: Task, codec: Codec) -> Performed:
    """Run a task. Raises: StageError if the task failed as a whole; its changes of states are then undone."""
    if not calls.keyed.any_of(task.stages):
        return await _perform(calls, task, codec)
    async with calls.keyed.turn:
        try:
            calls.keyed.begin(task.stages, task.keyed)
            if calls.keyed.is_behind_failed(task.keyed):
                raise StageError(task.stages[0], "the previous task failed, and this task needs its states", None)
            return await _perform(calls, task, codec)
        except StageError:
            calls.keyed.undo(task.task_id, task.stages)
            raise
        except StatesError as error:
            calls.keyed.undo(task.task_id, task.stages)
            raise StageError(error.stage, str(error), None) from None


async def _perform(calls: Calls, task: Task, codec: Codec) -> Performed:
    values = _values(task, codec)
    broken = _broken(values, task.stages[0]) if Broken in set(map(type, values)) else []
    if broken and _ordered(calls, task):
        raise StageError(task.stages[0], broken[0].error, broken[0].position)
    done = await execute(calls, task.stages, values, _states(task, codec), broken)
    assert len(done.values) == len(values), f"{len(values)} values became {len(done.values)}"
    payload, unfit = _encoded(done, task, codec)
    if unfit and _ordered(calls, task):
        raise StageError(task.stages[-1], unfit[0].error, unfit[0].position)
    faults = tuple(sorted((*done.faults, *unfit), key=lambda fault: fault.position))
    if faults and task.items == 1:
        raise StageError(faults[0].stage, faults[0].error)
    keyed = calls.keyed.done(task.stages, done.values) if calls.keyed else NOTHING_KEYED
    made = count_values(done.values) - len(faults)  # each fault has one meaningless value in its place
    return Performed(payload, done.timings, _encoded_states(done, codec), faults, keyed, made)


def _values(task: Task, codec: Codec) -> list[Any]:
    """Return the items of a task; for a piece, its values."""
    items = codec.decode(task.payload, task.start, task.start + task.items)
    if task.keyed is None or task.keyed.picked is None:
        return items
    return picked_of(items, task.keyed.picked, task.keyed.routes and task.keyed.routes.counts)


def _ordered(calls: Calls, task: Task) -> bool:
    return not calls.stateful.isdisjoint(task.stages)


def _broken(values: list[Any], stage: str) -> list[ItemFault]:
    """Return the values that could not be unpickled, as faults of the first stage."""
    text = "the value that went in cannot be unpickled\n"
    return [ItemFault(at, stage, text + value.why) for at, value in enumerate(values) if isinstance(value, Broken)]


def _states(task: Task, codec: Codec) -> dict[str, Any]:
    """Return the unpickled states. Raises: StageError for a state that cannot be unpickled."""
    states = {name: None if state is None else codec.decode(state)[0] for name, state in task.states.items()}
    for name, state in states.items():
        if isinstance(state, Broken):
            raise StageError(name, f"the state that went in cannot be unpickled\n{state.why}", None)
    return states


def _encoded(done: Executed, task: Task, codec: Codec) -> tuple[Payload, list[ItemFault]]:
    """Return the values as a payload, and the faults of those that cannot be pickled."""
    try:
        return codec.encode(done.values), []
    except Exception:
        unfit = [_fit_fault(value, at, task, codec) for at, value in enumerate(done.values)]
        fit = [None if fault else value for value, fault in zip(done.values, unfit, strict=True)]
        return codec.encode(fit), [fault for fault in unfit if fault]


def _fit_fault(value: Any, position: int, task: Task, codec: Codec) -> ItemFault | None:
    try:
        codec.encode([value])
        return None
    except Exception:
        return ItemFault(position, task.stages[-1], unfit(f"the value after {task.stages[-1]}", VALUE_MUST))


def _encoded_states(done: Executed, codec: Codec) -> dict[str, Payload]:
    states = {}
    for name, state in done.states.items():
        try:
            states[name] = codec.encode([state])
        except Exception:
            raise StageError(name, unfit(f"the state after {name}", STATE_MUST), None) from None
    return states
