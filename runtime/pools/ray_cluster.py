"""Ray for those who may not import it: connect, host any object in a named process of the cluster, find it again.

A hosted object lives in an actor of its own and is asked from several threads at once. It may start
a ``RayPool`` itself: the workers then belong to it and end with it.
"""

from __future__ import annotations

import atexit
import logging
import os
import pickle
import socket
import sysconfig
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Ray reads these when it is imported. Niceness: Ray starts its workers as background jobs; ours do what the machine is
# there for. The last one keeps Ray's page of advice on every killed worker off our stdout, where results go; who died
# and why is told by WorkerLost.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
os.environ.setdefault("RAY_worker_niceness", "0")
os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", "A worker died or was killed")

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayTaskError

from runtime.pools import ray_own, ray_prints
from runtime.pools.ray_hosted import (
    Broken,
    ClusterError,
    Factory,
    Host,
    Hosted,
    Raised,
    RemoteFault,
    RemoteGone,
    RemoteTimeout,
)
from runtime.transport.local_calls import LocalCaller

__all__ = ["ClusterError", "Hosted", "RemoteFault", "RemoteGone", "RemoteTimeout"]

NAMESPACE = "recompose"
OBJECT_STORE_BYTES = 200 * 2**20
"""Items do not travel through Ray's object store; this holds arguments and code."""
THREADS = 8
"""Calls that a hosted object answers at once: a status call must not wait for a stop under way."""
_NAME_FREE_S = 5.0
_KNOCK_S = 5.0
_folders: list[Path] = []
"""Of the Ray that was started here, if one was."""


@dataclass(frozen=True, slots=True)
class Node:
    """A living machine of the cluster."""

    id: str
    address: str
    cores: float


def connect(address: str | None = None, namespace: str = NAMESPACE, *, hear: ray_prints.Hear | None = None) -> None:
    """Joins the Ray at ``address``, or starts one on this machine that ends with this process. Twice is once.

    ``hear`` gets what apps print in it, a line at a time; without it nobody does.
    Raises: ClusterError when there is no Ray at that address.
    """
    if ray.is_initialized():
        return
    common = {"namespace": namespace, "logging_level": logging.ERROR, "log_to_driver": hear is not None}
    try:
        if address is not None:
            _knock(address)
            ray.init(address=address, **common)
        else:
            _start_own(common)
    except (OSError, RuntimeError, ValueError) as error:
        where = f"at {address!r} cannot be reached" if address else "could not be started on this machine"
        raise ClusterError(f"Ray {where}: {error}") from error
    if hear is not None:
        ray_prints.listen(hear)


def _start_own(common: Mapping[str, Any]) -> None:
    _make_importable()
    ray_own.guard_token()
    folder = ray_own.make_folder()
    _folders.append(folder)
    atexit.register(shutdown)  # for who forgets; twice is once
    with ray_own.environment(heard=common["log_to_driver"]):
        ray.init(
            num_cpus=_cores(),
            object_store_memory=OBJECT_STORE_BYTES,
            include_dashboard=False,
            _temp_dir=str(folder),
            **common,
        )


def hear_out() -> None:
    """Waits until whoever listens has heard what was printed so far."""
    ray_prints.hear_out()


def shutdown() -> None:
    """Leaves the cluster; ends it when ``connect`` started it, and removes its folder."""
    ray.shutdown()
    ray_prints.forget()
    while _folders:
        ray_own.remove_folder(_folders.pop())


def ready() -> bool:
    """Whether Ray is connected and has a living machine."""
    return ray.is_initialized() and bool(nodes())


def nodes() -> list[Node]:
    return [
        Node(node["NodeID"], node["NodeManagerAddress"], node["Resources"].get("CPU", 0.0))
        for node in ray.nodes()
        if node["Alive"]
    ]


class RemoteObject:
    """A handle on a hosted object; may be used from any thread."""

    def __init__(self, name: str, actor: Any) -> None:
        self.name = name
        self._actor = actor
        self._near: LocalCaller | None = None
        self._looked = False

    def ask(self, request: Any, *, timeout_s: float) -> Any:
        """The object's answer; request and answer are pickled. On the object's own host they travel beside Ray.

        Raises: what the object raised when that is a RecomposeError; RemoteFault for any other error; RemoteGone;
        RemoteTimeout.
        """
        what = type(request).__name__
        if not self._looked:
            self._look(timeout_s)
        if self._near is not None:
            try:
                return self._answer_near(self._near, what, request, timeout_s)
            except ConnectionRefusedError:
                pass  # it is on another host, or has ended: Ray knows
        return self._answer(what, self._actor.ask.remote(request, timeout_s), timeout_s)

    def build(self, factory: Factory, args: tuple[Any, ...]) -> None:
        """Makes the object; ``spawn`` does. Raises: as ``ask``."""
        self._answer("its factory", self._actor.build.remote(factory, args), None)

    def _look(self, timeout_s: float) -> None:
        address = self._answer("where it is", self._actor.address.remote(), timeout_s)
        self._near = LocalCaller(address) if address is not None else None
        self._looked = True

    def _answer_near(self, near: LocalCaller, what: str, request: Any, timeout_s: float) -> Any:
        try:
            answer = pickle.loads(near.ask(pickle.dumps((request, timeout_s)), timeout_s))
        except TimeoutError:
            raise self._late(what, timeout_s) from None
        except ConnectionResetError as error:
            raise RemoteGone(f"{self.name} has ended: {error}") from error
        if isinstance(answer, Broken):
            raise RemoteFault(f"{what} of {self.name} failed: {answer.error}\n{answer.trace}")
        return _value(answer)

    def _answer(self, what: str, promise: Any, timeout_s: float | None) -> Any:
        try:
            answer = ray.get(promise, timeout=timeout_s)
        except GetTimeoutError:
            raise self._late(what, timeout_s) from None
        except RayActorError as error:
            raise RemoteGone(f"{self.name} has ended: {_first_line(error)}") from error
        except RayTaskError as error:
            raise RemoteFault(f"{what} of {self.name} failed: {error.cause!r}\n{error}") from error
        return _value(answer)

    def _late(self, what: str, timeout_s: float | None) -> RemoteTimeout:
        return RemoteTimeout(f"{self.name} did not answer {what} within {timeout_s:g} s")

    def alive(self, timeout_s: float = 5.0) -> bool:
        """Whether the object has been built and answers."""
        try:
            ray.get(self._actor.ping.remote(), timeout=timeout_s)
        except (RayActorError, RayTaskError, GetTimeoutError):
            return False
        return True

    def kill(self) -> None:
        """Ends its process at once, and with it the workers that it started, but for those that wait for another of its
        name (``orphan_s``); then its name is free again."""
        ray.kill(self._actor, no_restart=True)
        if self._near is not None:
            self._near.clear_up()
        give_up_s = time.monotonic() + _NAME_FREE_S
        while find(self.name) is not None and time.monotonic() < give_up_s:
            time.sleep(0.02)  # Ray tells nobody when a name becomes free


def spawn(name: str, factory: Factory, *args: Any, detached: bool = False) -> RemoteObject:
    """Calls ``factory``, which the other process imports by its name, with ``args`` in a process of its own, which
    ``find`` knows under ``name``.

    A ``detached`` one outlives this process if the Ray does. Raises: ClusterError when the name is taken; what the
    factory raised, as ``RemoteObject.ask`` does.
    """
    lifetime = "detached" if detached else None
    options = {"name": name, "lifetime": lifetime, "num_cpus": 0, "max_concurrency": THREADS}
    try:
        actor = ray.remote(Host).options(**options).remote(name)
    except ValueError as error:
        raise ClusterError(f"{name!r} cannot be started: {error}") from error
    remote = RemoteObject(name, actor)
    try:
        remote.build(factory, args)
    except BaseException:
        remote.kill()
        raise
    return remote


def find(name: str) -> RemoteObject | None:
    """The hosted object of that name, if its process is alive."""
    try:
        return RemoteObject(name, ray.get_actor(name))
    except ValueError:
        return None


def _value(answer: Any) -> Any:
    """Raises: the error that it is."""
    if isinstance(answer, Raised):
        raise answer.error()
    return answer


def _knock(address: str) -> None:
    """Ray itself tries a wrong address for minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.removeprefix("ray://"), int(port)), timeout=_KNOCK_S).close()


def _make_importable() -> None:
    """Processes that Ray starts here find our packages whatever their working directory, installed or not."""
    root = str(Path(__file__).resolve().parents[__name__.count(".")])
    if root == sysconfig.get_path("purelib"):
        return  # they have the interpreter of this environment, which looks there by itself
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if root not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([*paths, root])


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
