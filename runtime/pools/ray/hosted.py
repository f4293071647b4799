"""The process of a hosted object: the actor around the object, and the encoding of its answers and errors.

The object is called through Ray; processes of its own host call it over a unix socket, which is much faster.
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
    """A hosted object raised an unexpected error, a fault in the program; the message has the traceback."""


class Hosted(Protocol):
    """An object that can be hosted: it answers requests."""

    def ask(self, request: Any, *, timeout_s: float) -> Any: ...


Factory = Callable[..., Hosted]
SECOND = " (2)"
UNUSED_S = 300.0
"""Time after which a process without an object ends, as the process that started it may be gone."""


@dataclass(frozen=True, slots=True)
class Place:
    """The location of a hosted object."""

    near: LocalAddress | None
    """Address for processes of the same host; None: only Ray's calls reach the object."""
    pid: int
    pid_space: str
    node: str
    """Ray's id of the machine."""


def names_of(name: str) -> tuple[str, str]:
    """Return the two names that an object and its successors use in turn, as both live for a moment."""
    return name, name + SECOND


def owner_of(name: str) -> str:
    """Return the first of an object's two names, given either; its workers are named after it."""
    return name.removesuffix(SECOND)


class Host:
    """The actor around an object."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._object: Hosted | None = None
        self._unused = threading.Timer(UNUSED_S, os._exit, (0,))
        self._near: LocalServer | None = None

    def __repr__(self) -> str:
        """Return the object's name, which Ray shows beside lines that the process prints."""
        return self._name

    def warm(self, load: Callable[..., object], args: tuple[Any, ...]) -> None:
        """Call ``load``, such as slow imports, ahead of ``build``; end if no ``build`` follows within UNUSED_S."""
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
        with suppress(OSError):  # without a folder for the socket, Ray's calls still work
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
        """Return the object's location, with the address for calls from this host."""
        near = self._near.address if self._near is not None else None
        return Place(near, os.getpid(), pid_space(), ray.get_runtime_context().get_node_id())

    def ping(self) -> None:
        """Return as soon as the process has started."""

    def _answer(self, asked: bytes) -> bytes:
        try:
            request, timeout_s = pickle.loads(asked)
            return pickle.dumps(self.ask(request, timeout_s))
        except Exception as error:
            return pickle.dumps(Broken(repr(error), traceback.format_exc()))


@dataclass(frozen=True, slots=True)
class Raised:
    """An error as a value. Pickle would call the error's class with only the message, which some do not accept."""

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
    """An unexpected error as text, as the receiver may not know its class."""

    error: str
    trace: str
