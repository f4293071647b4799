"""The pools that a spec may name, each with the codec whose payloads its workers take."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from apps.contract import App
from runtime.pools.local import LocalPool, PickleCodec
from runtime.pools.port import Codec, WorkerPool
from runtime.pools.ray_settings import RayPoolSettings

MakeApp = Callable[[], App]
PoolMaker = Callable[[MakeApp, Sequence[str], RayPoolSettings], tuple[WorkerPool, Codec]]
"""From what makes an app instance, the names of its stages, and settings; threads need none of these."""


def _local(make_app: MakeApp, stages: Sequence[str], settings: RayPoolSettings) -> tuple[WorkerPool, Codec]:
    return LocalPool(make_app), PickleCodec()


def _ray(make_app: MakeApp, stages: Sequence[str], settings: RayPoolSettings) -> tuple[WorkerPool, Codec]:
    from runtime.pools.ray_pool import RayPool  # imported here: a local run needs no Ray

    pool = RayPool(make_app, list(stages), settings)
    return pool, pool.codec


POOLS: Mapping[str, PoolMaker] = {"local": _local, "ray": _ray}
