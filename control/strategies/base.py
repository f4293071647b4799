"""The port of a strategy: the class ``Strategy`` to implement, and the proposals that it may return."""

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
    """A composition that was tried during a decision, with its result."""

    composition: Composition
    assessment: Assessment | None
    """Measurement at the end of the trial; None if the switch to the composition failed."""
    duration_s: float
    ended: str
    """Reason why the trial ended: the time was up, or the switch failed."""


@dataclass(frozen=True, slots=True)
class Try:
    """Proposal to switch to ``composition``, measure it for ``limit_s`` seconds, and ask the strategy again."""

    composition: Composition
    limit_s: float
    candidates: tuple[Candidate, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Settle:
    """Proposal to switch to ``composition``, if it is not active, and to end the decision."""

    composition: Composition
    candidates: tuple[Candidate, ...]
    reason: str
    infeasible: bool = False
    """True if no known composition can meet the SLO; ``composition`` is then the best one."""


@dataclass(frozen=True, slots=True)
class Stay:
    """Proposal to change nothing, with the reason; ends the decision."""

    reason: str
    infeasible: bool = False
    """True if no available composition is expected to meet the objective now."""
    unknown: bool = False
    """True if there are too few measurements to decide: the trigger of this decision stays due."""


Proposal = Try | Settle | Stay


@dataclass(frozen=True, slots=True)
class Pace:
    """When the manager calls ``Strategy.propose`` while no switch or trial is under way."""

    check_interval_s: float
    """Time between two checks of the SLO, in seconds."""
    each_turn: bool = False
    """True for a strategy with its own model of the stream: it is asked at each tick."""
    every_step: bool = False
    """True for a regulator: it is asked at every check interval, also without a violation; each interval is measured
    separately."""


class Strategy(ABC):
    """Base class of all strategies. A strategy proposes, and the manager acts. It must be pure: no clock, no random
    numbers, no I/O; the same calls give the same answers. Only ``name`` and ``propose`` are required."""

    name: ClassVar[str]
    latency_from: ClassVar[LatencyFrom] = LatencyFrom.DUE
    """Default of a run's setting: the instant from which a latency counts."""
    style: ClassVar[SwitchStyle] = SwitchStyle.SEAMLESS
    """Default of a run's setting: the style of switches."""
    keeps_warm: ClassVar[bool] = True
    """Default of a run's setting: True if workers that are not needed stay alive for a while."""
    begins_cheap: ClassVar[bool] = False
    """True if an app with an objective begins with the cheapest composition. If False, every stage first runs in
    its own group, for the most accurate profile, as in the papers."""
    drain_sample: ClassVar[str] = "schedule"
    """Default of a run's setting: the estimate of a drain's time (:mod:`profiler.drain_samples`)."""
    several: ClassVar[bool] = False
    """True if the strategy accepts several objectives at once, and budgets; False: one objective without a budget."""

    @abstractmethod
    def propose(self, situation: Situation, trials: tuple[Trial, ...]) -> Proposal:
        """Return the next step of a decision. ``trials``: the trials of this decision so far, oldest first. After a
        ``Try`` and its trial, ``propose`` is called again; ``Settle`` and ``Stay`` end the decision."""

    def pace(self, settings: Settings) -> Pace:
        """Return when to ask the strategy; by default after a check, once per check interval, that gives a reason."""
        return Pace(settings.rhythm.check_interval_s)

    def observe(  # noqa: B027  # most need the present only
        self, snapshot: Snapshot, objective: Objective | None, stages: Sequence[Stage]
    ) -> None:
        """Record a snapshot. Called at each tick, also during switches and trials. ``objective``: None if not set."""

    def reaches(self, situation: Situation, limits: Limits) -> tuple[Reach, ...] | None:
        """Return how well the objective could be met within each budget of ``limits``; None if unknown."""
        return None

    def supposing(self, rate_per_s: float | None) -> "Strategy":
        """Return a copy of the strategy with what it has learned, for an input rate of ``rate_per_s`` (None: the
        present one). Calls of the copy do not change this strategy."""
        return deepcopy(self)


class Static(Strategy):
    """Strategy that never changes the composition."""

    name = "static"
    several = True

    def propose(self, situation: Situation, trials: tuple[Trial, ...]) -> Proposal:
        return Stay(f"static: {situation.active.name} stays; {situation.assessment.reason}")


# --- rules that strategies share --------------------------------------------------------------------------------------


def cheapness(composition: Composition) -> tuple[int, int]:
    """Return a sort key, cheapest first: fewest workers, then fewest groups (Vogel et al., section 3.2, step 5)."""
    return composition.workers, len(composition.groups)


def available(situation: Situation) -> list[Composition]:
    """Return the compositions that can be chosen now, always with the active one."""
    others = (c for c in situation.compositions if c.name not in situation.unavailable)
    known = {c.shape: c for c in others}
    known.setdefault(situation.active.shape, situation.active)
    return list(known.values())


def best_trial(objective: Objective, trials: Sequence[Trial]) -> Trial:
    """Return the trial with the best value; among equal ones the cheapest. A trial without a measurement is worst."""
    return max(trials, key=lambda trial: (_worth(objective, trial), *(-c for c in cheapness(trial.composition))))


def described(objective: Objective, assessment: Assessment | None) -> str:
    """Return the measured value with its unit, as text."""
    return "nothing measured" if assessment is None else objective.described(measured_value(objective, assessment))


def measured_value(objective: Objective, seen: Assessment) -> float | None:
    """Return the measured value of the objective's metric; None if there is none."""
    return objective.value(seen.throughput_per_s, seen.latency_s)


def _worth(objective: Objective, trial: Trial) -> float:
    value = None if trial.assessment is None else measured_value(objective, trial.assessment)
    return float("-inf") if value is None else objective.worth(value)


def candidates(
    compositions: Iterable[Composition], shortlist: Collection[str], why_not: str, why: str, chosen: str | None = None
) -> tuple[Candidate, ...]:
    """Return all ``compositions`` as candidates of a decision: chosen, shortlisted or rejected."""
    return tuple(_candidate(c, shortlist, why_not, why, chosen) for c in compositions)


def _candidate(c: Composition, shortlist: Collection[str], why_not: str, why: str, chosen: str | None) -> Candidate:
    if c.name == chosen:
        return Candidate(c.name, c.workers, CandidateStatus.CHOSEN, why)
    if c.name in shortlist:
        return Candidate(c.name, c.workers, CandidateStatus.SHORTLISTED, why)
    return Candidate(c.name, c.workers, CandidateStatus.REJECTED, why_not)
