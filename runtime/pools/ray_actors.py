"""Ray's side of the workers: one actor each. Every call may wait for Ray's head: none is for the loop's thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

import ray
from ray.util import get_node_ip_address
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from apps.contract import App
from runtime.dispatch.events import WorkerId
from runtime.pools.places import NodeId
from runtime.pools.ray_settings import RayPoolSettings
from runtime.pools.ray_worker import run_worker
from runtime.transport.invitation import Invitation

_LEAST_CPUS = 0.0001
"""The least that Ray counts."""


class Actors:
    """``ended`` is called, by a thread of Ray's, when an actor has ended, and gets the reason."""

    def __init__(
        self,
        make_app: Callable[[], App],
        stages: Sequence[str],
        settings: RayPoolSettings,
        ended: Callable[[WorkerId, str], None],
    ) -> None:
        self._make_app, self._stages, self._settings, self._ended = make_app, stages, settings, ended
        self._actors: dict[WorkerId, Any] = {}
        owner = ray.get_runtime_context().get_actor_name()
        self._owner = f"{owner} " if owner else ""

    def nodes(self) -> list[NodeId]:
        """The machines that Ray believes alive."""
        return [node["NodeID"] for node in ray.nodes() if node["Alive"]]

    def start(self, invitation: Invitation, node: NodeId | None) -> None:
        """On ``node``, if that is possible; Ray chooses where it is None."""
        actor = _WorkerActor.options(**self._where(node), resources=dict(self._settings.resources)).remote(
            self._owner + invitation.worker
        )
        self._actors[invitation.worker] = actor
        running = actor.run.remote(invitation, self._make_app, self._stages)
        running.future().add_done_callback(partial(self._over, invitation.worker))

    def _where(self, node: NodeId | None) -> dict[str, Any]:
        """An actor that needs nothing is placed by any machine, also one that is gone; one that needs some, by ours."""
        cpus = self._settings.worker_cpus
        if node is None:
            return {"num_cpus": cpus}
        affinity = NodeAffinitySchedulingStrategy(node, soft=True)
        return {"num_cpus": max(cpus, _LEAST_CPUS), "scheduling_strategy": affinity}

    def kill(self, worker: WorkerId) -> None:
        actor = self._actors.pop(worker, None)
        if actor is not None:
            ray.kill(actor, no_restart=True)

    def _over(self, worker: WorkerId, running: Future[str | None]) -> None:
        self._actors.pop(worker, None)
        error = running.exception()
        self._ended(worker, _sentence(error) if error else running.result() or "it ended by itself")


class _Actor:
    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        """Who printed, where somebody listens."""
        return self._name

    def run(self, invitation: Invitation, make_app: Callable[[], App], stages: Sequence[str]) -> str | None:
        context = ray.get_runtime_context()
        why_not = run_worker(invitation, make_app, stages, (get_node_ip_address(), context.get_node_id()))
        if why_not is None:
            ray.actor.exit_actor()
        return why_not


_WorkerActor: Any = ray.remote(max_restarts=0, max_task_retries=0)(_Actor)  # typed as what it becomes: Ray's


def _sentence(error: BaseException) -> str:
    return f"its actor ended: {type(error).__name__}: {str(error).strip().splitlines()[0]}"
