"""A task of one item through plain stages: the way of most tasks of a heavy stream, without what only several items
need. What it cannot do it leaves alone, and the way of all others (:mod:`runtime.pools.perform`) is gone."""

from __future__ import annotations

from time import perf_counter, thread_time
from typing import Any

from apps.contract import Outputs
from runtime.dispatch.events import Payload
from runtime.dispatch.instructions import Task
from runtime.pools.calls import Calls
from runtime.pools.execute import StageError, traceback_from_stage
from runtime.pools.port import Codec
from runtime.transport.broken import Broken
from runtime.transport.wire import Message


def perform_alone(
    calls: Calls, stages: tuple[str, ...], task: Task | Message, codec: Codec
) -> tuple[Payload, list[float]] | None:
    """The payload that comes out, and wall and CPU seconds of each stage, in turn. None: this is no task of that kind,
    and nothing was done but what may be done again.

    Raises: StageError when a stage raises.
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
        return None  # the way of all others says why


_NOT_PLAIN = frozenset({Outputs, Broken})
