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
    """Items that left together, in order."""

    at_s: float
    serial: int
    """Serial number of the first item; the others follow."""
    arrived_s: tuple[float, ...]
    """Arrival time of each item."""

    @property
    def count(self) -> int:
        return len(self.arrived_s)

    @property
    def serials(self) -> range:
        return range(self.serial, self.serial + len(self.arrived_s))


@dataclass(frozen=True, slots=True)
class Delivered(Left):
    """Items that went to the sink. ``error`` instead of a payload marks a single item that became a dead letter."""

    started_s: float
    """Time of the first dispatch to a worker."""
    composition: str
    payload: Payload = None
    error: str | None = None
    due_s: tuple[float, ...] | None = None
    """Time since which a user waited for each item; None: since its arrival."""
    start: int = 0
    """Position of the first item in the payload."""

    @property
    def since_s(self) -> tuple[float, ...]:
        """Time since which a user waited for each item."""
        return self.arrived_s if self.due_s is None else self.due_s


@dataclass(frozen=True, slots=True)
class Shed(Left):
    """Items dropped before they started, to make room (overload policy ``shed``); reported in their place."""


class TaskTimed(NamedTuple):
    """A finished task, with the time of each stage for all its items."""

    at_s: float
    composition: str
    timings: tuple[StageTiming, ...]
    hop_s: float | None
    """Time from sending to return, minus the stages' wall time; None if other tasks of the worker overlapped."""
    size_bytes: int = 0
    """Size of the input payload; 0: unknown."""
    serial: int = -1
    """Serial number of the first item."""
    items: int = 1
    node: str = ""
    """The machine of the worker."""


@dataclass(frozen=True, slots=True)
class OutOfMemory:
    """A stage ran out of memory (of a device or the machine) on ``items`` items; each half of them runs again."""

    at_s: float
    composition: str
    stage: str
    items: int


@dataclass(frozen=True, slots=True)
class SwitchEnded:
    """A finished switch or resize; with ``error``, one that failed and left the old composition running."""

    at_s: float
    from_name: str
    to_name: str
    style: SwitchStyle
    drain_actual_s: float | None = None
    """Time from hand-over to the old composition's last result; None for a drain cut short, disturbed, or empty."""
    overdue: bool = False
    migrated: int = 0
    """Items moved to the new composition because the drain passed its limit."""
    error: str | None = None
    kind: TransitionKind = TransitionKind.SWITCH
    called_off: bool = False
    """True if it was cancelled before any item moved; ``error`` has the reason."""


@dataclass(frozen=True, slots=True)
class SwitchOverdue:
    """A drain that exceeded its estimate; the estimate is doubled for this drain (exponential back-off)."""

    at_s: float
    composition: str
    estimate_s: float
    in_flight: int


@dataclass(frozen=True, slots=True)
class WorkersChanged:
    """Workers that joined, were lost, or are about to leave their nodes; for logs and decisions."""

    at_s: float
    joined: tuple[WorkerId, ...] = ()
    lost: tuple[WorkerId, ...] = ()
    reason: str = ""
    pid: int = 0
    """Process id of the lost worker."""
    node: str = ""
    """Address of its machine."""
    leaving: tuple[WorkerId, ...] = ()
    """The first of the workers that leave for one reason."""


@dataclass(frozen=True, slots=True)
class StartFailed:
    """A worker that could not start, the ``consecutive``-th in a row. The dispatcher tries again after a pause."""

    at_s: float
    reason: str
    consecutive: int
    passing: bool = False
    """True if another attempt may succeed, as in ``WorkerStartFailed``."""


Outcome = Delivered | Shed | TaskTimed | OutOfMemory | SwitchEnded | SwitchOverdue | WorkersChanged | StartFailed


class Turn:
    """The instructions and outcomes of one call of the dispatcher, in the order in which handlers added them."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.instructions: list[Instruction] = []
        self.outcomes: list[Outcome] = []

    def begin(self) -> None:
        self.instructions, self.outcomes = [], []
