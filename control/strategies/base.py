"""The port of a strategy: the situation that it gets, and the proposals that it may return."""

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
    """One composition tried within a decision."""

    composition: Composition
    assessment: Assessment | None
    """What was measured; ``None`` when the switch to it failed."""
    duration_s: float
    ended: str
    """Why it ended: time up, clear before, or the reason of the failure."""


@dataclass(frozen=True, slots=True)
class Try:
    """Run ``composition`` for at most ``limit_s`` and ask again."""

    composition: Composition
    limit_s: float
    candidates: tuple[Candidate, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Settle:
    """Make ``composition`` the active one and be stable."""

    composition: Composition
    candidates: tuple[Candidate, ...]
    reason: str
    infeasible: bool = False
    """Nothing known can meet the SLO here; ``composition`` is the best found."""


@dataclass(frozen=True, slots=True)
class Stay:
    """No change, and why."""

    reason: str
    infeasible: bool = False
    """Nothing that may be chosen is expected to meet the objective now."""
    unknown: bool = False
    """Too little has been seen: what set the question off is still to be answered."""


Proposal = Try | Settle | Stay


@dataclass(frozen=True, slots=True)
class Pace:
    """How a strategy wants to be asked while the app is stable."""

    check_interval_s: float
    """Time between two looks at the SLO."""
    each_turn: bool = False
    """The strategy has a model of its own: ask it at each tick at which nothing is under way."""
    every_step: bool = False
    """It regulates: ask it at every check interval, whatever that shows, and measure each by itself."""


class Strategy(ABC):
    """Proposes; the manager acts. Pure: same calls, same answers. What a strategy leaves out, it has no need of."""

    name: ClassVar[str]
    latency_from: ClassVar[LatencyFrom] = LatencyFrom.DUE
    """Start of a latency, unless a run says otherwise."""
    style: ClassVar[SwitchStyle] = SwitchStyle.SEAMLESS
    """Style of its switches, unless a run says otherwise."""
    keeps_warm: ClassVar[bool] = True
    """True if workers that are not needed stay for a while, unless a run says otherwise."""
    begins_cheap: ClassVar[bool] = False
    """Whether it begins with the cheapest composition where it has an objective; as published, every stage runs by
    itself first, for the most accurate profile."""
    drain_sample: ClassVar[str] = "schedule"
    """Estimate of the time of a drain, unless a run says otherwise (:mod:`profiler.drain_samples`)."""
    several: ClassVar[bool] = False
    """It accepts several objectives at once, and budgets; the published strategies take one objective alone."""

    @abstractmethod
    def propose(self, situation: Situation, trials: tuple[Trial, ...]) -> Proposal:
        """The next step of a decision, given the trials made in it so far; ends with ``Settle`` or ``Stay``."""

    def pace(self, settings: Settings) -> Pace:
        """That of the paper unless a strategy says otherwise: one look a check interval."""
        return Pace(settings.rhythm.check_interval_s)

    def observe(  # noqa: B027  # most need the present only
        self, snapshot: Snapshot, objective: Objective | None, stages: Sequence[Stage]
    ) -> None:
        """Note what was seen at a turn, whatever is under way."""

    def reaches(self, situation: Situation, limits: Limits) -> tuple[Reach, ...] | None:
        """Return how well the objective would be met within each of ``limits``; ``None`` where it cannot tell."""
        return None

    def supposing(self, rate_per_s: float | None) -> "Strategy":
        """Return one that knows the same, if the input rate were this; asking it leaves this one as it is."""
        return deepcopy(self)


class Static(Strategy):
    """Never proposes anything."""

    name = "static"
    several = True

    def propose(self, situation: Situation, trials: tuple[Trial, ...]) -> Proposal:
        return Stay(f"static: {situation.active.name} stays; {situation.assessment.reason}")


# --- rules that strategies share --------------------------------------------------------------------------------------


def cheapness(composition: Composition) -> tuple[int, int]:
    """Sort key, cheapest first: fewest workers, then most stages merged (Vogel et al., section 3.2, step 5)."""
    return composition.workers, len(composition.groups)


def available(situation: Situation) -> list[Composition]:
    """Compositions that may be switched to now; the active one always may stay."""
    others = (c for c in situation.compositions if c.name not in situation.unavailable)
    known = {c.shape: c for c in others}
    known.setdefault(situation.active.shape, situation.active)
    return list(known.values())


def best_trial(objective: Objective, trials: Sequence[Trial]) -> Trial:
    """The trial with the best value; of equal ones the cheapest. Unmeasured is worst."""
    return max(trials, key=lambda trial: (_worth(objective, trial), *(-c for c in cheapness(trial.composition))))


def described(objective: Objective, assessment: Assessment | None) -> str:
    """The measured value with its unit."""
    return "nothing measured" if assessment is None else objective.described(measured_value(objective, assessment))


def measured_value(objective: Objective, seen: Assessment) -> float | None:
    """Return what was seen of that which the objective is about."""
    return objective.value(seen.throughput_per_s, seen.latency_s)


def _worth(objective: Objective, trial: Trial) -> float:
    value = None if trial.assessment is None else measured_value(objective, trial.assessment)
    return float("-inf") if value is None else objective.worth(value)


def candidates(
    compositions: Iterable[Composition], shortlist: Collection[str], why_not: str, why: str, chosen: str | None = None
) -> tuple[Candidate, ...]:
    """All ``compositions`` with their part in a decision: named in ``shortlist``, ``chosen``, or rejected."""
    return tuple(_candidate(c, shortlist, why_not, why, chosen) for c in compositions)


def _candidate(c: Composition, shortlist: Collection[str], why_not: str, why: str, chosen: str | None) -> Candidate:
    if c.name == chosen:
        return Candidate(c.name, c.workers, CandidateStatus.CHOSEN, why)
    if c.name in shortlist:
        return Candidate(c.name, c.workers, CandidateStatus.SHORTLISTED, why)
    return Candidate(c.name, c.workers, CandidateStatus.REJECTED, why_not)
