"""Live status for any number of watchers at the price of one: a single poll per app, shared."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable

import structlog

from service.api.problems import json_text

PERIOD_S = 0.25
log = structlog.get_logger()


class _Feed:
    def __init__(self) -> None:
        self.changed = asyncio.Condition()
        self.latest, self.number, self.watchers = "", 0, 0
        self.poll: asyncio.Task[None] | None = None


class Broadcaster:
    """``read`` blocks and runs in a thread. A slow watcher misses statuses, it never delays the others."""

    def __init__(self, read: Callable[[str], object], period_s: float = PERIOD_S) -> None:
        self._read, self._period_s = read, period_s
        self._feeds: dict[str, _Feed] = {}
        self._closed = False

    async def watch(self, app: str, ending: Callable[[], bool] = lambda: False) -> AsyncGenerator[str, None]:
        """Statuses of ``app`` as JSON text, until ``close``, or until ``ending`` at the next one."""
        feed = self._feeds.setdefault(app, _Feed())
        feed.watchers += 1
        if feed.poll is None:
            feed.poll = asyncio.create_task(self._poll(app, feed))
        try:
            seen = 0
            while not (self._closed or ending()):
                async with feed.changed:
                    while not self._closed and feed.number <= seen:
                        await feed.changed.wait()
                seen = feed.number
                if not self._closed:
                    yield feed.latest
        finally:
            self._leave(app, feed)

    def _leave(self, app: str, feed: _Feed) -> None:
        feed.watchers -= 1
        if feed.watchers == 0 and feed.poll is not None:
            feed.poll.cancel()
            self._feeds.pop(app, None)

    async def _poll(self, app: str, feed: _Feed) -> None:
        while True:
            due_s = asyncio.get_running_loop().time() + self._period_s
            try:
                feed.latest = await asyncio.to_thread(lambda: json_text(self._read(app)))
            except Exception as error:  # the next turn asks again; the watchdog deals with the runner
                log.warning("status could not be read for the event stream", app=app, error=str(error))
            else:
                await self._tell(feed)
            await asyncio.sleep(max(due_s - asyncio.get_running_loop().time(), 0))

    async def _tell(self, feed: _Feed) -> None:
        async with feed.changed:
            feed.number += 1
            feed.changed.notify_all()

    async def close(self) -> None:
        """Lets every watcher end."""
        self._closed = True
        for feed in list(self._feeds.values()):
            await self._tell(feed)
