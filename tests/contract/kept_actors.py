"""Ray actors that take one worker after the other: to start a process, with Ray in it, is a second of CPU."""

import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import ray
from ray.util import get_node_ip_address

from apps.contract import App
from compositions.model import Loads
from runtime.dispatch.events import WorkerId
from runtime.pools.ray.actors import Actors, NodeId
from runtime.pools.ray.pool import RayPool
from runtime.pools.ray.worker import Part, run_worker
from runtime.transport.pending import Invitation

ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # Ray's processes have no folder of tests


class Kept:
    """What is called ``ray::Kept`` waits for its next worker; while it is one, it is called ``ray::Kept.run``."""

    def run(self, invitation: Invitation, part: Part) -> str | None:
        node = ray.get_runtime_context().get_node_id()
        return run_worker(invitation, part, (get_node_ip_address(), node))


_KeptActor: Any = ray.remote(max_restarts=0, max_task_retries=0)(Kept)


class KeptActors(Actors):
    """As the pool's own, but an actor whose worker has left takes the next one, of any pool. What was killed is gone.

    That a worker's process ends with it is told by ``tests/integration/test_ray_pool.py``.
    """

    free: ClassVar[dict[NodeId | None, list[Any]]] = defaultdict(list)
    """By machine. To be emptied when Ray ends."""

    def start(self, invitation: Invitation, node: NodeId | None, loads: Loads, _: Collection[NodeId] = ()) -> None:
        free = self.free[node]
        actor = free.pop() if free else _KeptActor.options(**self._options(node, loads)).remote()
        self._actors[invitation.worker] = actor
        running = actor.run.remote(invitation, replace(self._part, loads=loads))
        running.future().add_done_callback(partial(self._left, invitation.worker, node))

    def _left(self, worker: WorkerId, node: NodeId | None, running: Future[str | None]) -> None:
        actor = self._actors.pop(worker, None)
        if actor is not None and running.exception() is None:
            self.free[node].append(actor)
        self._over(worker, running)


def keep_actors(pool: RayPool, make_app: Callable[[], App], stages: Sequence[str]) -> RayPool:
    part = Part(make_app, tuple(stages))
    pool._actors = KeptActors(part, pool._settings, pool._starts.began, pool._actor_ended)
    return pool
