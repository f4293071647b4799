"""A worker of an app with stages that wait: its tasks run at once on one event loop, in one thread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, TypeVar

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
