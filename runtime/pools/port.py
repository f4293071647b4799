"""The port between dispatcher and world: a pool of generic workers. Three implementations, one contract suite."""

import asyncio
import traceback
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeVar

from compositions.errors import RecomposeError
from compositions.model import Loads
from runtime.dispatch.events import Event, WorkerId
from runtime.dispatch.instructions import Task
from runtime.dispatch.keys import Payload


class WorkerPool(Protocol):
    """Workers hold the stages that their class loads; a task names those to run. Thread-safe is only ``wake``."""

    def now_s(self) -> float:
        """The pool's clock, in seconds: monotonic, or virtual."""

    def start(self, count: int, loads: Loads = ()) -> None:
        """Begin to start ``count`` workers of a class; each reports WorkerJoined (after ``setup``) or
        WorkerStartFailed, with its class."""

    def end(self, worker: WorkerId, *, kill: bool = False) -> None:
        """Let an idle worker end, or kill a hanging one; no WorkerLost follows either."""

    def send(self, worker: WorkerId, tasks: Sequence[Task]) -> None:
        """Hand tasks to a worker; it reports TaskDone or TaskFailed of each, tasks of one worker in the order sent."""

    def ask(self, worker: WorkerId, losses: int) -> None:
        """Have a worker report WorkerAnswered, before it begins what it is sent later; one that is gone never does."""

    def wait(self, until_s: float) -> Sequence[Event]:
        """Events since the last call; blocks until there is one, ``wake`` is called, or ``until_s`` is reached."""

    def wake(self) -> None:
        """Make a ``wait`` under way return soon. May be called from any thread."""

    def close(self) -> None:
        """End all workers and free all resources; may be called twice."""


class Codec(Protocol):
    """Turns the values of a bundle into a pool's payload and back. A state is a bundle of one."""

    def encode(self, values: Sequence[Any]) -> Payload:
        """One value at least; the payload shares no memory with them, they may change from now on."""

    def decode(self, payload: Payload, start: int = 0, stop: int | None = None) -> list[Any]:
        """Those from ``start`` to before ``stop``; for one that cannot be unpickled a ``broken.Broken``."""

    def size_bytes(self, payload: Payload) -> int:
        """Return how much there is to carry."""


T = TypeVar("T")
Work = Callable[[T], Coroutine[Any, Any, None]]


async def at_once(tasks: AsyncIterator[T], work: Work[T], alone: Callable[[T], bool]) -> None:
    """Begins each as it comes, until there are no more; what is under way then is cancelled. Nothing that comes behind
    a task that is ``alone`` begins before it is done: the dispatcher counts on it, and takes no answer out of turn.

    Raises: ExceptionGroup when ``work`` raises.
    """
    under_way: set[asyncio.Task[None]] = set()
    latest: asyncio.Task[None] | None = None
    """That is alone."""
    async with asyncio.TaskGroup() as group:
        async for task in tasks:
            begun = work(task) if latest is None or latest.done() else _behind(latest, work, task)
            job = group.create_task(begun)
            under_way.add(job)
            job.add_done_callback(under_way.discard)
            if alone(task):
                latest = job
        for job in under_way:
            job.cancel()


async def _behind(before: asyncio.Task[None], work: Work[T], task: T) -> None:
    await asyncio.wait([before])
    await work(task)


STATE_MUST = "a state must be plain data, and what else the stage needs is made in setup"
VALUE_MUST = "what stages hand on must be data"


def unfit(what: str, must: str) -> str:
    """Return the message that ``what`` cannot be pickled, with the traceback of the exception being handled."""
    text = traceback.format_exc().rstrip()
    return f"{what} cannot be pickled\n{text}\n{what} cannot be pickled ({text.splitlines()[-1]}); {must}"


def no_pair(error: BaseException, stage: object, pair: str) -> BaseException:
    """Return what was raised where the method of a stage was called and what it returned was taken apart; instead of
    Python's words for the latter, a sentence with the ``pair`` that it must return."""
    at = error.__traceback__
    here = isinstance(error, TypeError | ValueError) and at is not None and at.tb_next is None
    if not here or "unpack" not in str(error):
        return error
    name = getattr(stage, "__name__", "a stage that keeps a state")
    return RecomposeError(f"{name} must return {pair}; what it returned is no pair ({error})")
