"""A worker: builds the app, connects to its pool, and runs the tasks that come, in the order they come.

Ray starts it (``runtime/pools/ray_pool.py``) and is not needed after that.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Sequence

from apps.contract import App
from compositions.errors import RecomposeError
from runtime.arena.shelves import TaskShelf, shelf_of
from runtime.pools.execute import StageError
from runtime.pools.perform import perform
from runtime.pools.processes import pid_space
from runtime.pools.ray_language import Language, Whereabouts
from runtime.transport.channel import Channel, connect
from runtime.transport.invitation import Invitation
from runtime.transport.values import FrameCodec
from runtime.transport.wire import Kind, Message

_LIBRARIES = ("OMP", "OPENBLAS", "MKL", "NUMBA")
ONE_THREAD = {**{f"{library}_NUM_THREADS": "1" for library in _LIBRARIES}, "OPENCV_FOR_THREADS_NUM": "1"}
"""A worker is one unit of parallelism: libraries that would start threads of their own are told not to."""


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
        bench = Bench(app, tuple(stages), shelf_of(channel.handed))
        serve(bench, channel, Whereabouts(os.getpid(), pid_space(), *machine))
    except RecomposeError as error:
        return _why_not(error)
    finally:
        channel.close()
    return None


def serve(bench: Bench, channel: Channel, here: Whereabouts) -> None:
    """The loop of a worker: one task in, one reply out."""
    gc.collect()
    gc.freeze()  # what setup loaded stays for good; the collector need not look at it again
    try:
        channel.send(Message(Kind.READY, payload=here.frames()))
        while (message := channel.receive()) is not None and message.kind == Kind.TASK:
            channel.send(bench.work(message))
    except OSError:
        return  # the pool is gone, and with it the reason to be here


class Bench:
    """Turns a task into its reply."""

    def __init__(self, app: App, stages: tuple[str, ...], shelf: TaskShelf) -> None:
        self._app, self._shelf = app, shelf
        self._language = Language(stages, FrameCodec(shelf))

    def work(self, task: Message) -> Message:
        """The answer, and which blocks of the arena nothing here refers to any more."""
        self._shelf.enter(task.blocks)
        answer = self._answer(task)
        let_go = self._shelf.let_go()
        return Message(*answer[:-1], let_go) if let_go else answer

    def _answer(self, task: Message) -> Message:
        """DONE, PARTLY or FAILED."""
        try:
            return self._language.answer(task, perform(self._app, self._language.task(task), self._language.codec))
        except StageError as error:
            return self._language.refusal(task, error)


def _why_not(error: Exception) -> str:
    if isinstance(error, RecomposeError):
        return str(error)
    return f"a worker could not set the app up: {type(error).__name__}: {error}"
