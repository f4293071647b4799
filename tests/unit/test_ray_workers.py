"""Workers of Ray's pool, without Ray: over real sockets, most of all one whose stages wait; and those that outlive
their pool, of which the next one takes some. That Ray does as it is played here is told by
``tests/faults/test_daemon_and_runner_killed.py``."""

import asyncio
import gc
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from apps import registry
from apps.contract import App, Outputs
from compositions.model import Stage
from runtime.arena.frame_store import TaskShelf, shelf_of
from runtime.arena.reference import ArenaSettings, Segment
from runtime.pools.ray import actors as ray_actors
from runtime.pools.ray import worker as ray_worker
from runtime.pools.ray.actors import _Actor
from runtime.pools.ray.language import Whereabouts
from runtime.pools.ray.settings import RayPoolSettings
from runtime.pools.ray.worker import POOL_GONE, Bench, Part, serve
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


APP = """
from apps.contract import App
from compositions.model import Stage

class Double(App):
    name = "double"
    stages = (Stage("twice"),)
    def twice(self, value):
        return 2 * value
"""


@pytest.fixture(autouse=True)
def context(monkeypatch: pytest.MonkeyPatch) -> None:
    context = SimpleNamespace(get_node_id=lambda: "here", get_actor_name=lambda: "runner")
    monkeypatch.setattr("ray.get_runtime_context", lambda: context)


@pytest.fixture
def actor(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Actor]:
    """Its hub has gone when it has said that it is ready."""
    arena = Segment.create(1 << 16)
    gone = {"send": lambda message: None, "receive": lambda: None, "close": lambda: None}
    monkeypatch.setattr(ray_worker, "connect", lambda _: SimpleNamespace(handed=os.dup(arena.descriptor), **gone))
    monkeypatch.setattr(ray_worker, "ONE_THREAD", {})
    monkeypatch.setattr(ray_actors, "get_node_ip_address", lambda: "127.0.0.1")
    actor = _Actor("w1", 3600.0)
    yield actor
    actor._end.cancel()
    arena.forget_descriptor()


@pytest.fixture
def app_file(tmp_path: Path) -> Iterator[Path]:
    file = tmp_path / "double.py"
    file.write_text(APP)
    before = set(sys.modules)
    yield file
    for name in [each for each in set(sys.modules) - before if each.startswith("recompose_app_")]:
        del sys.modules[name]


def served(actor: _Actor, app_file: Path) -> str | None:
    make_app = partial(registry.create, "double", {}, [app_file.parent])
    return actor.run(None, Part(make_app, ("twice",)))  # type: ignore[arg-type]


def test_a_worker_of_a_pool_that_is_gone_lets_go_of_the_memory_it_shared(
    actor: _Actor, app_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelves: list[weakref.ref[TaskShelf]] = []

    def noted(descriptor: int | None) -> TaskShelf:
        shelf = shelf_of(descriptor)
        shelves.append(weakref.ref(shelf))
        return shelf

    monkeypatch.setattr(ray_worker, "shelf_of", noted)
    for _ in range(2):
        assert served(actor, app_file) == POOL_GONE
    assert [shelf() for shelf in shelves] == [None, None]


def test_a_worker_that_has_loaded_an_app_as_it_was_is_not_free(actor: _Actor, app_file: Path) -> None:
    assert actor.free() == ((), "here"), "it has no app yet"
    assert served(actor, app_file) == POOL_GONE
    assert actor.free() == ((), "here")
    os.utime(app_file, (0, 1))
    assert actor.free() is None
    app_file.unlink()
    assert actor.free() is None


def test_a_worker_that_waits_is_taken_where_it_is_wanted_and_on_no_node_to_avoid(monkeypatch) -> None:
    waiting = [ray_actors._Orphan(f"on {node}", (), node) for node in "abcd"]
    monkeypatch.setattr(ray_actors, "_orphans", lambda owner: waiting)
    pool = ray_actors.Actors(None, RayPoolSettings(orphan_s=60.0), lambda worker: None, lambda worker, why: None)  # type: ignore[arg-type]
    assert pool._orphan("b", (), ()) == "on b"
    assert pool._orphan("b", (), ("a", "d")) == "on c"
    assert pool._orphan("a", ("heavy",), ()) is None
    assert pool._orphan("a", (), ("a", "d")) is None
    assert {pool._orphan(None, (), ()) for _ in range(2)} == {"on a", "on d"}


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names that Ray has actors of; "app/late" ends between two questions."""
    names = ["app/1", "app-two/2", "app/3", "app/late", "other app/4"]

    def get_actor(name: str) -> str:
        if name not in names or name.endswith("late"):
            raise ValueError(name)
        return name

    def kill(actor: str, *, no_restart: bool) -> None:
        names.remove(actor)

    monkeypatch.setattr(ray_actors, "list_named_actors", names.copy)
    monkeypatch.setattr("ray.get_actor", get_actor)
    monkeypatch.setattr("ray.is_initialized", lambda: bool(names))
    monkeypatch.setattr("ray.kill", kill)
    return names


def test_workers_of_an_owner_that_is_gone_end_and_no_others(named: list[str]) -> None:
    ray_actors.end_workers_of("app")
    assert named == ["app-two/2", "app/late", "other app/4"]
    named += ["app", "app/5"]
    ray_actors.end_workers_of("app")
    assert len(named) == 5, "an owner that was started anew has its own"


def test_a_ray_that_was_left_is_not_asked(named: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """To ask would start another one."""
    named.clear()
    monkeypatch.setattr("ray.get_actor", lambda name: pytest.fail("asked"))
    monkeypatch.setattr(ray_actors, "list_named_actors", lambda: pytest.fail("asked"))
    ray_actors.end_workers_of("app")
