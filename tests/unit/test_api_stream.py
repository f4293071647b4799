"""Server-sent events: one poll for all watchers, and an end."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from service.api.status import Broadcaster


class Source:
    def __init__(self) -> None:
        self.reads = 0

    def read(self, app: str) -> dict[str, Any]:
        self.reads += 1
        if self.reads == 2:
            raise ConnectionError("just this once")
        return {"app": app, "number": self.reads}


async def numbers(stream: AsyncIterator[str], count: int) -> list[int]:
    found: list[int] = []
    async for text in stream:
        found.append(json.loads(text)["number"])
        if len(found) == count:
            break
    return found


def test_watchers_share_one_poll_and_miss_nothing_that_is_told() -> None:
    async def scenario() -> None:
        source = Source()
        broadcaster = Broadcaster(source.read, period_s=0.001)
        async with aclosing(broadcaster.watch("x")) as one, aclosing(broadcaster.watch("x")) as two:
            first, second = await asyncio.gather(numbers(one, 5), numbers(two, 5))
        assert first == sorted(first)
        assert second == sorted(second)
        assert 2 not in first
        assert source.reads <= max(first[-1], second[-1]) + 2
        await broadcaster.close()

    asyncio.run(scenario())


def test_nobody_watching_means_no_poll() -> None:
    async def scenario() -> None:
        source = Source()
        broadcaster = Broadcaster(source.read, period_s=0.0)
        async with aclosing(broadcaster.watch("x")) as stream:
            await numbers(stream, 1)
        for _ in range(3):
            await asyncio.sleep(0)
        reads = source.reads
        for _ in range(20):
            await asyncio.sleep(0)
        assert source.reads == reads

    asyncio.run(scenario())


def test_closing_ends_every_watcher() -> None:
    async def scenario() -> None:
        broadcaster = Broadcaster(lambda app: {"number": 1}, period_s=3600.0)
        one, two = broadcaster.watch("x"), broadcaster.watch("y")
        assert [json.loads(await anext(stream)) for stream in (one, two)] == [{"number": 1}, {"number": 1}]
        waiting = [asyncio.create_task(numbers(stream, 1)) for stream in (one, two)]
        await broadcaster.close()
        assert await asyncio.gather(*waiting) == [[], []]

    asyncio.run(scenario())
