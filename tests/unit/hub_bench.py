"""Share between the tests of a hub and of its workers: work beside a hub that does its part, and what comes next."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Any

from runtime.transport.hub import Hub
from runtime.transport.wire import Message

PATIENCE_S = 10.0


def beside(hub: Hub, work: Callable[[], Any]) -> Any:
    """Return what ``work`` returns, or its OSError, done in a thread while the hub does its part."""
    with ThreadPoolExecutor(1) as thread:
        result, give_up_s = thread.submit(work), monotonic() + PATIENCE_S
        while not result.done() and monotonic() < give_up_s:
            hub.poll(0.01)
        error = result.exception(PATIENCE_S)
        return error if isinstance(error, OSError) else result.result()


def next_of(hub: Hub) -> list[tuple[str, Message | None]]:
    for _ in range(200):
        if received := hub.poll(PATIENCE_S / 200):
            return received
    raise AssertionError("nothing came")
