"""A decision in the making: what set it off and what was tried."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from compositions.model import Composition
from control.decisions import Candidate, CandidateStatus, Decision, Trigger
from control.strategies.base import Settle, Trial, Try


@dataclass(frozen=True, slots=True)
class Episode:
    """Collects the trials of one decision."""

    trigger: Trigger
    evidence: str
    began_s: float
    origin: Composition
    trials: tuple[Trial, ...] = ()
    rising: bool = False
    """It was set off by an input rate that rose."""

    @property
    def floor_workers(self) -> int:
        """The fewest that it may end with."""
        return self.origin.workers if self.rising else 0

    def and_then(self, trial: Trial) -> Episode:
        return replace(self, trials=(*self.trials, trial))

    def decision(self, number: int, now_s: float, step: Try | Settle, reason: str, *, acted: bool = True) -> Decision:
        """What came of it: ``step`` was its last."""
        return Decision(
            id=number,
            at_s=now_s,
            trigger=self.trigger,
            from_name=self.origin.name,
            to_name=step.composition.name,
            reason=f"{self.evidence}; {reason}",
            candidates=with_trials(step.candidates, self.trials),
            trials=len(self.trials),
            duration_s=now_s - self.began_s,
            infeasible=isinstance(step, Settle) and step.infeasible,
            acted=acted,
        )


def with_trials(candidates: Sequence[Candidate], trials: Sequence[Trial]) -> tuple[Candidate, ...]:
    """``candidates`` with what the trials measured of them."""
    measured = {trial.composition.name: trial for trial in trials}
    return tuple(_with_trial(c, measured[c.name]) if c.name in measured else c for c in candidates)


def _with_trial(candidate: Candidate, trial: Trial) -> Candidate:
    status = CandidateStatus.TRIED if candidate.status is CandidateStatus.SHORTLISTED else candidate.status
    seen = trial.assessment
    if seen is None:
        return replace(candidate, status=status)
    return replace(
        candidate, status=status, measured_throughput_per_s=seen.throughput_per_s, measured_latency_s=seen.latency_s
    )
