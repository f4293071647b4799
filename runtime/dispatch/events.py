"""The dispatcher's events: the inputs that it reacts to.

Payloads are opaque to the dispatcher: whatever the pool's ``encode`` made of an item, carried from worker to worker.
Times are seconds of the driver's clock (``time.monotonic`` or virtual).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple

from compositions.model import Composition, Loads, TransitionKind
from profiler.snapshot import StageTiming
from runtime.dispatch.keys import KeyStates, Payload, Routes

WorkerId = str
NO_STATES: Mapping[str, Payload] = MappingProxyType({})
SizeOf = Callable[[Payload], int]
"""The size of a payload in bytes; 0 where it is not known."""


class SwitchStyle(StrEnum):
    """The way another composition takes over: ``drain`` as in Vogel et al. section 3.3, whatever has changed;
    ``seamless`` is ours, and a change of replicas alone is made in place."""

    DRAIN = "drain"
    SEAMLESS = "seamless"

    def transition(self, origin: Composition, target: Composition) -> TransitionKind:
        """Return what it takes to go from ``origin`` to ``target``."""
        return TransitionKind.SWITCH if self is SwitchStyle.DRAIN else origin.transition_to(target)


@dataclass(frozen=True, slots=True)
class Started:
    """The app starts: the first event, and the only one of its kind."""

    at_s: float


_NONE: Mapping[str, Any] = {}  # it is pickled, which a proxy cannot be


class KeyedDone(NamedTuple):
    """The facts of a result beside its values: ``routes`` of them, if the next stage is partitioned; ``changes`` by
    stage and partition: the states of the keys that the task touched."""

    routes: Routes | None = None
    changes: Mapping[str, Mapping[int, KeyStates]] = _NONE


NOTHING_KEYED = KeyedDone()


class BundleAdmitted(NamedTuple):
    """The source offers items that travel together; the dispatcher gives them the next serial numbers."""

    at_s: float
    arrived_s: tuple[float, ...]
    """When each was read, or came; there are as many items as times, one at least."""
    payload: Payload
    due_s: tuple[float, ...] | None = None
    """Since when a user waits for each; None: since it arrived."""
    routes: Routes | None = None
    """Where the first stage is partitioned."""
    error: str | None = None
    """Reason why the app refuses these items: they become dead letters in their place, and no worker gets them."""


@dataclass(frozen=True, slots=True)
class ItemFault:
    """A stage raised on one item of a task; ``error`` is the traceback. The other items have nothing to do with it."""

    position: int
    """Of the item among those of the task."""
    stage: str
    error: str


class TaskDone(NamedTuple):
    """A worker returns a task: the values after its last stage, the new states, one timing a stage for all items.

    The items of ``faults``, by position, were not done; their places in the payload mean nothing. There is one for
    every task, so it is a named tuple (:mod:`runtime.dispatch.instructions`).
    """

    at_s: float
    worker: WorkerId
    task_id: int
    payload: Payload
    timings: tuple[StageTiming, ...] = ()
    states: Mapping[str, Payload] = NO_STATES
    faults: tuple[ItemFault, ...] = ()
    keyed: KeyedDone = NOTHING_KEYED
    values: int | None = None
    """Number of values that its items have now; None: one each."""


@dataclass(frozen=True, slots=True)
class TaskFailed:
    """A stage raised, and nothing of the task was done; ``error`` is the traceback, the items are unharmed."""

    at_s: float
    worker: WorkerId
    task_id: int
    stage: str
    error: str
    position: int | None = 0
    """Of the item at fault among those of the task; None: any of them may be."""


@dataclass(frozen=True, slots=True)
class WorkerJoined:
    at_s: float
    worker: WorkerId
    pid: int = 0
    node: str = ""
    loads: Loads = ()


@dataclass(frozen=True, slots=True)
class WorkerAnswered:
    """A worker lives; when it was asked, so many of the run's workers had been lost."""

    at_s: float
    worker: WorkerId
    losses: int


@dataclass(frozen=True, slots=True)
class WorkerLost:
    """A worker died or became unreachable; its tasks run again elsewhere."""

    at_s: float
    worker: WorkerId
    reason: str = ""


@dataclass(frozen=True, slots=True)
class WorkerLeaving:
    """Another takes the worker's place on another node, and then it ends with no task."""

    at_s: float
    worker: WorkerId
    reason: str = ""
    """Given with the first of those that leave together."""


@dataclass(frozen=True, slots=True)
class WorkerStartFailed:
    """A requested worker could not be started (``setup`` raised, no resources)."""

    at_s: float
    reason: str
    passing: bool = False
    """True if another attempt may succeed: the worker was not ready in time, or no node has room for it now."""
    loads: Loads = ()


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
    wait_s: float = 0.0
    """With style ``drain``: the new composition starts so long after the hand-over, whether or not the old one is empty
    (Vogel et al., section 3.3); 0: when the old one is empty."""


@dataclass(frozen=True, slots=True)
class SwitchCalledOff:
    """Nobody wants the switch that waits for its workers any more; one that drains goes on, for items have moved."""

    at_s: float
    reason: str


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passed: look at time limits and at the switch under way."""

    at_s: float


Event = (
    Started
    | BundleAdmitted
    | TaskDone
    | TaskFailed
    | WorkerJoined
    | WorkerAnswered
    | WorkerLost
    | WorkerLeaving
    | WorkerStartFailed
    | SwitchRequested
    | SwitchCalledOff
    | Tick
)
