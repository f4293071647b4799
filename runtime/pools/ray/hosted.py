"""The process of a hosted object: the actor around it, and how its answers and errors travel.

It is called through Ray, and by processes of its own host over a unix socket, which takes a fraction of the time.
"""

import os
import pickle
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol, Self

import ray

from compositions.errors import RecomposeError
from runtime.pools.limits import pid_space
from runtime.pools.ray.guard import LOST_RAY, Guard
from runtime.transport.local_calls import LocalAddress, LocalServer


class ClusterError(RecomposeError):
    """Ray, or the process that was called, could not do what was asked."""


class RemoteGone(ClusterError):  # noqa: N818 - says what happened
    """The process that hosted the object has ended."""


class RemoteTimeout(ClusterError):  # noqa: N818 - the same
    """A call was not answered in time; it may still be carried out."""


class RemoteFault(RuntimeError):  # noqa: N818 - the same
    """A hosted object raised what is no sentence for the user: a fault in the program, told with its traceback."""


class Hosted(Protocol):
    """An object that can be hosted: it answers requests."""

    def ask(self, request: Any, *, timeout_s: float) -> Any: ...


Factory = Callable[..., Hosted]
SECOND = " (2)"
UNUSED_S = 300.0
"""A process that waits to be built ends after this time: whoever began it may be gone."""


@dataclass(frozen=True, slots=True)
class Place:
    """The location of a hosted object."""

    near: LocalAddress | None
    """Address for processes of the same host; None: it is reached through Ray only."""
    pid: int
    pid_space: str
    node: str
    """Ray's id of the machine."""


def names_of(name: str) -> tuple[str, str]:
    """Return the names of an object and of the one that follows it, which have them in turn: for a moment both live."""
    return name, name + SECOND


def owner_of(name: str) -> str:
    """Return the name of an object whichever of the two it has; its workers go by it."""
    return name.removesuffix(SECOND)


class Host:
    """The actor around an object."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._object: Hosted | None = None
        self._unused = threading.Timer(UNUSED_S, os._exit, (0,))
        self._near: LocalServer | None = None

    def __repr__(self) -> str:
        """Who printed, where somebody listens."""
        return self._name

    def warm(self, load: Callable[..., object], args: tuple[Any, ...]) -> None:
        """Do ahead of ``build`` what takes its time, as imports do; end if no ``build`` follows within UNUSED_S."""
        self._unused.start()
        load(*args)

    def is_built(self) -> bool:
        return self._object is not None

    def build(self, factory: Factory, args: tuple[Any, ...]) -> "Raised | None":
        self._unused.cancel()
        try:
            self._object = factory(*args)
        except RecomposeError as error:
            return Raised.of(error)
        with suppress(OSError):  # no folder for it; Ray's calls are as good, only slower
            self._near = LocalServer(self._answer)
        Guard(self._leave, actor=True)
        return None

    def _leave(self, why: str) -> None:
        print(f"{self._name} (pid {os.getpid()}) ends: {why}", file=sys.stderr, flush=True)
        if self._near is not None:
            self._near.close()
        os._exit(LOST_RAY)

    def ask(self, request: Any, timeout_s: float) -> Any:
        if self._object is None:
            return Raised.of(RemoteGone(f"{self._name} has not been built"))
        try:
            return self._object.ask(request, timeout_s=timeout_s)
        except RecomposeError as error:
            return Raised.of(error)
        except TimeoutError as error:
            return Raised.of(RemoteTimeout(str(error)))

    def place(self) -> Place:
        """Return the object's location; processes of this host may call it without Ray."""
        near = self._near.address if self._near is not None else None
        return Place(near, os.getpid(), pid_space(), ray.get_runtime_context().get_node_id())

    def ping(self) -> None:
        """Answers as soon as the process is there."""

    def _answer(self, asked: bytes) -> bytes:
        try:
            request, timeout_s = pickle.loads(asked)
            return pickle.dumps(self.ask(request, timeout_s))
        except Exception as error:
            return pickle.dumps(Broken(repr(error), traceback.format_exc()))


@dataclass(frozen=True, slots=True)
class Raised:
    """An error as a value: pickle would call its class with the message alone, which not every class takes."""

    type: type[RecomposeError]
    args: tuple[Any, ...]
    state: Mapping[str, Any]

    @classmethod
    def of(cls, error: RecomposeError) -> Self:
        return cls(type(error), error.args, dict(vars(error)))

    def error(self) -> RecomposeError:
        error = self.type.__new__(self.type)
        error.args = self.args
        vars(error).update(self.state)
        return error


@dataclass(frozen=True, slots=True)
class Broken:
    """An error that is no sentence, as text: its class need not be known where it is told."""

    error: str
    trace: str
