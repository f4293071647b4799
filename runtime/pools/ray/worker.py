"""A worker: builds the app, connects to its pool, and runs tasks in the order in which they arrive.

Ray starts the worker (``runtime/pools/ray/pool.py``) and is not needed after that.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from apps.contract import App
from compositions.errors import RecomposeError
from compositions.model import Loads
from runtime.arena.frame_store import TaskShelf, shelf_of
from runtime.housekeeping import settle
from runtime.pools.calls import Calls
from runtime.pools.execute import StageError, run_now
from runtime.pools.limits import pid_space
from runtime.pools.perform import perform, perform_alone
from runtime.pools.port import at_once
from runtime.pools.ray.language import Language, Whereabouts
from runtime.pools.set_up import MakeApp, set_up, tear_down
from runtime.transport.channel import Channel, connect
from runtime.transport.pending import Invitation
from runtime.transport.values import Carried, FrameCodec
from runtime.transport.wire import Kind, Message


class Bench:
    """Turns a task into its reply."""

    def __init__(self, app: App, stages: tuple[str, ...], shelf: TaskShelf) -> None:
        self.calls, self._shelf = Calls(app), shelf
        self._codec = FrameCodec(shelf)
        self._language = Language(stages, self._codec)

    def work_alone(self, task: Message) -> Message | None:
        """Return the answer to a task of one item through plain stages, without awaiting; None for other tasks."""
        language, shelf = self._language, self._shelf
        if task.blocks or shelf.has_room:
            shelf.enter(task.blocks)
        try:
            performed = perform_alone(self.calls, language.stages_of(task), task, self._codec)
            if performed is None:
                return None
            answer = language.answer_alone(task, *performed)
        except StageError as error:
            answer = language.refusal(task, error)
        return self._with_let_go(answer) if shelf.ended else answer

    def alone(self, task: Message) -> bool:
        """Return whether the task must end before a later one begins (``Calls.alone``)."""
        return self.calls.alone(self._language.stages_of(task))

    async def work(self, task: Message) -> Message:
        """Return the answer to a task, with the blocks of the arena that this process no longer refers to."""
        return self._with_let_go(await self._answer(task))

    def _with_let_go(self, answer: Message) -> Message:
        let_go = self._shelf.let_go()
        return answer._replace(blocks=let_go) if let_go else answer

    async def _answer(self, task: Message) -> Message:
        """DONE, PARTLY or FAILED."""
        try:
            codec = _TaskCodec(self._codec, self._shelf, task.blocks)
            performed = await perform(self.calls, self._language.task(task), codec)
            return self._language.answer(task, performed)
        except StageError as error:
            return self._language.refusal(task, error)


class _TaskCodec:
    """Writes into the room of its task, whichever others have begun since."""

    def __init__(self, codec: FrameCodec, shelf: TaskShelf, room: Sequence[int]) -> None:
        self._codec, self._shelf = codec, shelf
        self._room: Sequence[int] | None = room
        self.decode, self.size_bytes = codec.decode, codec.size_bytes

    def encode(self, values: Sequence[Any]) -> list[Carried]:
        """A task does not wait between the first and the last value that it writes."""
        if self._room is not None:
            self._shelf.enter(self._room)
            self._room = None
        return self._codec.encode(values)


_LIBRARIES = ("OMP", "OPENBLAS", "MKL", "NUMBA")
ONE_THREAD = {**{f"{library}_NUM_THREADS": "1" for library in _LIBRARIES}, "OPENCV_FOR_THREADS_NUM": "1"}
"""Environment that keeps libraries from starting threads, as a worker is one unit of parallelism."""
POOL_GONE = "its pool is gone"


@dataclass(frozen=True, slots=True)
class Part:
    """A worker's part of an app: of the app's ``stages``, it runs those that its class loads."""

    make_app: MakeApp
    stages: tuple[str, ...]
    loads: Loads = ()


def ready(part: Part) -> App:
    """Return the app, set up for the stages that the worker runs."""
    return set_up(part.make_app, part.loads)


def run_worker(
    invitation: Invitation,
    part: Part,
    machine: tuple[str, str],
    ready: Callable[[Part], App] = ready,
    connected: Callable[[], None] = lambda: None,
) -> str | None:
    """Run tasks until asked to exit, and return None; or return why the worker could not start, or ``POOL_GONE``.

    ``machine``: the address and Ray's node id. ``ready`` makes the app; ``connected`` is called before the first task.
    Raises: OSError if the pool cannot be reached.
    """
    os.environ.update(ONE_THREAD)  # before the app imports what reads it
    try:
        app = ready(part)
    except Exception as error:
        return _why_not(error)
    channel = connect(invitation)
    try:
        bench = Bench(app, part.stages, shelf_of(channel.handed))
        connected()
        told = serve(bench, channel, Whereabouts(os.getpid(), pid_space(), *machine))
        if told:
            tear_down(app, part.loads)
    except RecomposeError as error:
        return _why_not(error)
    finally:
        channel.close()
    return None if told else POOL_GONE


def serve(bench: Bench, channel: Channel, here: Whereabouts) -> bool:
    """Run a worker's loop: answer one task after the other, or several concurrently if stages are async. Return True
    if the worker was asked to exit, False if the pool is gone."""
    settle()
    try:
        channel.send(Message(Kind.READY, payload=here.frames(), items=0 if bench.calls.wait else 1))
        if bench.calls.wait:
            return asyncio.run(_serve_at_once(bench, channel))
        while (message := channel.receive()) is not None:
            if message.kind == Kind.TASK:
                channel.send(bench.work_alone(message) or run_now(bench.work(message)))
            elif message.kind == Kind.ALIVE:
                channel.send(message)
            else:
                return True
    except OSError:
        pass  # the pool is gone
    return False


async def _serve_at_once(bench: Bench, channel: Channel) -> bool:
    came, told = asyncio.Event(), False
    for descriptor in channel.descriptors:
        asyncio.get_running_loop().add_reader(descriptor, came.set)

    async def tasks() -> AsyncIterator[Message]:
        nonlocal told
        while (messages := channel.poll()) is not None:
            for message in messages:
                if message.kind == Kind.TASK:
                    yield message
                elif message.kind == Kind.ALIVE:
                    channel.send(message)
                else:
                    told = True
                    return
            await came.wait()
            came.clear()

    async def work(task: Message) -> None:
        reply = await bench.work(task)
        with suppress(OSError):  # the pool is gone, which ends the tasks too
            channel.send(reply)
        came.set()  # sending may consume the notification of a message that came

    await at_once(tasks(), work, bench.alone)
    return told


def _why_not(error: Exception) -> str:
    if isinstance(error, RecomposeError):
        return str(error)
    return f"a worker could not set the app up: {type(error).__name__}: {error}"
