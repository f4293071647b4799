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
    """The service restarted a runner. Lost workers and failed switches are no trigger: the former are replaced, and the
    latter belong to their decision."""
    MANUAL = "manual"
    PLACEMENT = "placement"
    """The pool moved workers, because their node is drained or other nodes suit them better."""
    BUDGET = "budget"
    """The app's share of the budget changed."""


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
    """A user is stopping the app."""
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
    """Predicted share of the items within the objective's time."""
    in_time_at_least: float | None = None
    """Share that is exceeded in nine of ten decisions; only for the chosen candidate, once outcomes are known."""
    measured_in_time: float | None = None
    transition: TransitionKind | None = None
    """Kind of the change to it; None for the active composition, or if not computed."""
    transition_s: float | None = None
    """Expected duration of that change."""


@dataclass(frozen=True, slots=True)
class Handover:
    """The measurements of a decision's switches; ``None`` without a switch or a measurement."""

    gap_s: float | None = None
    """Longest time from an old composition's last delivery to the new one's first."""
    drain_estimate_s: float | None = None
    drain_actual_s: float | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """A finished decision. The runner fills in ``handover`` from the switches that the decision caused."""

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
    """True if no known composition can meet the SLO; ``to_name`` is then the best one found."""
    acted: bool = True
    """False in observe mode: the decision was not carried out."""
    handover: Handover = Handover()
    transition: TransitionKind | None = None
    """Kind of the change from ``from_name`` to ``to_name``; None if they are the same."""
    outcome: str | None = None
    """Text that compares the prediction with the measurements; None until the window is full."""

    @property
    def chosen(self) -> Candidate | None:
        """The chosen candidate; None if the strategy compared none."""
        return next((each for each in self.candidates if each.name == self.to_name), None)

    def with_chosen(self, chosen: Candidate) -> Self:
        """Return the decision with the chosen candidate replaced."""
        candidates = tuple(chosen if each.name == self.to_name else each for each in self.candidates)
        return replace(self, candidates=candidates)


@dataclass(frozen=True, slots=True)
class NoChange:
    """The result of a tick without a decision, with the reason."""

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
    """Part of the objective that is met with this share, 0 … 1 (all of it)."""
    more: Budget | None = None
    """Smallest addition that would help noticeably; None: more would not help."""
    reached_with_more: float | None = None
    composition_with_more: str | None = None
    """Composition that the app would run with this addition."""


@dataclass(frozen=True, slots=True)
class SwitchTo:
    """Command to the runner: make this composition the active one."""

    composition: Composition


@dataclass(frozen=True, slots=True)
class CallOff:
    """Command to the runner: cancel the switch in progress, unless items already move to the new composition."""

    reason: str


@dataclass(frozen=True, slots=True)
class ResetWindow:
    """Command to the runner: start the measuring window anew."""


Command = SwitchTo | CallOff | ResetWindow
