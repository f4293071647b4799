"""What the dispatcher wants done: effects that a pool carries out.

What there is of for every task is a named tuple: a frozen dataclass takes three times as long to make.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from runtime.dispatch.events import NO_STATES, Payload, WorkerId


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


class SendTask(NamedTuple):
    worker: WorkerId
    task: Task


@dataclass(frozen=True, slots=True)
class StartWorkers:
    count: int


@dataclass(frozen=True, slots=True)
class StopWorker:
    """An idle worker that is no longer needed; it ends by itself."""

    worker: WorkerId


@dataclass(frozen=True, slots=True)
class KillWorker:
    """A worker that hangs; the dispatcher already counts it as lost."""

    worker: WorkerId
    reason: str


Instruction = SendTask | StartWorkers | StopWorker | KillWorker
