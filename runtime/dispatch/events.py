"""What goes into the dispatcher (events) and what comes out of it (instructions, outcomes).

Payloads are opaque to the dispatcher: whatever the pool's ``encode`` made of an item, carried from worker to worker.
Times are seconds of the driver's clock (``time.monotonic`` or virtual).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from compositions.model import Composition
from profiler.drain_samples import Pending
from profiler.snapshot import StageTiming

Payload = Any
WorkerId = str
SizeOf = Callable[[Payload], int]
"""The size of a payload in bytes; 0 where it is not known."""


class SwitchStyle(StrEnum):
    """How a switch hands over: ``drain`` as in Vogel et al. section 3.3, ``seamless`` is ours."""

    DRAIN = "drain"
    SEAMLESS = "seamless"


# --- events ---------------------------------------------------------------------------------------------------------


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


# --- instructions: effects that a pool carries out -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Task:
    """Run adjacent ``stages`` on the item ``serial``. ``states`` holds what the worker needs of stateful stages."""

    task_id: int
    serial: int
    stages: tuple[str, ...]
    payload: Payload
    states: Mapping[str, Payload] = field(default_factory=dict)


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


# --- outcomes: what the world is told --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Delivered:
    """An item left in order. ``error`` instead of a payload marks a dead letter in its place."""

    at_s: float
    serial: int
    arrived_s: float
    started_s: float
    """First dispatch to a worker."""
    composition: str
    payload: Payload = None
    error: str | None = None
    due_s: float | None = None
    """Since when a user waited for it; None: since it arrived."""

    @property
    def latency_s(self) -> float:
        """What a user waited."""
        return self.at_s - (self.arrived_s if self.due_s is None else self.due_s)


@dataclass(frozen=True, slots=True)
class Shed:
    """An item was dropped before it started, to make room (overload policy ``shed``); reported in its place."""

    at_s: float
    serial: int
    arrived_s: float


@dataclass(frozen=True, slots=True)
class TaskTimed:
    """A task came back, with what each stage took."""

    at_s: float
    composition: str
    timings: tuple[StageTiming, ...]
    hop_s: float | None
    """Send to return, less the stages' wall time; None for a task that waited behind another in its worker."""
    size_bytes: int = 0
    """Of the payload that went in; 0: not known."""
    serial: int = -1
    """Of the item it carried."""


@dataclass(frozen=True, slots=True)
class SwitchEnded:
    """A switch finished, or failed with ``error`` and left the old composition running."""

    at_s: float
    from_name: str
    to_name: str
    style: SwitchStyle
    requested_s: float
    handed_over_s: float | None = None
    """When the old composition got its last item."""
    drain_actual_s: float | None = None
    """Hand-over to the old composition's last result; ``None`` for a drain cut short, disturbed, or empty."""
    overdue: bool = False
    migrated: int = 0
    """Items moved to the new composition because the drain passed its limit."""
    error: str | None = None


@dataclass(frozen=True, slots=True)
class SwitchOverdue:
    """The drain outlived its estimate; the estimate is doubled for this drain (exponential back-off)."""

    at_s: float
    composition: str
    estimate_s: float
    in_flight: int


@dataclass(frozen=True, slots=True)
class WorkersChanged:
    """Workers joined or were lost; for logs and for decisions with trigger ``failure``."""

    at_s: float
    joined: tuple[WorkerId, ...] = ()
    lost: tuple[WorkerId, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class StartFailed:
    """A worker could not start; ``consecutive`` such failures in a row. The dispatcher keeps trying, with a pause."""

    at_s: float
    reason: str
    consecutive: int


Outcome = Delivered | Shed | TaskTimed | SwitchEnded | SwitchOverdue | WorkersChanged | StartFailed


# --- a look inside, for status and the drain estimate ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WorkerView:
    worker: WorkerId
    pid: int
    node: str
    group: int | None
    """Index of the group it is bound to in the active composition; ``None`` for a warm spare."""
    outstanding: int
    restarts: int
    """Lost workers in whose place it stands, one after the other."""


@dataclass(frozen=True, slots=True)
class DispatcherView:
    composition: Composition
    switching: bool
    queued: int
    """Admitted items that no worker has started."""
    in_flight: int
    """Started items whose results are not back."""
    positions: Mapping[str, int]
    """In-flight items of the active composition by the next stage they need."""
    pending: Mapping[str, tuple[Pending, ...]]
    """The same items one by one."""
    accepted: int
    delivered: int
    failed: int
    shed: int
    restarts: int
    """Workers started in place of lost ones."""
    workers: tuple[WorkerView, ...]
    short_of_workers: bool = False
    """Fewer workers than groups: they are shared over the groups in time, and the stream goes on slowly."""
