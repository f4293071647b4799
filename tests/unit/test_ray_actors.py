"""Workers that outlive their pool: which of them the next pool takes, and what they keep. Ray is played here; that it
does as it says is told by ``tests/faults/test_daemon_and_runner_killed.py``."""

import os
import sys
import weakref
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from apps import registry
from runtime.arena.frame_store import TaskShelf, shelf_of
from runtime.arena.reference import Segment
from runtime.pools.ray import actors as ray_actors
from runtime.pools.ray import worker as ray_worker
from runtime.pools.ray.actors import _Actor
from runtime.pools.ray.settings import RayPoolSettings
from runtime.pools.ray.worker import POOL_GONE, Part

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
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Actor]:
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
    worker: _Actor, app_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelves: list[weakref.ref[TaskShelf]] = []

    def noted(descriptor: int | None) -> TaskShelf:
        shelf = shelf_of(descriptor)
        shelves.append(weakref.ref(shelf))
        return shelf

    monkeypatch.setattr(ray_worker, "shelf_of", noted)
    for _ in range(2):
        assert served(worker, app_file) == POOL_GONE
    assert [shelf() for shelf in shelves] == [None, None]


def test_a_worker_that_has_loaded_an_app_as_it_was_is_not_free(worker: _Actor, app_file: Path) -> None:
    assert worker.free() == ((), "here"), "it has no app yet"
    assert served(worker, app_file) == POOL_GONE
    assert worker.free() == ((), "here")
    os.utime(app_file, (0, 1))
    assert worker.free() is None
    app_file.unlink()
    assert worker.free() is None


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
