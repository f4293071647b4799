"""The dispatcher's instructions, which a pool carries out.

Instructions that every task needs are named tuples: a frozen dataclass takes three times as long to make.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import compress
from typing import Any, NamedTuple

from compositions.model import Loads
from runtime.dispatch.events import NO_STATES, WorkerId
from runtime.dispatch.keys import KeyStates, Payload, Routes

_NONE: Mapping[str, Any] = {}  # no mapping proxy: the default is pickled


class KeyedTask(NamedTuple):
    """The data that a task of partitioned stages needs beside its payload.

    ``picked``: a byte for each value of its items, 1 for values to run; None: all items. ``kept``: by stage, the states
    of partitions that the worker lacks; they replace its own. ``routes``: the expected partitions of the items' values,
    which the worker checks against their keys; None: not given. ``behind``: the worker's task before this one, whose
    states this one continues: if that one fails, this one fails without running. None: no task before it.
    """

    picked: bytes | None = None
    kept: Mapping[str, Mapping[int, KeyStates]] = _NONE
    routes: Routes | None = None
    behind: int | None = None

    @property
    def partitions(self) -> bytes | None:
        """The partitions of the values to run, a byte each; None: not given."""
        if self.routes is None or self.picked is None:
            return self.routes and self.routes.partitions
        return bytes(compress(self.routes.partitions, self.picked))


class Task(NamedTuple):
    """Run adjacent ``stages`` on a number of ``items``. The first item has number ``serial`` and position ``start`` in
    the payload. ``states``: the states of the stateful stages."""

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
    """The class of the workers."""


@dataclass(frozen=True, slots=True)
class StopWorker:
    """Stop an idle worker that is no longer needed; the worker ends by itself."""

    worker: WorkerId


@dataclass(frozen=True, slots=True)
class KillWorker:
    """Kill a worker that hangs; the dispatcher already counts it as lost."""

    worker: WorkerId
    reason: str


@dataclass(frozen=True, slots=True)
class AskWorker:
    """Ask a worker if it is alive. It answers before it begins a task that is sent later."""

    worker: WorkerId
    losses: int
    """Number of workers that the run has lost so far; the answer repeats the number."""


Instruction = SendTask | StartWorkers | StopWorker | KillWorker | AskWorker
