"""Calls that source and sink of NATS share: a client that connects once, in an event loop of its own."""

from __future__ import annotations

import asyncio

FORM = "nats://HOST:4222/STREAM"
ANSWER_S = 5.0
"""For an answer of the server."""
ONCE = {"allow_reconnect": False, "max_reconnect_attempts": 1, "reconnect_time_wait": 0, "connect_timeout": ANSWER_S}
"""Of a connection: who asks tries again, from where it was."""


async def told_by_answers(_: Exception) -> None:
    """The library would log it; whatever it is, the next answer says so."""


async def see_others_out() -> None:
    """The library leaves tasks behind that a loop must see to their end before it is closed."""
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)
