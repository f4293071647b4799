"""What the dispatcher wants done: effects that a pool carries out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from runtime.dispatch.events import Payload, WorkerId


@dataclass(frozen=True, slots=True)
class Task:
    """Run adjacent ``stages`` on ``count`` items, the first of which is ``serial`` and stands at ``start`` in the
    payload. ``states`` holds what the worker needs of stateful stages."""

    task_id: int
    serial: int
    stages: tuple[str, ...]
    payload: Payload
    states: Mapping[str, Payload] = field(default_factory=dict)
    start: int = 0
    count: int = 1


@dataclass(frozen=True, slots=True)
class SendTask:
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
