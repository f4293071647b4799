"""The interface of a worker pool. There are three implementations, tested by one contract suite."""

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
    """A pool of workers, each with the stages that its class loads; a task names those to run. Only ``wake`` is
    thread-safe."""

    def now_s(self) -> float:
        """Return the pool's time in seconds, monotonic or virtual."""

    def start(self, count: int, loads: Loads = ()) -> None:
        """Start ``count`` workers of a class without waiting. Each reports WorkerJoined (after ``setup``) or
        WorkerStartFailed, with its class."""

    def end(self, worker: WorkerId, *, kill: bool = False) -> None:
        """Let an idle worker end, or kill a hanging one; no WorkerLost follows either."""

    def send(self, worker: WorkerId, tasks: Sequence[Task]) -> None:
        """Send tasks to a worker, which reports TaskDone or TaskFailed for each, in the order of sending."""

    def ask(self, worker: WorkerId, losses: int) -> None:
        """Ask a worker to report WorkerAnswered before it begins later tasks; a dead worker never does."""

    def wait(self, until_s: float) -> Sequence[Event]:
        """Return events since the last call; wait until there is one, ``wake`` is called, or ``until_s`` is reached."""

    def wake(self) -> None:
        """Make a ``wait`` under way return soon. May be called from any thread."""

    def close(self) -> None:
        """End all workers and free all resources; may be called twice."""


class Codec(Protocol):
    """Converts the values of a bundle to a pool's payload and back. A state is converted as a bundle of one."""

    def encode(self, values: Sequence[Any]) -> Payload:
        """Encode one or more values. The payload shares no memory with the values, which may change afterwards."""

    def decode(self, payload: Payload, start: int = 0, stop: int | None = None) -> list[Any]:
        """Return the values from ``start`` to before ``stop``, with ``Broken`` for one that cannot be unpickled."""

    def size_bytes(self, payload: Payload) -> int:
        """Return the size of a payload in bytes."""


T = TypeVar("T")
Work = Callable[[T], Coroutine[Any, Any, None]]


async def at_once(tasks: AsyncIterator[T], work: Work[T], alone: Callable[[T], bool]) -> None:
    """Start each task as it comes; when ``tasks`` ends, cancel unfinished ones. A task for which ``alone`` is true must
    end before later ones begin: the dispatcher relies on it and ignores answers out of order.

    Raises: ExceptionGroup if ``work`` raises.
    """
    under_way: set[asyncio.Task[None]] = set()
    latest: asyncio.Task[None] | None = None
    """The latest task that must end before later ones begin."""
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
    """Return the error of a stage call. If it came from unpacking a result that is no pair, return a clearer error
    instead, with the ``pair`` that the stage must return."""
    at = error.__traceback__
    here = isinstance(error, TypeError | ValueError) and at is not None and at.tb_next is None
    if not here or "unpack" not in str(error):
        return error
    name = getattr(stage, "__name__", "a stage that keeps a state")
    return RecomposeError(f"{name} must return {pair}; what it returned is no pair ({error})")
