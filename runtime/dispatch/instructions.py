"""The dispatcher's instructions: effects that a pool carries out.

Those that every task needs are named tuples: a frozen dataclass takes three times as long to make.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import compress
from typing import Any, NamedTuple

from compositions.model import Loads
from runtime.dispatch.events import NO_STATES, WorkerId
from runtime.dispatch.keys import KeyStates, Payload, Routes

_NONE: Mapping[str, Any] = {}  # it is pickled, which a proxy cannot be


class KeyedTask(NamedTuple):
    """The data that a task of partitioned stages needs beside its payload.

    ``picked``: a byte for each value of its items, 1 for those to run; None: all items are. ``kept`` holds what brings
    back the partitions that the worker has not, by stage: it replaces what the worker may have of them. ``routes``:
    where the values of its items were said to belong, which a worker holds against their keys; None: nobody said.
    ``behind``: the task that the worker had when this one was sent, and whose states it is to go on with: if that one
    fails, this one does, and nothing is run. None: there was none.
    """

    picked: bytes | None = None
    kept: Mapping[str, Mapping[int, KeyStates]] = _NONE
    routes: Routes | None = None
    behind: int | None = None

    @property
    def partitions(self) -> bytes | None:
        """Those of the values to run, a byte each; None: any."""
        if self.routes is None or self.picked is None:
            return self.routes and self.routes.partitions
        return bytes(compress(self.routes.partitions, self.picked))


class Task(NamedTuple):
    """Run adjacent ``stages`` on as many ``items``, the first of which is ``serial`` and stands at ``start`` in the
    payload. ``states`` holds what the worker needs of stateful stages."""

    task_id: int
    serial: int
    stages: tuple[str, ...]
    payload: Payload
    states: Mapping[str, Payload] = NO_STATES
    start: int = 0
    items: int = 1
    keyed: KeyedTask | None = None


class SendTask(NamedTuple):
    worker: WorkerId
    task: Task


@dataclass(frozen=True, slots=True)
class StartWorkers:
    count: int
    loads: Loads = ()
    """Their class."""


@dataclass(frozen=True, slots=True)
class StopWorker:
    """An idle worker that is no longer needed; it ends by itself."""

    worker: WorkerId


@dataclass(frozen=True, slots=True)
class KillWorker:
    """A worker that hangs; the dispatcher already counts it as lost."""

    worker: WorkerId
    reason: str


@dataclass(frozen=True, slots=True)
class AskWorker:
    """Ask a worker if it is alive. It answers before it begins a task that is sent later."""

    worker: WorkerId
    losses: int
    """So many of the run's workers have been lost; it says so again."""


Instruction = SendTask | StartWorkers | StopWorker | KillWorker | AskWorker
