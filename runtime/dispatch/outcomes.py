"""The dispatcher's outcomes: items that left, tasks that were timed, switches and workers."""

from dataclasses import dataclass
from typing import NamedTuple

from compositions.model import TransitionKind
from profiler.snapshot import StageTiming
from runtime.dispatch.events import SwitchStyle, WorkerId
from runtime.dispatch.instructions import Instruction
from runtime.dispatch.keys import Payload


@dataclass(frozen=True, slots=True)
class Left:
    """Items left together, in order."""

    at_s: float
    serial: int
    """Of the first; the others follow."""
    arrived_s: tuple[float, ...]
    """One a item."""

    @property
    def count(self) -> int:
        return len(self.arrived_s)

    @property
    def serials(self) -> range:
        return range(self.serial, self.serial + len(self.arrived_s))


@dataclass(frozen=True, slots=True)
class Delivered(Left):
    """Items went to the sink. ``error`` instead of a payload: a dead letter in its place, alone."""

    started_s: float
    """First dispatch to a worker."""
    composition: str
    payload: Payload = None
    error: str | None = None
    due_s: tuple[float, ...] | None = None
    """Since when a user waited for each; None: since it arrived."""
    start: int = 0
    """Where they begin in the payload."""

    @property
    def since_s(self) -> tuple[float, ...]:
        """Since when a user waited for each."""
        return self.arrived_s if self.due_s is None else self.due_s


@dataclass(frozen=True, slots=True)
class Shed(Left):
    """Items were dropped before they started, to make room (overload policy ``shed``); reported in their place."""


class TaskTimed(NamedTuple):
    """A task came back, with what each stage took for all its items."""

    at_s: float
    composition: str
    timings: tuple[StageTiming, ...]
    hop_s: float | None
    """Send to return, less the stages' wall time; None for a task that waited behind another in its worker."""
    size_bytes: int = 0
    """Of what went in; 0: not known."""
    serial: int = -1
    """Of the first item it carried."""
    items: int = 1
    node: str = ""
    """The machine of the worker."""


@dataclass(frozen=True, slots=True)
class OutOfMemory:
    """A stage had no memory for so many items together, on its device or its machine; each half of them runs again."""

    at_s: float
    composition: str
    stage: str
    items: int


@dataclass(frozen=True, slots=True)
class SwitchEnded:
    """A switch or a resize finished, or failed with ``error`` and left the old composition running."""

    at_s: float
    from_name: str
    to_name: str
    style: SwitchStyle
    drain_actual_s: float | None = None
    """Hand-over to the old composition's last result; ``None`` for a drain cut short, disturbed, or empty."""
    overdue: bool = False
    migrated: int = 0
    """Items moved to the new composition because the drain passed its limit."""
    error: str | None = None
    kind: TransitionKind = TransitionKind.SWITCH
    called_off: bool = False
    """Before anything moved, for a newer wish: ``error`` says which."""


@dataclass(frozen=True, slots=True)
class SwitchOverdue:
    """The drain outlived its estimate; the estimate is doubled for this drain (exponential back-off)."""

    at_s: float
    composition: str
    estimate_s: float
    in_flight: int


@dataclass(frozen=True, slots=True)
class WorkersChanged:
    """Workers joined, were lost, or are to leave their nodes; for logs and decisions."""

    at_s: float
    joined: tuple[WorkerId, ...] = ()
    lost: tuple[WorkerId, ...] = ()
    reason: str = ""
    pid: int = 0
    """Process id of the lost worker."""
    node: str = ""
    """Address of its machine."""
    leaving: tuple[WorkerId, ...] = ()
    """The first of those that leave for one reason."""


@dataclass(frozen=True, slots=True)
class StartFailed:
    """A worker could not start; ``consecutive`` such failures in a row. The dispatcher keeps trying, with a pause."""

    at_s: float
    reason: str
    consecutive: int
    passing: bool = False
    """True if another attempt may succeed, as in ``WorkerStartFailed``."""


Outcome = Delivered | Shed | TaskTimed | OutOfMemory | SwitchEnded | SwitchOverdue | WorkersChanged | StartFailed


class Turn:
    """``instructions`` and ``outcomes`` are in the order in which they were said; a new turn begins with none."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.instructions: list[Instruction] = []
        self.outcomes: list[Outcome] = []

    def begin(self) -> None:
        self.instructions, self.outcomes = [], []
