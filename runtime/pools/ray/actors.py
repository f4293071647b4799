"""The Ray actors of workers, one each. Every call may wait for Ray's head, so the loop's thread makes none.

If a pool may have a successor (``orphan_s``), its actors are detached and have names: a worker that loses its pool
waits for that time, and the next pool of the same owner finds it, still set up.
"""

import os
import pickle
import secrets
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import ray
from ray.util import get_node_ip_address, list_named_actors
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from apps.contract import App
from compositions.model import Loads
from runtime.dispatch.events import WorkerId
from runtime.housekeeping import unsettle
from runtime.pools.limits import Limits, hold
from runtime.pools.ray import cluster
from runtime.pools.ray.hosted import names_of, owner_of
from runtime.pools.ray.seating import NodeId
from runtime.pools.ray.settings import RayPoolSettings
from runtime.pools.ray.worker import POOL_GONE, Part, ready, run_worker
from runtime.transport.pending import Invitation

# Named workers, which may outlive the pool that started them (``orphan_s``): ``OWNER/…``, where the owner is the hosted
# object that has the pool.


def workers_of(owner: str) -> list[Any]:
    """Return the living workers of an owner, including those of an earlier pool."""
    found = []
    for name in list_named_actors():
        if name.startswith(f"{owner}/"):
            with suppress(ValueError):  # the worker has just ended
                found.append(ray.get_actor(name))
    return found


def end_workers_of(owner: str) -> None:
    """Kill the workers of an owner, unless the owner is alive, for example restarted meanwhile."""
    if not ray.is_initialized():  # a call would start a Ray
        return
    if any(map(cluster.find, names_of(owner))):
        return
    for worker in workers_of(owner):
        ray.kill(worker, no_restart=True)


FREE_S = 1.0
"""Time in which a worker of an earlier pool must report that it is free; a worker that does not is killed."""
NO_LIMITS = Limits()
LEAVE_S = 2.0
"""Delay before an unneeded detached worker ends, so that its answer is sent first."""


class Actors:
    """The Ray actors of a pool. One of Ray's threads calls ``began`` when an actor's process has started, and ``ended``
    with the reason when it has ended."""

    def __init__(
        self,
        part: Part,
        settings: RayPoolSettings,
        began: Callable[[WorkerId], None],
        ended: Callable[[WorkerId, str], None],
    ) -> None:
        self._part, self._settings = part, settings
        self._began, self._ended = began, ended
        self._actors: dict[WorkerId, Any] = {}
        owner = ray.get_runtime_context().get_actor_name()
        self._owner = owner_of(owner or "")
        self._orphan_s = settings.orphan_s if owner else 0.0
        self._orphans: list[_Orphan] | None = None
        """Free workers of an earlier pool; None: not searched for yet."""
        self._orphans_until_s = 0.0
        """Time after which these workers may have ended."""

    def start(
        self, invitation: Invitation, node: NodeId | None, loads: Loads, avoided: Collection[NodeId] = ()
    ) -> None:
        """Start a worker on ``node`` if possible; None: Ray chooses. A free worker of an earlier pool is preferred,
        wherever it is, unless on one of the ``avoided`` nodes."""
        actor = self._orphan(node, loads, avoided) or self._new(invitation.worker, node, loads)
        self._actors[invitation.worker] = actor
        begins = actor.begin.remote().future()
        begins.add_done_callback(lambda done: done.exception() or self._began(invitation.worker))
        running = actor.run.remote(invitation, replace(self._part, loads=loads))
        running.future().add_done_callback(partial(self._over, invitation.worker))

    def _new(self, worker: WorkerId, node: NodeId | None, loads: Loads) -> Any:
        options = self._options(node, loads)
        if self._orphan_s:
            options |= {"name": f"{self._owner}/{secrets.token_hex(8)}", "lifetime": "detached"}
        limits = Limits(self._settings.worker_memory_mb, self._settings.worker_processes)
        name = f"{self._owner} {worker}".lstrip()
        return _WorkerActor.options(**options).remote(name, self._orphan_s, limits, loads)

    def _orphan(self, node: NodeId | None, loads: Loads, avoided: Collection[NodeId]) -> Any | None:
        if self._orphans is None:
            self._orphans_until_s = time.monotonic() + self._orphan_s / 2
            self._orphans = _orphans(self._owner) if self._orphan_s else []
        if time.monotonic() >= self._orphans_until_s:
            self._orphans.clear()
        fitting = [each for each in self._orphans if each.loads == loads and each.node not in avoided]
        if not fitting:
            return None
        found = min(fitting, key=lambda each: each.node != node)
        self._orphans.remove(found)
        return found.actor

    def _options(self, node: NodeId | None, loads: Loads) -> dict[str, Any]:
        """Return Ray's options for a worker: its resources and its node. An actor without needs may be placed by any
        machine, even a lost one; an actor with needs is placed by ours."""
        need = self._settings.need_of_worker(loads)
        options: dict[str, Any] = {"num_cpus": need.cpus or 0, "resources": dict(need.custom)}
        if need.gpus:
            options["num_gpus"] = need.gpus
        if need.memory_bytes:
            options["memory"] = need.memory_bytes
        if node is not None:
            options["num_cpus"] = max(options["num_cpus"], cluster.LEAST_CPUS)
            options["scheduling_strategy"] = NodeAffinitySchedulingStrategy(node, soft=True)
        return options

    def kill(self, worker: WorkerId) -> None:
        actor = self._actors.pop(worker, None)
        if actor is not None:
            ray.kill(actor, no_restart=True)

    def _over(self, worker: WorkerId, running: Future[str | None]) -> None:
        self._actors.pop(worker, None)
        error = running.exception()
        self._ended(worker, _sentence(error) if error else running.result() or "it ended by itself")


@dataclass(frozen=True, slots=True)
class _Orphan:
    """A free worker of an earlier pool."""

    actor: Any
    loads: Loads
    node: NodeId


def _orphans(owner: str) -> list[_Orphan]:
    found = workers_of(owner)
    said = {actor.free.remote(): actor for actor in found}
    soon = ray.wait(list(said), num_returns=len(said), timeout=FREE_S)[0] if said else []
    free = [_Orphan(actor, *told) for answer, actor in said.items() if answer in soon and (told := _free(answer))]
    for actor in found:
        if actor not in [each.actor for each in free]:
            ray.kill(actor, no_restart=True)
    return free


def _free(answer: Any) -> tuple[Loads, NodeId] | None:
    try:
        told: tuple[Loads, NodeId] | None = ray.get(answer)
    except ray.exceptions.RayError:
        return None
    return told


class _Actor:
    """The actor of a worker. ``orphan_s``: time to wait for another pool; 0: the worker ends with its first one."""

    def __init__(self, name: str, orphan_s: float, limits: Limits = NO_LIMITS, loads: Loads = ()) -> None:
        self._name, self._orphan_s, self._loads = name, orphan_s, loads
        self._connected = hold(limits, name)
        self._app: tuple[bytes, App] | None = None
        self._written: dict[str, float] = {}
        """The modification times of the app's loaded files (``_written_s``)."""
        self._end = threading.Timer(0.0, os._exit, (0,))
        self._end_after(orphan_s)

    def __repr__(self) -> str:
        """Return the worker's name, which Ray shows beside lines that the worker prints."""
        return self._name

    def begin(self) -> None:
        """Return as soon as the process has started."""

    def free(self) -> tuple[Loads, NodeId] | None:
        """Return the worker's class and node when it has no pool, and extend its wait for the calling one. None: the
        app's files have changed since this process loaded them."""
        self._end.cancel()
        self._end_after(self._orphan_s)
        if self._written != _written_s(self._written):
            return None
        return self._loads, ray.get_runtime_context().get_node_id()

    def run(self, invitation: Invitation, part: Part) -> str | None:
        self._end.cancel()
        why, context = None, ray.get_runtime_context()
        try:
            machine = get_node_ip_address(), context.get_node_id()
            why = run_worker(invitation, part, machine, self._ready if self._orphan_s else ready, self._connected)
        finally:
            self._end_after(self._orphan_s if why == POOL_GONE else LEAVE_S)
            unsettle()  # otherwise the memory shared with the pool would stay as long as the worker lives
        if why is None or (why == POOL_GONE and not self._orphan_s):
            ray.actor.exit_actor()
        return why

    def _ready(self, part: Part) -> App:
        """Return the app: that of the earlier pool if it was made from the same ``part``, else a new one."""
        made_by = pickle.dumps(part)
        if self._app is None or self._app[0] != made_by:
            self._app = made_by, ready(part)
            self._written = _written_s(_files_of(self._app[1]))
        return self._app[1]

    def _end_after(self, seconds: float) -> None:
        """End the process after some seconds if it is detached; otherwise it ends with its owner."""
        if self._orphan_s:
            self._end = threading.Timer(seconds, os._exit, (0,))
            self._end.daemon = True
            self._end.start()


def _files_of(app: App) -> list[str]:
    """Return the loaded files in the folder of the app's class."""
    loaded = [file for module in list(sys.modules.values()) if (file := getattr(module, "__file__", None))]
    own = getattr(sys.modules.get(type(app).__module__), "__file__", None)
    return [file for file in loaded if own and file.startswith(os.path.dirname(own) + os.sep)]


def _written_s(files: Iterable[str]) -> dict[str, float]:
    """Return the modification time of each file; 0 if it is gone."""
    return {file: os.stat(file).st_mtime if os.path.exists(file) else 0.0 for file in files}


_WorkerActor: Any = ray.remote(max_restarts=0, max_task_retries=0)(_Actor)  # typed as what it becomes: Ray's


def _sentence(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    if isinstance(error, ray.exceptions.RayTaskError):  # the trace of what was raised there, which ends with the cause
        return f"its actor ended: {lines[-1]}"
    return f"its actor ended: {type(error).__name__}: {lines[0]}"
