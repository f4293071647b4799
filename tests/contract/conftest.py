"""One rig a pool: the whole suite runs on each."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from apps.registry import create  # noqa: E402
from rig import Rig  # noqa: E402

from runtime.dispatcher import DispatcherSettings  # noqa: E402
from runtime.local import LocalPool, PickleCodec  # noqa: E402
from runtime.simulated import Cost, Machine, SimulatedPool  # noqa: E402

APPS = HERE / "apps"
MakeRig = Callable[..., Rig]


def make_local(options: dict[str, object]) -> tuple[LocalPool, PickleCodec, Callable[[str], None]]:
    pool = LocalPool(lambda: create("chain", options, [APPS]))
    return pool, PickleCodec(), pool.lose


def make_simulated(options: dict[str, object]) -> tuple[SimulatedPool, PickleCodec, Callable[[str], None]]:
    app_options = {**options, "work_s": 0.0, "hang_at": None}
    hang_at, work_s = options.get("hang_at"), float(str(options.get("work_s", 0.001)))

    def cost(stage: str, serial: int) -> Cost:
        return Cost(0.0, 3.0 if stage == "second" and serial == hang_at else work_s)

    pool = SimulatedPool(cost, Machine(cores=4), lambda: create("chain", app_options, [APPS]))
    return pool, PickleCodec(), pool.lose


MAKERS = {"local": make_local, "simulated": make_simulated}


@pytest.fixture(params=sorted(MAKERS))
def make_rig(request: pytest.FixtureRequest) -> Iterator[MakeRig]:
    """``make_rig(settings=…, **app_options)`` gives an unopened rig on the pool of this run of the suite."""
    rigs: list[Rig] = []

    def make(settings: DispatcherSettings | None = None, **options: object) -> Rig:
        pool, codec, lose = MAKERS[request.param](options)
        app = create("chain", options, [APPS])
        rigs.append(Rig(tuple(app.stages), pool, codec, lose, settings=settings or DispatcherSettings()))
        return rigs[-1]

    yield make
    for rig in rigs:
        rig.pool.close()
