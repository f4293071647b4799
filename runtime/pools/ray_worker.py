"""A worker: builds the app, connects to its pool, and runs the tasks that come, in the order they come.

Ray starts it (``runtime/pools/ray_pool.py``) and is not needed after that.
"""

from __future__ import annotations

import gc
import os
import traceback
from collections.abc import Callable, Sequence

from apps.contract import App
from compositions.errors import RecomposeError
from runtime.pools.execute import Executed, StageError, run_stages
from runtime.pools.processes import pid_space
from runtime.pools.ray_language import Whereabouts
from runtime.transport.channel import Channel, connect
from runtime.transport.invitation import Invitation
from runtime.transport.wire import FrameCodec, Kind, Message, frames_of

_LIBRARIES = ("OMP", "OPENBLAS", "MKL", "NUMBA")
ONE_THREAD = {**{f"{library}_NUM_THREADS": "1" for library in _LIBRARIES}, "OPENCV_FOR_THREADS_NUM": "1"}
"""A worker is one unit of parallelism: libraries that would start threads of their own are told not to."""
CODEC = FrameCodec()


def run_worker(
    invitation: Invitation, make_app: Callable[[], App], stages: Sequence[str], machine: tuple[str, str]
) -> str | None:
    """Serves until it is told to exit or the pool is gone. Returns why it could not start, or None.

    ``machine``: address, and Ray's id. Raises: OSError when the pool cannot be reached.
    """
    os.environ.update(ONE_THREAD)  # before the app imports what reads it
    try:
        app = make_app()
        app.setup()
    except Exception as error:
        return _why_not(error)
    channel = connect(invitation)
    try:
        serve(app, tuple(stages), channel, Whereabouts(os.getpid(), pid_space(), *machine))
    finally:
        channel.close()
    return None


def serve(app: App, stages: tuple[str, ...], channel: Channel, here: Whereabouts) -> None:
    """The loop of a worker: one task in, one reply out."""
    gc.collect()
    gc.freeze()  # what setup loaded stays for good; the collector need not look at it again
    bench = Bench(app, stages)
    try:
        channel.send(Message(Kind.READY, payload=here.frames()))
        while (message := channel.receive()) is not None and message.kind == Kind.TASK:
            channel.send(bench.work(message))
    except OSError:
        return  # the pool is gone, and with it the reason to be here


class Bench:
    """Turns a task into its reply."""

    def __init__(self, app: App, stages: tuple[str, ...]) -> None:
        self._app = app
        self._stages = stages
        self._index = {name: index for index, name in enumerate(stages)}

    def work(self, task: Message) -> Message:
        """DONE with the value, the new states and the timings; or FAILED with the traceback."""
        decode, first, last = CODEC.decode, task.first, task.first + task.span - 1
        try:
            value = decode(task.payload)
            states = {self._stages[index]: decode(state) for index, state in task.states.items()}
        except Exception:
            return _failed(task, first, f"the value that went in cannot be unpickled\n{traceback.format_exc()}")
        try:
            done = run_stages(self._app, self._stages[first : last + 1], value, states)
        except StageError as error:
            return _failed(task, self._index[error.stage], error.traceback_text)
        try:
            return self._done(task, done)
        except Exception:
            return _failed(task, last, f"the value that came out cannot be pickled\n{traceback.format_exc()}")

    def _done(self, task: Message, done: Executed) -> Message:
        timings: list[float] = []
        for timing in done.timings:
            timings += timing.wall_s, timing.cpu_s
        states = {self._index[name]: frames_of(state) for name, state in done.states.items()}
        return Message(Kind.DONE, task.task_id, task.first, task.span, frames_of(done.value), states, timings)


def _failed(task: Message, stage: int, error: str) -> Message:
    return Message(Kind.FAILED, task.task_id, stage, 1, [error.encode(errors="replace")])


def _why_not(error: Exception) -> str:
    if isinstance(error, RecomposeError):
        return str(error)
    return f"a worker could not set the app up: {type(error).__name__}: {error}"
