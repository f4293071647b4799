"""The manager's output: decisions with their candidates, refusals with their reason, commands to the runner."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Self

from compositions.model import Composition, TransitionKind
from profiler.budget import Budget


class Trigger(StrEnum):
    START = "start"
    SLO = "slo"
    VIOLATION = "violation"
    INPUT_RATE = "input_rate"
    PROFILE = "profile"
    COMPOSITIONS = "compositions"
    FAILURE = "failure"
    """A runner was started again: the service's doing, not the manager's. A lost worker is replaced, a failed switch
    stays within its decision."""
    MANUAL = "manual"
    PLACEMENT = "placement"
    """Workers leave a node that is to go, or move to where they are better: the pool's doing, not the manager's."""
    BUDGET = "budget"
    """The app's share of the budget has changed."""


class CandidateStatus(StrEnum):
    REJECTED = "rejected"
    SHORTLISTED = "shortlisted"
    TRIED = "tried"
    CHOSEN = "chosen"


class State(StrEnum):
    """States of an app, as in the API."""

    STOPPED = "stopped"
    STARTING = "starting"
    PROFILING = "profiling"
    TRIAL = "trial"
    SWITCHING = "switching"
    STABLE = "stable"
    STOPPING = "stopping"
    """A user stops the app."""
    CLOSING = "closing"
    FAILED = "failed"


class Mode(StrEnum):
    AUTO = "auto"
    OBSERVE = "observe"
    PINNED = "pinned"


@dataclass(frozen=True, slots=True)
class Candidate:
    """One composition in a decision. Rates in items/s, latencies in seconds; ``None`` where unknown or unbounded."""

    name: str
    workers: int
    status: CandidateStatus
    reason: str
    predicted_throughput_per_s: float | None = None
    predicted_latency_s: float | None = None
    measured_throughput_per_s: float | None = None
    measured_latency_s: float | None = None
    predicted_in_time: float | None = None
    """Share of the items within the objective's time."""
    in_time_at_least: float | None = None
    """Limit that this share should exceed nine times of ten; of the chosen one, once outcomes are known."""
    measured_in_time: float | None = None
    transition: TransitionKind | None = None
    """How the app would change to it; None for the active one, and if this was not asked."""
    transition_s: float | None = None
    """Expected duration of that change."""


@dataclass(frozen=True, slots=True)
class Handover:
    """The figures of a decision's switches; ``None`` if there was none, or nothing was measured."""

    gap_s: float | None = None
    """The longest, from the old composition's last delivery to the new one's first."""
    drain_estimate_s: float | None = None
    drain_actual_s: float | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """A finished decision. The hand-over is filled in by the runner from the switches it caused."""

    id: int
    at_s: float
    trigger: Trigger
    from_name: str
    to_name: str
    reason: str
    candidates: tuple[Candidate, ...] = ()
    trials: int = 0
    duration_s: float = 0.0
    infeasible: bool = False
    """No known composition can meet the SLO here; ``to_name`` is the best found."""
    acted: bool = True
    """False in observe mode: the decision says what would have been done."""
    handover: Handover = Handover()
    transition: TransitionKind | None = None
    """How the app changes from ``from_name`` to ``to_name``; None if they are the same."""
    outcome: str | None = None
    """What came of it: the prediction against what was measured once the window was full."""

    @property
    def chosen(self) -> Candidate | None:
        """Return the candidate that was chosen, if the strategy compared any."""
        return next((each for each in self.candidates if each.name == self.to_name), None)

    def with_chosen(self, chosen: Candidate) -> Self:
        """Return the decision with another account of the chosen candidate."""
        candidates = tuple(chosen if each.name == self.to_name else each for each in self.candidates)
        return replace(self, candidates=candidates)


@dataclass(frozen=True, slots=True)
class NoChange:
    """Nothing to do, and why: a result, never None."""

    at_s: float
    reason: str


@dataclass(frozen=True, slots=True)
class Grant:
    """The share of a machine that the arbiter leaves to one app, with the reason."""

    budget: Budget
    total: Budget
    """Budget of all apps together."""
    reason: str
    reached: float = 1.0
    """How well the objective would be met with it, 0 … 1 (all of it)."""
    more: Budget | None = None
    """Smallest addition that would help noticeably; None: more would not help."""
    reached_with_more: float | None = None
    composition_with_more: str | None = None
    """Composition that it would run then."""


@dataclass(frozen=True, slots=True)
class SwitchTo:
    """Command to the runner: make this composition the active one."""

    composition: Composition


@dataclass(frozen=True, slots=True)
class CallOff:
    """Command to the runner: nobody wants the switch under way any more; one whose items move goes on."""

    reason: str


@dataclass(frozen=True, slots=True)
class ResetWindow:
    """Command to the runner: start the measuring window anew."""


Command = SwitchTo | CallOff | ResetWindow
