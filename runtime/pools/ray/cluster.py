"""Access to Ray for modules that may not import it: connect, host any object in a named process of the cluster, find it
again.

A hosted object lives in an actor of its own and is called from several threads at once. It may start a ``RayPool``
itself: the workers then belong to it and end with it.
"""

import atexit
import logging
import os
import pickle
import socket
import sysconfig
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from math import ceil
from pathlib import Path
from typing import Any

# Ray reads these when it is imported. Niceness: Ray starts its workers as background jobs; ours are no less. The last
# one keeps Ray's page of advice on every killed worker off our stdout, where results go; WorkerLost tells who died.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
os.environ.setdefault("RAY_worker_niceness", "0")
os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", "A worker died or was killed")

import ray
from ray._private import state as ray_state
from ray.exceptions import ActorUnavailableError, GetTimeoutError, RayActorError, RayTaskError
from ray.util import get_node_ip_address
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from runtime.housekeeping import available_cores
from runtime.pools.limits import Process
from runtime.pools.ray import guard, hosted, own
from runtime.pools.ray.hosted import ClusterError, Factory, Hosted, RemoteFault, RemoteGone, RemoteTimeout
from runtime.transport.local_calls import LocalCaller

__all__ = ["ClusterError", "Hosted", "RemoteFault", "RemoteGone", "RemoteTimeout"]

NAMESPACE = "recompose"
OBJECT_STORE_BYTES = 200 * 2**20
"""Items do not travel through Ray's object store; this holds arguments and code."""
THREADS = 8
"""Calls that a hosted object answers at once: a status call must not wait for a stop under way."""
BEGIN_S = 300.0
"""Until Ray has begun the process of a hosted object: on a busy machine it takes long to load Python."""
BUILD_S = 600.0
"""Until the object is made, from then on: building an app's database belongs to it."""
LEAST_CPUS = 0.0001
"""The least that Ray counts."""
_TOO_SLOW = {
    False: f"was not begun by Ray within {BEGIN_S:g} s; the cluster may lack resources, or be busy",
    True: f"was not built within {BUILD_S:g} s",
}
_LOOK_S = 1.0
_PING_S = 2.0
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
    port: int = 0
    """Where its raylet listens."""


class Seen(Enum):
    """The state of a hosted object, seen from here."""

    ALIVE = "alive"
    """It answers, or its machine does."""
    AWAY = "away"
    """Its machine does not answer."""
    DEAD = "dead"


def connect(address: str | None = None, namespace: str = NAMESPACE, *, hear: own.Hear | None = None) -> None:
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
        own.listen(hear)


def _start_own(common: Mapping[str, Any]) -> None:
    _make_importable()
    own.guard_token()
    folder = own.make_folder()
    _folders.append(folder)
    atexit.register(shutdown)  # for who forgets; twice is once
    with own.environment(heard=common["log_to_driver"]):
        ray.init(
            num_cpus=ceil(available_cores()),
            object_store_memory=OBJECT_STORE_BYTES,
            include_dashboard=False,
            _temp_dir=str(folder),
            **common,
        )


def hear_out() -> None:
    """Waits until whoever listens has heard what was printed so far."""
    own.hear_out()


def shutdown() -> None:
    """Leaves the cluster; ends it when ``connect`` started it, and removes its folder."""
    ray.shutdown()
    own.forget()
    while _folders:
        own.remove_folder(_folders.pop())


def is_own() -> bool:
    """Return whether ``connect`` started the Ray, on this machine only."""
    return bool(_folders)


def own_address() -> str:
    """The address of this machine in the cluster."""
    return str(get_node_ip_address())


def nodes() -> list[Node]:
    return [
        Node(node["NodeID"], node["NodeManagerAddress"], node["Resources"].get("CPU", 0.0), node["NodeManagerPort"])
        for node in ray.nodes()
        if node["Alive"]
    ]


def joined() -> bool:
    """Return whether this process is connected to a Ray."""
    return bool(ray.is_initialized())


def head_answers() -> bool:
    """Return whether Ray is connected and the port of its head takes a connection; within a second or so, where a
    call of Ray's would wait for the head."""
    return ray.is_initialized() and bool(guard.answering({"head": _head()}))


def _head() -> tuple[str, int]:
    host, _, port = str(ray.get_runtime_context().gcs_address).rpartition(":")
    return host.strip("[]"), int(port)


class RemoteObject:
    """A handle on a hosted object; may be used from any thread."""

    def __init__(self, name: str, actor: Any) -> None:
        self.name = name
        self._actor = actor
        self._near: LocalCaller | None = None
        self._looked = False
        self._warmed: Any = None
        self._process = Process()
        self._node: Node | None = None

    def ask(self, request: Any, *, timeout_s: float) -> Any:
        """The object's answer; request and answer are pickled. On the object's own host they travel beside Ray.

        Raises: what the object raised when that is a RecomposeError; RemoteFault for any other error; RemoteGone;
        RemoteTimeout.
        """
        what = type(request).__name__
        if not self._looked:
            self._look(timeout_s)
        if self._near is not None:
            with suppress(ConnectionRefusedError):  # it is on another host, or has ended: Ray knows
                return self._answer_near(self._near, what, request, timeout_s)
        return self._answer(what, self._actor.ask.remote(request, timeout_s), timeout_s)

    def warm(self, load: Callable[..., object], *args: Any) -> None:
        """Have its process do ahead of ``build`` what takes long."""
        self._warmed = self._actor.warm.remote(load, args)

    @property
    def is_warm(self) -> bool:
        return bool(ray.wait([self._warmed], timeout=0)[0])  # however it went

    @property
    def is_built(self) -> bool:
        """Return whether there is an object."""
        with suppress(ray.exceptions.RayError):
            return bool(ray.get(self._actor.is_built.remote(), timeout=_PING_S))
        return True  # as far as is known

    def build(self, factory: Factory, args: tuple[Any, ...], given_up: Callable[[], bool]) -> None:
        """Make the object, or end its process. Raises: as ``ask``; RemoteTimeout for a process that Ray does not begin,
        a machine that goes away meanwhile, or a factory that takes too long, counted from the process's beginning."""
        try:
            self._build(factory, args, given_up)
        except BaseException:
            self.kill()
            raise

    def _build(self, factory: Factory, args: tuple[Any, ...], given_up: Callable[[], bool]) -> None:
        built, begins = self._actor.build.remote(factory, args), self._actor.ping.remote()
        until_s, begun = time.monotonic() + BEGIN_S, False
        while not ray.wait([built], timeout=_LOOK_S)[0]:
            if given_up():
                raise RemoteGone(f"{self.name} is no longer needed")
            if not begun and ray.wait([begins], timeout=0)[0]:
                until_s, begun = time.monotonic() + BUILD_S, True
            if self._machine() is Seen.AWAY:
                raise RemoteTimeout(f"the machine that {self.name} should start on does not answer")
            if time.monotonic() > until_s:
                raise RemoteTimeout(f"{self.name} {_TOO_SLOW[begun]}")
        self._answer("its factory", built, None)

    def _look(self, timeout_s: float) -> None:
        place = self._answer("where it is", self._actor.place.remote(), timeout_s)
        self._near = LocalCaller(place.near) if place.near is not None else None
        self._process = Process(place.pid, place.pid_space)
        self._looked = True

    def _answer_near(self, near: LocalCaller, what: str, request: Any, timeout_s: float) -> Any:
        try:
            answer = pickle.loads(near.ask(pickle.dumps((request, timeout_s)), timeout_s))
        except TimeoutError:
            raise self._late(what, timeout_s) from None
        except ConnectionResetError as error:
            raise RemoteGone(f"{self.name} has ended: {self._process.how_ended() or error}") from error
        if isinstance(answer, hosted.Broken):
            raise RemoteFault(f"{what} of {self.name} failed: {answer.error}\n{answer.trace}")
        return _value(answer)

    def _answer(self, what: str, promise: Any, timeout_s: float | None) -> Any:
        try:
            answer = ray.get(promise, timeout=timeout_s)
        except GetTimeoutError:
            raise self._late(what, timeout_s) from None
        except ActorUnavailableError as error:
            raise RemoteTimeout(f"{self.name} cannot be reached: {_first_line(error)}") from error
        except RayActorError as error:
            raise RemoteGone(f"{self.name} has ended: {self._process.how_ended() or _first_line(error)}") from error
        except RayTaskError as error:
            raise RemoteFault(f"{what} of {self.name} failed: {error.cause!r}\n{error}") from error
        return _value(answer)

    def _late(self, what: str, timeout_s: float | None) -> RemoteTimeout:
        return RemoteTimeout(f"{self.name} did not answer {what} within {timeout_s:g} s")

    def state(self) -> Seen:
        """Return how it looks by its process, its answer, and Ray's view of it and its machine; within seconds."""
        if self._process.ended:
            return Seen.DEAD
        try:
            ray.get(self._actor.ping.remote(), timeout=_PING_S)
        except (GetTimeoutError, ActorUnavailableError):
            return self._machine()
        except (RayActorError, RayTaskError):
            return Seen.DEAD
        return Seen.ALIVE

    def _machine(self) -> Seen:
        """Return what Ray and a knock tell of where it is; alive while that is not known."""
        if head_answers():
            told = ray._private.state.state.actor_table(self._actor._actor_id.hex())
            if told.get("State") == "DEAD":
                return Seen.DEAD
            known = {node.id: node for node in nodes()}
            at = told.get("Address", {}).get("NodeID")
            if self._node is not None and self._node.id not in known:
                return Seen.DEAD
            self._node = known.get(at, self._node)
        if self._node is None:
            return Seen.ALIVE
        there = guard.answering({self._node.id: (self._node.address, self._node.port)})
        return Seen.ALIVE if there else Seen.AWAY

    def kill(self) -> None:
        """Ends its process at once, and with it the workers that it started, but for those that wait for another of its
        name (``orphan_s``); then its name is free again."""
        self._process.kill()  # one that hangs in C code does not hear Ray
        ray.kill(self._actor, no_restart=True)
        if self._near is not None:
            self._near.clear_up()
        give_up_s = time.monotonic() + _NAME_FREE_S
        while find(self.name) is not None and time.monotonic() < give_up_s:
            time.sleep(0.02)  # Ray tells nobody when a name becomes free


def spawn(
    name: str, factory: Factory, *args: Any, detached: bool = False, given_up: Callable[[], bool] = lambda: False
) -> RemoteObject:
    """Calls ``factory``, which the other process imports by its name, with ``args`` in a process of its own, which
    ``find`` knows under ``name``. A ``detached`` one outlives this process if the Ray does.

    Raises: ClusterError if it is ``given_up`` meanwhile; what the factory raised, as ``RemoteObject.ask`` does; as
    ``begun`` and ``RemoteObject.build``.
    """
    (remote := begun(name, detached=detached)).build(factory, args, given_up)
    return remote


def begun(name: str, *, detached: bool = False) -> RemoteObject:
    """Begin an object's process on a machine that answers and stays. Raises: ClusterError if the name is taken."""
    options = {"name": name, "lifetime": "detached" if detached else None, "max_concurrency": THREADS, **_where()}
    try:
        actor = ray.remote(hosted.Host).options(**options).remote(name)
    except ValueError as error:
        raise ClusterError(f"{name!r} cannot be started: {error}") from error
    return RemoteObject(name, actor)


def _where() -> dict[str, Any]:
    """Any machine; where one does not answer or is to go, another that has CPUs."""
    found = nodes()  # an actor that needs nothing would be placed by any of them, also by one that is gone
    silent = guard.silent({node.id: (node.address, node.port) for node in found})
    lost = silent | {*ray_state.state.get_draining_nodes()}
    if not lost:
        return {"num_cpus": 0}
    own = ray.get_runtime_context().get_node_id()
    there = (node for node in found if node.id not in lost and node.cores)
    trusted = sorted(there, key=lambda node: node.id != own)
    if not trusted:
        raise RemoteTimeout("no machine of the cluster that has CPUs answers")
    strategy = NodeAffinitySchedulingStrategy(trusted[0].id, soft=False)
    return {"num_cpus": LEAST_CPUS, "scheduling_strategy": strategy}


def find(name: str) -> RemoteObject | None:
    """The hosted object of that name, if its process is alive."""
    with suppress(ValueError):
        return RemoteObject(name, ray.get_actor(name))
    return None


def _value(answer: Any) -> Any:
    """Raises: the error that it is."""
    if isinstance(answer, hosted.Raised):
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


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
