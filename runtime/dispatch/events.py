"""What goes into the dispatcher.

Payloads are opaque to the dispatcher: whatever the pool's ``encode`` made of an item, carried from worker to worker.
Times are seconds of the driver's clock (``time.monotonic`` or virtual).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from compositions.model import Composition
from profiler.snapshot import StageTiming

Payload = Any
WorkerId = str
SizeOf = Callable[[Payload], int]
"""The size of a payload in bytes; 0 where it is not known."""


class SwitchStyle(StrEnum):
    """How a switch hands over: ``drain`` as in Vogel et al. section 3.3, ``seamless`` is ours."""

    DRAIN = "drain"
    SEAMLESS = "seamless"


@dataclass(frozen=True, slots=True)
class Started:
    """The app starts: the first event, and the only one of its kind."""

    at_s: float


@dataclass(frozen=True, slots=True)
class ItemAdmitted:
    """The source offers an item; the dispatcher gives it the next serial number."""

    at_s: float
    arrived_s: float
    """When it was read, or came."""
    payload: Payload
    due_s: float | None = None
    """Since when a user waits for it; None: since it arrived."""


@dataclass(frozen=True, slots=True)
class TaskDone:
    """A worker returns a task: the value after its last stage, the new states, one timing a stage."""

    at_s: float
    worker: WorkerId
    task_id: int
    payload: Payload
    timings: tuple[StageTiming, ...] = ()
    states: Mapping[str, Payload] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TaskFailed:
    """A stage raised; ``error`` is the traceback, the item itself is unharmed."""

    at_s: float
    worker: WorkerId
    task_id: int
    stage: str
    error: str


@dataclass(frozen=True, slots=True)
class WorkerJoined:
    at_s: float
    worker: WorkerId
    pid: int = 0
    node: str = ""


@dataclass(frozen=True, slots=True)
class WorkerLost:
    """A worker died or became unreachable; its tasks run again elsewhere."""

    at_s: float
    worker: WorkerId
    reason: str = ""


@dataclass(frozen=True, slots=True)
class WorkerStartFailed:
    """A requested worker could not be started (``setup`` raised, no resources)."""

    at_s: float
    reason: str


@dataclass(frozen=True, slots=True)
class SwitchRequested:
    at_s: float
    composition: Composition
    style: SwitchStyle = SwitchStyle.SEAMLESS
    drain_estimate_s: float = 0.0
    """srtt + 4 rttvar of the old composition: beyond it the drain is overdue."""
    drain_mean_s: float = 0.0
    """srtt of the old composition: when its last result is expected."""
    first_result_s: float = 0.0
    """How long the new composition takes from its first item in to its first result out."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passed: look at time limits and at the switch under way."""

    at_s: float


Event = (
    Started
    | ItemAdmitted
    | TaskDone
    | TaskFailed
    | WorkerJoined
    | WorkerLost
    | WorkerStartFailed
    | SwitchRequested
    | Tick
)
