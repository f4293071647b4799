"""A worker of an app with stages that wait: its tasks run at once on one event loop, in one thread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def at_once(tasks: AsyncIterator[T], work: Callable[[T], Coroutine[Any, Any, None]]) -> None:
    """Begins each as it comes, until there are no more; what is under way then is cancelled.

    Raises: ExceptionGroup when ``work`` raises.
    """
    under_way: set[asyncio.Task[None]] = set()
    async with asyncio.TaskGroup() as group:
        async for task in tasks:
            job = group.create_task(work(task))
            under_way.add(job)
            job.add_done_callback(under_way.discard)
        for job in under_way:
            job.cancel()
