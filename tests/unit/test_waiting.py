"""Which tasks of a worker that waits run at once."""

import asyncio
from collections.abc import AsyncIterator

from runtime.pools.port import at_once


def test_nothing_begins_behind_a_task_that_is_alone_and_those_before_it_go_on() -> None:
    """``a`` and ``b`` wait until ``D``, which comes alone behind them, is over; ``e`` comes behind it."""
    told: list[str] = []

    async def run() -> None:
        may_end = {name: asyncio.Event() for name in "abDe"}
        all_there, over = asyncio.Event(), asyncio.Event()

        async def tasks() -> AsyncIterator[str]:
            for name in "abDe":
                yield name
            all_there.set()
            await over.wait()

        async def work(name: str) -> None:
            told.append(f"{name} begins")
            await may_end[name].wait()
            told.append(f"{name} ends")

        async def staged() -> None:
            await all_there.wait()
            for name in "Dabe":
                await asyncio.sleep(0)
                told.append("-")
                may_end[name].set()
                while f"{name} ends" not in told:
                    await asyncio.sleep(0)
            over.set()

        await asyncio.gather(at_once(tasks(), work, str.isupper), staged())

    asyncio.run(asyncio.wait_for(run(), 20))
    assert told[:5] == ["a begins", "b begins", "D begins", "-", "D ends"]
    assert told.index("e begins") > told.index("D ends")
