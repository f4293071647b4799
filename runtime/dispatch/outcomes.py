"""What the dispatcher tells the world: items that are out, tasks that were timed, switches and workers."""

from __future__ import annotations

from dataclasses import dataclass

from profiler.snapshot import StageTiming
from runtime.dispatch.events import Payload, SwitchStyle, WorkerId


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
