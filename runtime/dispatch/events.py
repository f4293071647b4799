"""The dispatcher's events: the inputs that it reacts to.

Payloads are opaque to the dispatcher: the pool's ``encode`` makes them, and workers pass them on. Times are seconds of
the driver's clock (``time.monotonic`` or virtual).
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
"""Returns the size of a payload in bytes; 0 if unknown."""


class SwitchStyle(StrEnum):
    """How another composition takes over. ``drain``: as in Vogel et al., section 3.3. ``seamless``: ours, which makes a
    change of replicas alone in place."""

    DRAIN = "drain"
    SEAMLESS = "seamless"

    def transition(self, origin: Composition, target: Composition) -> TransitionKind:
        """Return the kind of transition from ``origin`` to ``target``."""
        return TransitionKind.SWITCH if self is SwitchStyle.DRAIN else origin.transition_to(target)


@dataclass(frozen=True, slots=True)
class Started:
    """The app starts: the first event, and the only one of its kind."""

    at_s: float


_NONE: Mapping[str, Any] = {}  # no mapping proxy: the default is pickled


class KeyedDone(NamedTuple):
    """The keyed data of a result. ``routes``: the partitions of its values, if the next stage is partitioned.
    ``changes``: the new states of the keys that the task touched, by stage and partition."""

    routes: Routes | None = None
    changes: Mapping[str, Mapping[int, KeyStates]] = _NONE


NOTHING_KEYED = KeyedDone()


class BundleAdmitted(NamedTuple):
    """A bundle of items from the source; the dispatcher gives them the next serial numbers."""

    at_s: float
    arrived_s: tuple[float, ...]
    """Arrival time of each item; at least one item."""
    payload: Payload
    due_s: tuple[float, ...] | None = None
    """Time since which a user waits for each item; None: since its arrival."""
    routes: Routes | None = None
    """The partition of each value, if the first stage is partitioned."""
    error: str | None = None
    """Reason why the app refuses these items: they become dead letters in their place, and no worker gets them."""


@dataclass(frozen=True, slots=True)
class ItemFault:
    """An error of a stage on one item of a task, as a traceback. The other items of the task are not affected."""

    position: int
    """Position of the item in the task."""
    stage: str
    error: str


class TaskDone(NamedTuple):
    """The result of a task: the values after its last stage, the new states, one timing per stage for all items.

    The items of ``faults``, by position, failed; their places in the payload mean nothing. Every task makes one of
    these events, so it is a named tuple (:mod:`runtime.dispatch.instructions`).
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
    """Number of result values of all items; None: one each."""


@dataclass(frozen=True, slots=True)
class TaskFailed:
    """A task that failed as a whole because a stage raised; ``error`` is the traceback. Its items can run again."""

    at_s: float
    worker: WorkerId
    task_id: int
    stage: str
    error: str
    position: int | None = 0
    """Position of the item at fault in the task; None if unknown."""


@dataclass(frozen=True, slots=True)
class WorkerJoined:
    at_s: float
    worker: WorkerId
    pid: int = 0
    node: str = ""
    loads: Loads = ()


@dataclass(frozen=True, slots=True)
class WorkerAnswered:
    """A worker's answer that it is alive. ``losses``: number of the run's lost workers when it was asked."""

    at_s: float
    worker: WorkerId
    losses: int


@dataclass(frozen=True, slots=True)
class WorkerLost:
    """A worker that died or became unreachable; its tasks run again elsewhere."""

    at_s: float
    worker: WorkerId
    reason: str = ""


@dataclass(frozen=True, slots=True)
class WorkerLeaving:
    """A worker that must leave its node: another one replaces it on another node, and it ends after its last task."""

    at_s: float
    worker: WorkerId
    reason: str = ""
    """Given only for the first of several workers that leave together."""


@dataclass(frozen=True, slots=True)
class WorkerStartFailed:
    """A requested worker that could not be started (``setup`` raised, or no resources)."""

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
    """Time after which the drain is overdue: srtt + 4 rttvar of the old composition."""
    drain_mean_s: float = 0.0
    """Expected time to the old composition's last result: its srtt."""
    first_result_s: float = 0.0
    """Time that the new composition takes from its first item in to its first result out."""
    wait_s: float = 0.0
    """With style ``drain``: the time from the hand-over to the new composition's start, even if the old one still has
    items (Vogel et al., section 3.3). 0: it starts when the old one is empty."""


@dataclass(frozen=True, slots=True)
class SwitchCalledOff:
    """Cancels a switch that waits for its workers; a switch that already drains goes on, as items have moved."""

    at_s: float
    reason: str


@dataclass(frozen=True, slots=True)
class Tick:
    """A timer event: check time limits and the switch under way."""

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
