"""The interface of a strategy, its proposals, and rules that several strategies share."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import ClassVar

from compositions.model import Composition, Stage
from control.arbitration.arbiter import Reach
from control.assess import Assessment
from control.decisions import Candidate, CandidateStatus
from control.objectives.objective import Objective
from control.settings import Settings
from control.situation import Situation
from profiler.budget import Budget
from profiler.snapshot import LatencyFrom, Snapshot
from runtime.dispatch.events import SwitchStyle

Limits = Sequence[Budget]


@dataclass(frozen=True, slots=True)
class Trial:
    """The trial of one composition within a decision."""

    composition: Composition
    assessment: Assessment | None
    """Result of the measurement; ``None`` if the switch to the composition failed."""
    duration_s: float
    ended: str
    """Why it ended: time up, or the reason of the failure."""


@dataclass(frozen=True, slots=True)
class Try:
    """Proposal: run ``composition`` for at most ``limit_s`` seconds as a trial, then ask again."""

    composition: Composition
    limit_s: float
    candidates: tuple[Candidate, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Settle:
    """Proposal: make ``composition`` the active one and end the decision."""

    composition: Composition
    candidates: tuple[Candidate, ...]
    reason: str
    infeasible: bool = False
    """True if no known composition can meet the SLO; ``composition`` is then the best one found."""


@dataclass(frozen=True, slots=True)
class Stay:
    """Proposal: no change, with the reason."""

    reason: str
    infeasible: bool = False
    """True if no composition that may be chosen is expected to meet the objective now."""
    unknown: bool = False
    """True if there are too few measurements to answer; the decision then stays due."""


Proposal = Try | Settle | Stay


@dataclass(frozen=True, slots=True)
class Pace:
    """The times at which a strategy is asked while the app is stable."""

    check_interval_s: float
    """Time between two checks of the SLO, in seconds."""
    each_turn: bool = False
    """True if the strategy models the stream itself: ask it at each tick without a change in progress."""
    every_step: bool = False
    """True if the strategy is a regulator: ask it after each check interval, and measure each interval separately."""


class Strategy(ABC):
    """Proposes compositions; the manager acts. Pure: same calls, same answers. The defaults suit most strategies."""

    name: ClassVar[str]
    latency_from: ClassVar[LatencyFrom] = LatencyFrom.DUE
    """Start of a latency, unless a run sets another."""
    style: ClassVar[SwitchStyle] = SwitchStyle.SEAMLESS
    """Style of its switches, unless a run sets another."""
    keeps_warm: ClassVar[bool] = True
    """True if workers that are not needed stay for a while, unless a run sets it."""
    begins_cheap: ClassVar[bool] = False
    """True if an app with an objective begins with the cheapest composition. The published strategies begin with every
    stage in a group by itself, for the most accurate profile."""
    drain_sample: ClassVar[str] = "schedule"
    """Estimator of the drain time, unless a run sets another (:mod:`profiler.drain_samples`)."""
    several: ClassVar[bool] = False
    """True if it accepts several objectives at once, and budgets; the published strategies accept one objective."""

    @abstractmethod
    def propose(self, situation: Situation, trials: tuple[Trial, ...]) -> Proposal:
        """Return the next step of a decision, after the trials made in it so far; ``Settle`` and ``Stay`` end it."""

    def pace(self, settings: Settings) -> Pace:
        """Return the times at which the strategy is asked; by default the paper's: at each check interval."""
        return Pace(settings.rhythm.check_interval_s)

    def observe(  # noqa: B027  # most strategies need only the present
        self, snapshot: Snapshot, objective: Objective | None, stages: Sequence[Stage]
    ) -> None:
        """Record the snapshot of a turn; called at each tick, also while a change is in progress."""

    def reaches(self, situation: Situation, limits: Limits) -> tuple[Reach, ...] | None:
        """Return how well the objective would be met within each of ``limits``; ``None`` if unknown."""
        return None

    def supposing(self, rate_per_s: float | None) -> "Strategy":
        """Return a copy with the same knowledge that assumes this input rate, in items/s; None: the present one."""
        return deepcopy(self)


class Static(Strategy):
    """Never proposes a change."""

    name = "static"
    several = True

    def propose(self, situation: Situation, trials: tuple[Trial, ...]) -> Proposal:
        return Stay(f"static: {situation.active.name} stays; {situation.assessment.reason}")


# --- rules that strategies share --------------------------------------------------------------------------------------


def cheapness(composition: Composition) -> tuple[int, int]:
    """Return a sort key, cheapest first: fewest workers, then fewest groups (Vogel et al., section 3.2, step 5)."""
    return composition.workers, len(composition.groups)


def available(situation: Situation) -> list[Composition]:
    """Return the compositions that can be chosen now, the active one included."""
    others = (c for c in situation.compositions if c.name not in situation.unavailable)
    known = {c.shape: c for c in others}
    known.setdefault(situation.active.shape, situation.active)
    return list(known.values())


def best_trial(objective: Objective, trials: Sequence[Trial]) -> Trial:
    """Return the trial with the best value; of equal ones the cheapest. Trials without a measurement are worst."""
    return max(trials, key=lambda trial: (_worth(objective, trial), *(-c for c in cheapness(trial.composition))))


def described(objective: Objective, assessment: Assessment | None) -> str:
    """Return the measured value with its unit, as text."""
    return "nothing measured" if assessment is None else objective.described(measured_value(objective, assessment))


def measured_value(objective: Objective, seen: Assessment) -> float | None:
    """Return the measured value of the objective's metric."""
    return objective.value(seen.throughput_per_s, seen.latency_s)


def _worth(objective: Objective, trial: Trial) -> float:
    value = None if trial.assessment is None else measured_value(objective, trial.assessment)
    return float("-inf") if value is None else objective.worth(value)


def candidates(
    compositions: Iterable[Composition], shortlist: Collection[str], why_not: str, why: str, chosen: str | None = None
) -> tuple[Candidate, ...]:
    """Return all ``compositions`` as candidates of a decision: shortlisted, ``chosen``, or rejected."""
    return tuple(_candidate(c, shortlist, why_not, why, chosen) for c in compositions)


def _candidate(c: Composition, shortlist: Collection[str], why_not: str, why: str, chosen: str | None) -> Candidate:
    if c.name == chosen:
        return Candidate(c.name, c.workers, CandidateStatus.CHOSEN, why)
    if c.name in shortlist:
        return Candidate(c.name, c.workers, CandidateStatus.SHORTLISTED, why)
    return Candidate(c.name, c.workers, CandidateStatus.REJECTED, why_not)
