"""One rig a pool: the whole suite runs on each."""

import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import ray

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "hosts")]

from hosts import kill  # noqa: E402
from kept_actors import KeptActors, keep_actors  # noqa: E402
from rig import Rig  # noqa: E402
from servers import RabbitMq  # noqa: E402

from apps.registry import create  # noqa: E402
from lab.simulation.machine import Cost, Machine  # noqa: E402
from lab.simulation.pool import SimulatedPool  # noqa: E402
from runtime.dispatch.settings import DispatcherSettings  # noqa: E402
from runtime.dispatch.views import WorkerView  # noqa: E402
from runtime.pools.local import LocalPool, PickleCodec  # noqa: E402
from runtime.pools.port import Codec, WorkerPool  # noqa: E402
from runtime.pools.ray import cluster  # noqa: E402
from runtime.pools.ray.pool import RayPool  # noqa: E402


@pytest.fixture(scope="session")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMq]:
    """One for all: to start it takes seconds of a core."""
    server = RabbitMq(tmp_path_factory.mktemp("rabbitmq"))
    yield server
    server.end()


@pytest.fixture
def place(make_place: Callable[[Path], Any], tmp_path: Path) -> Iterator[Any]:
    """Of each kind that the test's module makes; servers for all of them started before the test."""
    with closing(make_place(tmp_path)) as made:
        yield made


APPS = HERE / "apps"
MakeRig = Callable[..., Rig]

Made = tuple[WorkerPool, Codec, Callable[[WorkerView], None]]


def make_local(name: str, options: dict[str, object]) -> Made:
    pool = LocalPool(partial(create, name, options, [APPS]))
    return pool, PickleCodec(), lambda lost: pool.lose(lost.worker)


def make_ray(name: str, options: dict[str, object]) -> Made:
    if not ray.is_initialized():
        KeptActors.free.clear()  # they ended with the Ray before
    cluster.connect(os.environ.get("RAY_ADDRESS"))
    names = tuple(stage.name for stage in create(name, options, [APPS]).stages)
    make_app = partial(create, name, options, [APPS])
    pool = keep_actors(RayPool(make_app, names), make_app, names)
    return pool, pool.codec, lambda lost: kill(lost.pid, lost.node)


NO_WAIT: Any = {"chain": {"work_s": 0.0, "hang_at": None, "setup_waits": None}, "calls": {"until": 0}}
"""In virtual time that is what tasks cost, not what stages do."""


def make_simulated(name: str, options: dict[str, object]) -> Made:
    app_options = {**options, **NO_WAIT.get(name, {})}
    for entered, _ in filter(None, [options.get("setup_waits")]):  # virtual time waits for nothing
        Path(entered).touch()
    hang_at, work_s = options.get("hang_at"), float(str(options.get("work_s", 0.001)))

    def cost(stage: str, serial: int) -> Cost:
        return Cost(0.0, 4.0 if stage == "second" and serial == hang_at else work_s)

    pool = SimulatedPool(cost, Machine(cores=4), lambda: create(name, app_options, [APPS]))
    return pool, PickleCodec(), lambda lost: pool.lose(lost.worker)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[Any]) -> None:
    """On Ray one case of each test is enough for every change, the second: it has several workers in a group."""
    on_ray = defaultdict(list)
    for item in items:
        if hasattr(item, "callspec") and item.callspec.params.get("make_rig") == "ray":
            on_ray[item.path, item.originalname].append(item)
    for cases in on_ray.values():
        for case in {*cases} - {*cases[:2][-1:]}:
            case.add_marker(pytest.mark.long)


MAKERS = {"local": make_local, "ray": make_ray, "simulated": make_simulated}


@pytest.fixture(params=sorted(MAKERS))
def make_rig(request: pytest.FixtureRequest) -> Iterator[MakeRig]:
    """``make_rig(app, settings=…, **app_options)`` returns an unopened rig on this run's pool, without spare workers
    (each takes a second of CPU to start on Ray) unless ``settings`` have some."""
    rigs: list[Rig] = []

    def make(name: str = "chain", settings: DispatcherSettings | None = None, **options: object) -> Rig:
        pool, codec, lose = MAKERS[request.param](name, options)
        app = create(name, options, [APPS])
        rig = Rig(tuple(app.stages), pool, codec, lose, settings=settings or DispatcherSettings(spares=0), app=app)
        rigs.append(rig)
        return rig

    yield make
    for rig in rigs:
        rig.pool.close()
