"""Rules that strategies share: what is best, what is cheapest, and how a candidate is reported."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from compositions.model import Composition
from control.assess import Assessment
from control.decisions import Candidate, CandidateStatus
from control.objectives.objective import Objective
from control.situation import Situation
from control.strategies.base import Trial


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
    """What was seen of that which the objective is about."""
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
