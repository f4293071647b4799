"""Access to Ray for modules that may not import it: connect, host any object in a named process of the cluster, and
find the object again.

A hosted object lives in its own actor and may be called from several threads at once. If the object starts a
``RayPool``, the workers belong to the object and end with it.
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

# Ray reads these when it is imported. Niceness: by default Ray lowers the priority of its workers. The last one keeps
# Ray's long message about every killed worker off our stdout, where results go; WorkerLost reports the loss.
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
"""Size of Ray's object store, which holds only arguments and code, no items."""
THREADS = 8
"""Number of concurrent calls of a hosted object: a status call must not wait for a stop under way."""
BEGIN_S = 300.0
"""Time limit for Ray to start the process of a hosted object; loading Python takes long on a busy machine."""
BUILD_S = 600.0
"""Time limit from then on to make the object, which may include building an app's database."""
LEAST_CPUS = 0.0001
"""The smallest number of CPUs that Ray counts."""
_TOO_SLOW = {
    False: f"was not started by Ray within {BEGIN_S:g} s; the cluster may lack resources, or be busy",
    True: f"was not built within {BUILD_S:g} s",
}
_LOOK_S = 1.0
_PING_S = 2.0
_NAME_FREE_S = 5.0
_KNOCK_S = 5.0
_folders: list[Path] = []
"""The folder of the Ray that this process started, if any."""


@dataclass(frozen=True, slots=True)
class Node:
    """A living machine of the cluster."""

    id: str
    address: str
    cores: float
    port: int = 0
    """The port of its raylet."""


class Seen(Enum):
    """The state of a hosted object as seen by this process."""

    ALIVE = "alive"
    """The object or its machine answers."""
    AWAY = "away"
    """The object's machine does not answer."""
    DEAD = "dead"


def connect(address: str | None = None, namespace: str = NAMESPACE, *, hear: own.Hear | None = None) -> None:
    """Connect to the Ray at ``address``, or start one on this machine that ends with this process. Idempotent.

    ``hear``: called with each line that apps print in it; None discards the lines.
    Raises: ClusterError if there is no Ray at that address.
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
    atexit.register(shutdown)  # in case the caller does not; idempotent
    with own.environment(heard=common["log_to_driver"]):
        ray.init(
            num_cpus=ceil(available_cores()),
            object_store_memory=OBJECT_STORE_BYTES,
            include_dashboard=False,
            _temp_dir=str(folder),
            **common,
        )


def hear_out() -> None:
    """Wait until the listener has got all lines printed so far."""
    own.hear_out()


def shutdown() -> None:
    """Disconnect from the cluster; if ``connect`` started it, end it and remove its folder."""
    ray.shutdown()
    own.forget()
    while _folders:
        own.remove_folder(_folders.pop())


def is_own() -> bool:
    """Return whether ``connect`` started the Ray, on this machine only."""
    return bool(_folders)


def own_address() -> str:
    """Return the address of this machine in the cluster."""
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
    """Return whether Ray is connected and its head accepts a connection; takes about a second at most, whereas a call
    of Ray's would wait for the head."""
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
        """Return the object's answer; both are pickled. On the object's own host the call bypasses Ray.

        Raises: a RecomposeError that the object raised; RemoteFault for its other errors; RemoteGone; RemoteTimeout.
        """
        what = type(request).__name__
        if not self._looked:
            self._look(timeout_s)
        if self._near is not None:
            with suppress(ConnectionRefusedError):  # the object is on another host or has ended: ask Ray
                return self._answer_near(self._near, what, request, timeout_s)
        return self._answer(what, self._actor.ask.remote(request, timeout_s), timeout_s)

    def warm(self, load: Callable[..., object], *args: Any) -> None:
        """Have the object's process call ``load``, such as slow imports, before ``build``."""
        self._warmed = self._actor.warm.remote(load, args)

    @property
    def is_warm(self) -> bool:
        return bool(ray.wait([self._warmed], timeout=0)[0])  # finished, with or without an error

    @property
    def is_built(self) -> bool:
        """True if the object has been made, or if that is unknown."""
        with suppress(ray.exceptions.RayError):
            return bool(ray.get(self._actor.is_built.remote(), timeout=_PING_S))
        return True

    def build(self, factory: Factory, args: tuple[Any, ...], given_up: Callable[[], bool]) -> None:
        """Make the object; on failure end its process. Raises: as ``ask``; RemoteTimeout if Ray does not start the
        process, the machine becomes unreachable, or the factory takes too long (counted from the process's start)."""
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
        """Return the object's state by its process, its answer, and Ray's view of it and its machine; takes seconds."""
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
        """Return the state of the object's machine by Ray and a test connection; ALIVE if the machine is unknown."""
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
        """End the object's process at once, together with its workers, except those that wait for a successor
        (``orphan_s``). Wait until its name is free again."""
        self._process.kill()  # a process that hangs in C code does not react to Ray
        ray.kill(self._actor, no_restart=True)
        if self._near is not None:
            self._near.clear_up()
        give_up_s = time.monotonic() + _NAME_FREE_S
        while find(self.name) is not None and time.monotonic() < give_up_s:
            time.sleep(0.02)  # Ray does not signal when a name becomes free


def spawn(
    name: str, factory: Factory, *args: Any, detached: bool = False, given_up: Callable[[], bool] = lambda: False
) -> RemoteObject:
    """Start a process under ``name``, and make its object by calling ``factory``, which that process imports by name.
    A ``detached`` process outlives this one if Ray does.

    Raises: ClusterError if ``given_up`` becomes true meanwhile; otherwise as ``begun`` and ``RemoteObject.build``.
    """
    (remote := begun(name, detached=detached)).build(factory, args, given_up)
    return remote


def begun(name: str, *, detached: bool = False) -> RemoteObject:
    """Start a process on a machine that answers and is not draining. Raises: ClusterError if the name is used."""
    options = {"name": name, "lifetime": "detached" if detached else None, "max_concurrency": THREADS, **_where()}
    try:
        actor = ray.remote(hosted.Host).options(**options).remote(name)
    except ValueError as error:
        raise ClusterError(f"{name!r} cannot be started: {error}") from error
    return RemoteObject(name, actor)


def _where() -> dict[str, Any]:
    """Return Ray's placement options: any machine, or, if one is silent or draining, another that has CPUs."""
    found = nodes()  # an actor without needs may be placed by any of them, even by one that is gone
    silent = guard.silent({node.id: (node.address, node.port) for node in found})
    lost = silent | {*ray_state.state.get_draining_nodes()}
    if not lost:
        return {"num_cpus": 0}
    own = ray.get_runtime_context().get_node_id()
    there = (node for node in found if node.id not in lost and node.cores)
    trusted = sorted(there, key=lambda node: node.id != own)
    if not trusted:
        raise RemoteTimeout("no machine with CPUs answers in the cluster")
    strategy = NodeAffinitySchedulingStrategy(trusted[0].id, soft=False)
    return {"num_cpus": LEAST_CPUS, "scheduling_strategy": strategy}


def find(name: str) -> RemoteObject | None:
    """Return the hosted object of that name if its process is alive, else None."""
    with suppress(ValueError):
        return RemoteObject(name, ray.get_actor(name))
    return None


def _value(answer: Any) -> Any:
    """Return the value of an answer. Raises: the error, if the answer is one."""
    if isinstance(answer, hosted.Raised):
        raise answer.error()
    return answer


def _knock(address: str) -> None:
    """Test the address by a connection, as Ray would try a wrong one for minutes. Raises: OSError."""
    host, _, port = address.rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.removeprefix("ray://"), int(port)), timeout=_KNOCK_S).close()


def _make_importable() -> None:
    """Let processes that Ray starts find our packages in any working directory, even if they are not installed."""
    root = str(Path(__file__).resolve().parents[__name__.count(".")])
    if root == sysconfig.get_path("purelib"):
        return  # installed: the interpreter of this environment finds them
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if root not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([*paths, root])


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
