"""In the process of a hosted object: the actor around it, and how an answer or an error of it travels.

It is asked by calls of Ray's, and by processes of its own host over a unix socket, which takes a fraction of the time.
"""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from compositions.errors import RecomposeError
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
    """What can be hosted: it answers whatever it is asked."""

    def ask(self, request: Any, *, timeout_s: float) -> Any: ...


Factory = Callable[..., Hosted]


class Host:
    """The actor around an object."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._object: Hosted
        self._near: LocalServer | None = None

    def __repr__(self) -> str:
        """Who printed, where somebody listens."""
        return self._name

    def build(self, factory: Factory, args: tuple[Any, ...]) -> Raised | None:
        try:
            self._object = factory(*args)
        except RecomposeError as error:
            return Raised.of(error)
        self._near = _serve_near(self._answer)
        return None

    def ask(self, request: Any, timeout_s: float) -> Any:
        try:
            return self._object.ask(request, timeout_s=timeout_s)
        except RecomposeError as error:
            return Raised.of(error)
        except TimeoutError as error:
            return Raised.of(RemoteTimeout(str(error)))

    def address(self) -> LocalAddress | None:
        """Where processes of this host may ask as well."""
        return self._near.address if self._near is not None else None

    def ping(self) -> None:
        """Answers as soon as the process is there."""

    def _answer(self, asked: bytes) -> bytes:
        try:
            request, timeout_s = pickle.loads(asked)
            return pickle.dumps(self.ask(request, timeout_s))
        except Exception as error:
            return pickle.dumps(Broken(repr(error), traceback.format_exc()))


def _serve_near(answer: Callable[[bytes], bytes]) -> LocalServer | None:
    try:
        return LocalServer(answer)
    except OSError:  # no folder for it; Ray's calls are as good, only slower
        return None


@dataclass(frozen=True, slots=True)
class Raised:
    """An error as a value: pickle would call its class with the message alone, which not every class takes."""

    type: type[RecomposeError]
    args: tuple[Any, ...]
    state: Mapping[str, Any]

    @classmethod
    def of(cls, error: RecomposeError) -> Raised:
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
