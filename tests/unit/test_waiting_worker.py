"""A worker over real sockets, without Ray, most of all one whose stages wait: many tasks at once, frames in shared
memory, whether it lives, its end."""

import asyncio
import gc
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import numpy as np
import pytest

from apps.contract import App, Outputs
from compositions.model import Stage
from runtime.arena.frame_store import shelf_of
from runtime.arena.reference import ArenaSettings
from runtime.pools.ray.language import Whereabouts
from runtime.pools.ray.worker import Bench, serve
from runtime.transport.channel import connect
from runtime.transport.hub import Hub
from runtime.transport.wire import Kind, Message

TOGETHER, PATIENCE_S = 8, 20.0


class Gathers(App):
    """``meet`` waits until there are ``TOGETHER``; ``never`` for good."""

    name = "gathers"
    stages = (Stage("meet", concurrency=50), Stage("never", concurrency=50))

    def __init__(self) -> None:
        super().__init__()
        self.inside, self.all_here = 0, asyncio.Event()

    async def meet(self, value: Any) -> Any:
        self.inside += 1
        if self.inside == TOGETHER:
            self.all_here.set()
        await self.all_here.wait()
        return Outputs([value + 1, value + 2])

    async def never(self, value: Any) -> Any:
        await asyncio.Event().wait()


class Works(App):
    """The same without anything to wait for."""

    name = "works"
    stages = (Stage("meet"), Stage("never"))
    meet = never = staticmethod(lambda value: value)


@pytest.fixture
def app() -> App:
    return Gathers()


@pytest.fixture(params=["unix", "tcp"])
def hub(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setattr(gc, "freeze", lambda: None)
    hub = Hub(unix=request.param == "unix", arena=ArenaSettings(0.01))
    if request.param == "tcp":
        hub.open_network("127.0.0.1")
    yield hub
    hub.close()


@pytest.fixture
def worker(hub: Hub, app: App) -> Iterator[threading.Thread]:
    invitation = hub.invite("w1")

    def work() -> None:
        with closing(connect(invitation)) as channel:
            bench = Bench(app, ("meet", "never"), shelf_of(channel.handed))
            serve(bench, channel, Whereabouts(0, "", "127.0.0.1", "node"))

    thread = threading.Thread(target=work)
    thread.start()
    (ready,) = replies(hub, 1)
    assert ready.kind == Kind.READY
    yield thread
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def replies(hub: Hub, count: int) -> list[Message]:
    found: list[Message] = []
    give_up_s = time.monotonic() + PATIENCE_S
    while len(found) < count:
        assert time.monotonic() < give_up_s, f"{len(found)} of {count} replies came"
        found += [message for _, message in hub.poll(0.1) if message is not None]
    return found


def send(hub: Hub, task_id: int, stage: int, value: Any) -> None:
    hub.send("w1", [Message(Kind.TASK, task_id, stage, 1, hub.accounts.codec.encode([value]))])


@pytest.mark.parametrize("make", [int, lambda number: np.full(100_000, number)], ids=["small", "frames"])
@pytest.mark.usefixtures("worker")
def test_tasks_wait_together_and_each_is_answered(hub: Hub, make: Callable[[int], Any]) -> None:
    send(hub, 1000, 1, 0)  # it never ends, and those behind it are answered all the same
    for round_ in range(3):  # from the second on there is room in shared memory
        for number in range(TOGETHER):
            send(hub, round_ * TOGETHER + number, 0, make(number))
        for reply in replies(hub, TOGETHER):
            number = reply.task_id % TOGETHER
            (values,) = hub.accounts.codec.decode(reply.payload)
            assert [np.unique(value).tolist() for value in values] == [[number + 1], [number + 2]]
    hub.send("w1", [Message(Kind.EXIT)])


def test_it_says_that_it_lives_while_tasks_wait(hub: Hub, worker: threading.Thread) -> None:
    send(hub, 1, 1, 0)
    hub.send("w1", [Message(Kind.ALIVE, 7)])
    assert [(reply.kind, reply.task_id) for reply in replies(hub, 1)] == [(Kind.ALIVE, 7)]
    hub.send("w1", [Message(Kind.EXIT)])


@pytest.mark.parametrize("app", [Works()], ids=["one by one"])
def test_one_that_works_says_so_before_the_tasks_behind_the_question(hub: Hub, worker: threading.Thread) -> None:
    send(hub, 1, 0, 5)
    hub.send("w1", [Message(Kind.ALIVE, 7)])
    send(hub, 2, 0, 6)
    expected = [(Kind.DONE, 1), (Kind.ALIVE, 7), (Kind.DONE, 2)]
    assert [(reply.kind, reply.task_id) for reply in replies(hub, 3)] == expected
    hub.send("w1", [Message(Kind.EXIT)])


def test_it_ends_when_the_pool_is_gone(hub: Hub, worker: threading.Thread) -> None:
    send(hub, 1, 1, 0)
    hub.close()
    worker.join(PATIENCE_S)
    assert not worker.is_alive()
