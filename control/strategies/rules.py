"""Rules that strategies share: what is best, what is cheapest, and how a candidate is reported."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from compositions.model import Composition
from control.decisions import Candidate, CandidateStatus
from control.strategies.assess import Assessment
from control.strategies.base import Situation, Trial
from profiler.slo import Slo


def cheapness(composition: Composition) -> tuple[int, int]:
    """Sort key, cheapest first: fewest workers, then most stages merged (Vogel et al., section 3.2, step 5)."""
    return composition.workers, len(composition.groups)


def available(situation: Situation) -> list[Composition]:
    """Compositions that may be switched to now; the active one always may stay."""
    others = (c for c in situation.compositions if c.name not in situation.unavailable)
    known = {c.shape: c for c in others}
    known.setdefault(situation.active.shape, situation.active)
    return list(known.values())


def value(slo: Slo, assessment: Assessment | None) -> float:
    """What the SLO is about, as measured; higher is better, whatever the metric. Unmeasured is worst."""
    if assessment is None:
        return float("-inf")
    if slo.metric == "latency":
        return float("-inf") if assessment.latency_s is None else -assessment.latency_s
    return float("-inf") if assessment.throughput_per_s is None else assessment.throughput_per_s


def best_trial(slo: Slo, trials: Sequence[Trial]) -> Trial:
    """The trial with the best value; of equal ones the cheapest."""
    return max(trials, key=lambda trial: (value(slo, trial.assessment), *(-c for c in cheapness(trial.composition))))


def described(slo: Slo, assessment: Assessment | None) -> str:
    """The measured value with its unit."""
    if assessment is None:
        return "nothing measured"
    if slo.metric == "latency":
        return "no latency" if assessment.latency_s is None else f"{assessment.latency_s * 1e3:.4g} ms"
    rate = assessment.throughput_per_s
    return "no throughput" if rate is None else f"{rate:.3g} items/s"


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
