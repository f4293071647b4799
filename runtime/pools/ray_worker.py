"""A worker: builds the app, connects to its pool, and runs the tasks that come, in the order they come.

Ray starts it (``runtime/pools/ray_pool.py``) and is not needed after that.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress

from apps.contract import App
from compositions.errors import RecomposeError
from runtime.arena.shelves import shelf_of
from runtime.housekeeping import settle
from runtime.pools.execute import run_now
from runtime.pools.processes import pid_space
from runtime.pools.ray_bench import Bench
from runtime.pools.ray_language import Whereabouts
from runtime.pools.waiting import at_once
from runtime.transport.channel import Channel, connect
from runtime.transport.invitation import Invitation
from runtime.transport.wire import Kind, Message

_LIBRARIES = ("OMP", "OPENBLAS", "MKL", "NUMBA")
ONE_THREAD = {**{f"{library}_NUM_THREADS": "1" for library in _LIBRARIES}, "OPENCV_FOR_THREADS_NUM": "1"}
"""A worker is one unit of parallelism: libraries that would start threads of their own are told not to."""
POOL_GONE = "its pool is gone"
MakeApp = Callable[[], App]


def set_up(make_app: MakeApp) -> App:
    """An app that is ready to work."""
    app = make_app()
    app.setup()
    return app


def run_worker(
    invitation: Invitation,
    make_app: MakeApp,
    stages: Sequence[str],
    machine: tuple[str, str],
    ready: Callable[[MakeApp], App] = set_up,
) -> str | None:
    """Serves until it is told to exit, and returns None; or returns why it could not start, or that the pool is gone.

    ``machine``: address, and Ray's id. ``ready`` makes the app. Raises: OSError when the pool cannot be reached.
    """
    os.environ.update(ONE_THREAD)  # before the app imports what reads it
    try:
        app = ready(make_app)
    except Exception as error:
        return _why_not(error)
    channel = connect(invitation)
    try:
        bench = Bench(app, tuple(stages), shelf_of(channel.handed))
        told = serve(bench, channel, Whereabouts(os.getpid(), pid_space(), *machine))
    except RecomposeError as error:
        return _why_not(error)
    finally:
        channel.close()
    return None if told else POOL_GONE


def serve(bench: Bench, channel: Channel, here: Whereabouts) -> bool:
    """The loop of a worker: one task in, one reply out; or many at once, where a stage of the app waits. True when it
    was told to exit."""
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
        pass  # the pool is gone, and with it the reason to be here
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
        came.set()  # to send may hide that something came

    await at_once(tasks(), work, bench.alone)
    return told


def _why_not(error: Exception) -> str:
    if isinstance(error, RecomposeError):
        return str(error)
    return f"a worker could not set the app up: {type(error).__name__}: {error}"
