"""A decision in the making: what set it off, what was tried, and what becomes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from compositions.model import Composition
from control.assess import Assessment
from control.decisions import Candidate, CandidateStatus, Decision, Trigger
from control.strategies.base import Settle, Trial, Try
from profiler.snapshot import Snapshot


@dataclass(slots=True)
class Episode:
    """Collects the trials of one decision."""

    trigger: Trigger
    evidence: str
    began_s: float
    origin: Composition
    trials: list[Trial] = field(default_factory=list)
    step: Try | Settle | None = None
    """What is being carried out."""

    def decision(self, number: int, now_s: float, to: Composition, reason: str, *, acted: bool = True) -> Decision:
        step = self.step
        return Decision(
            id=number,
            at_s=now_s,
            trigger=self.trigger,
            from_name=self.origin.name,
            to_name=to.name,
            reason=f"{self.evidence}; {reason}",
            candidates=with_trials(step.candidates if step else (), self.trials),
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


class Outcomes:
    """Compares the latest decision's prediction with what was measured once its window is full, and hands it out."""

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._awaited: Decision | None = None
        self._done: list[Decision] = []

    def await_(self, decision: Decision) -> None:
        self._awaited = decision

    def look(self, snapshot: Snapshot, seen: Assessment) -> Decision | None:
        """The decision whose outcome is known now, if there is one."""
        decision = self._awaited
        if decision is None or seen.meets is None or snapshot.now_s - decision.at_s < self._window_s:
            return None
        self._awaited = None
        self._done.append(replace(decision, outcome=outcome_text(decision, seen)))
        return decision

    def taken(self) -> tuple[Decision, ...]:
        """Those known since the last call."""
        done, self._done = tuple(self._done), []
        return done


def outcome_text(decision: Decision, seen: Assessment) -> str:
    """The prediction of ``decision`` against what was ``seen`` once the window was full."""
    chosen = next((c for c in decision.candidates if c.name == decision.to_name), None)
    measured = f"measured {_rate(seen.throughput_per_s)} and {_milliseconds(seen.latency_s)}"
    if chosen is None or chosen.predicted_throughput_per_s is None:
        return f"{measured}; {seen.reason}"
    predicted = f"{_rate(chosen.predicted_throughput_per_s)} and {_milliseconds(chosen.predicted_latency_s)}"
    return f"predicted up to {predicted}, {measured}; {seen.reason}"


def _rate(value: float | None) -> str:
    return "an unknown rate" if value is None else f"{value:.3g} items/s"


def _milliseconds(value: float | None) -> str:
    return "an unknown latency" if value is None else f"{value * 1e3:.3g} ms"
