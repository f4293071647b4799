"""The manager's log: the decision in progress, past decisions and their outcomes, and an infeasible objective."""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

from compositions.model import Composition
from compositions.wording import figure
from control.assess import Assessment
from control.decisions import Candidate, CandidateStatus, Decision, Trigger
from control.strategies.base import Settle, Trial, Try
from profiler.slo import SloStatus
from profiler.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Episode:
    """A decision in progress, with its trials so far."""

    trigger: Trigger
    evidence: str
    began_s: float
    origin: Composition
    trials: tuple[Trial, ...] = ()

    def and_then(self, trial: Trial) -> "Episode":
        return replace(self, trials=(*self.trials, trial))

    def decision(self, number: int, now_s: float, step: Try | Settle, reason: str, *, acted: bool = True) -> Decision:
        """Return the finished decision; ``step`` is its last step."""
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
    """Return ``candidates`` with the trials' measurements, and those whose switch failed with the reason."""
    measured = {trial.composition.name: trial for trial in trials}
    unlisted = measured.keys() - {each.name for each in candidates}
    failed = [trial for name, trial in measured.items() if name in unlisted and trial.assessment is None]
    return (
        *(_with_trial(c, measured[c.name]) if c.name in measured else c for c in candidates),
        *(Candidate(t.composition.name, t.composition.workers, CandidateStatus.REJECTED, t.ended) for t in failed),
    )


def _with_trial(candidate: Candidate, trial: Trial) -> Candidate:
    status = CandidateStatus.TRIED if candidate.status is CandidateStatus.SHORTLISTED else candidate.status
    seen = trial.assessment
    if seen is None:
        return replace(candidate, status=status)
    return replace(
        candidate, status=status, measured_throughput_per_s=seen.throughput_per_s, measured_latency_s=seen.latency_s
    )


class Calibration:
    """Learns a lower limit of the share of items in time from the errors of recent predictions: conformal prediction
    (Vovk et al., "Algorithmic Learning in a Random World", 2005, chapter 2)."""

    KEPT, BELOW = 100, 0.1
    """Number of latest outcomes that are used, and the share of them that may be below the limit."""

    def __init__(self) -> None:
        self._off = deque[float](maxlen=self.KEPT)

    def note(self, predicted: float, measured: float) -> None:
        """Record a predicted share and the measured one."""
        self._off.append(measured - predicted)

    def at_least(self, predicted: float) -> float | None:
        """Return the limit that the share exceeds in nine of ten cases; None if there are too few outcomes."""
        below = math.floor(self.BELOW * (len(self._off) + 1))
        return max(0.0, min(1.0, predicted + sorted(self._off)[below - 1])) if below else None


class Hindsight:
    """Compares a decision's prediction with the measurements once its window is full, and adds the outcome to it."""

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._awaited = deque[Decision](maxlen=Calibration.KEPT)  # bounded, as a regulator's decisions are not compared
        self._compared: list[Decision] = []
        self._calibration = Calibration()

    def expect(self, decision: Decision) -> Decision:
        """Keep a decision until its outcome is known; return the decision with the limit of its prediction."""
        chosen = decision.chosen
        if chosen is not None and chosen.predicted_in_time is not None:
            least = self._calibration.at_least(chosen.predicted_in_time)
            decision = decision.with_chosen(replace(chosen, in_time_at_least=least))
        self._awaited.append(decision)
        return decision

    def compare(self, snapshot: Snapshot, seen: Assessment, wanted_s: float | None) -> None:
        """Compare the decisions whose window is full. ``wanted_s``: latency objective of an item; None: none."""
        latency = snapshot.latency
        in_time = None if latency is None or wanted_s is None else latency.within(wanted_s)
        while self._awaited and snapshot.now_s - self._awaited[0].at_s >= self._window_s:
            last = len(self._awaited) == 1
            if last and seen.meets is None:
                return
            decision = self._awaited.popleft()
            if last or in_time is not None:
                self._compared.append(self._with_outcome(decision, seen if last else None, in_time))

    def _with_outcome(self, decision: Decision, seen: Assessment | None, in_time: float | None) -> Decision:
        """Return the decision with its outcome. ``seen``: None if another decision followed within its window."""
        decision = replace(decision, outcome=outcome_text(decision, seen, in_time))
        chosen = decision.chosen
        if chosen is None:
            return decision
        if chosen.predicted_in_time is not None and in_time is not None:
            self._calibration.note(chosen.predicted_in_time, in_time)
        chosen = replace(chosen, measured_in_time=in_time)
        if seen is not None:
            chosen = replace(chosen, measured_throughput_per_s=seen.throughput_per_s, measured_latency_s=seen.latency_s)
        return decision.with_chosen(chosen)

    def taken(self) -> tuple[Decision, ...]:
        """Return the decisions that were compared since the last call."""
        compared, self._compared = tuple(self._compared), []
        return compared


def outcome_text(decision: Decision, seen: Assessment | None, in_time: float | None) -> str:
    """Return a text that compares the prediction of ``decision`` with the measurements. ``seen``: None if another
    decision followed within its window. ``in_time``: measured share of the items within the latency objective."""
    chosen, predicted, measured = decision.chosen, [], []
    if chosen is not None and seen is not None and chosen.predicted_throughput_per_s is not None:
        rate, latency = _rate(chosen.predicted_throughput_per_s), _milliseconds(chosen.predicted_latency_s)
        predicted.append(f"up to {rate} and {latency}")
    if seen is not None:
        measured.append(f"{_rate(seen.throughput_per_s)} and {_milliseconds(seen.latency_s)}")
    if chosen is not None and chosen.predicted_in_time is not None and in_time is not None:
        least = chosen.in_time_at_least
        told = "" if least is None else f" (in nine of ten cases at least {_percent(least)})"
        predicted.append(f"{_percent(chosen.predicted_in_time)} in time{told}")
        measured.append(f"{_percent(in_time)} in time")
    parts = [f"{word} {', '.join(told)}" for word, told in (("predicted", predicted), ("measured", measured)) if told]
    end = "another decision followed before its window was full" if seen is None else seen.reason
    return f"{', '.join(parts)}; {end}" if parts else end


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _rate(value: float | None) -> str:
    return "an unknown rate" if value is None else f"{figure(value)} items/s"


def _milliseconds(value: float | None) -> str:
    return "an unknown latency" if value is None else f"{figure(value * 1e3)} ms"


class DecisionLog:
    """Numbers decisions, and avoids repeating the same finding or advice since the last request from outside."""

    def __init__(self) -> None:
        self._count = 0
        self._advice: Decision | None = None
        self.infeasible: str | None = None
        """Reason why no known composition can meet the objective; ``None`` while one may."""
        self._closest: str | None = None
        """The composition that was last reported as the closest if none can meet the objective."""

    def forget(self) -> None:
        """Forget findings and advice, because of a new request."""
        self.infeasible, self._advice, self._closest = None, None, None

    def conclude(self, episode: Episode, now_s: float, step: Settle) -> Decision:
        """Return the decision that ``step`` ends, and record whether the objective is infeasible."""
        self.infeasible = f"infeasible: {step.reason}" if step.infeasible else None
        self._closest = step.composition.name if step.infeasible else None
        return self.numbered(episode, now_s, step)

    def numbered(self, episode: Episode, now_s: float, step: Settle) -> Decision:
        """Return the decision that ``step`` ends, without a finding about the objective."""
        return episode.decision(self._next_id(), now_s, step, step.reason)

    def placed(self, now_s: float, name: str, reason: str) -> Decision:
        """Return the pool's decision to replace workers of the composition called ``name``."""
        return Decision(self._next_id(), now_s, Trigger.PLACEMENT, name, name, reason)

    def repeats(self, episode: Episode, step: Settle) -> bool:
        """Return True if ``step`` repeats the last report that no composition meets the objective, without a trial."""
        idle = episode.trigger is Trigger.VIOLATION and not episode.trials
        return idle and step.infeasible and step.composition.name == episode.origin.name == self._closest

    def again(self, step: Settle) -> str:
        """Update and return the finding that the objective is infeasible, with the present measurements."""
        self.infeasible = f"infeasible: {step.reason}"
        return self.infeasible

    def advise(self, episode: Episode, now_s: float, step: Try | Settle) -> Decision | str:
        """Return the decision that would be made; for repeated advice, a text that it still holds."""
        last = self._advice
        if last is not None and last.to_name == step.composition.name and last.from_name == episode.origin.name:
            return f"observing: decision {last.id} still holds"
        verb = "would try" if isinstance(step, Try) else "would choose"
        reason = f"{verb} {step.composition.name}: {step.reason}"
        self._advice = episode.decision(self._next_id(), now_s, step, reason, acted=False)
        return self._advice

    def quiet(self, reason: str, seen: Assessment) -> str:
        """Return the reason for no change: the infeasible objective until it is met after all, else ``reason``."""
        if seen.meets:
            self.infeasible = None
        return reason if seen.meets else self.infeasible or reason

    def status(self, seen: Assessment) -> SloStatus:
        """Return the status for the user: INFEASIBLE instead of VIOLATED if no composition can meet the objective."""
        hopeless = self.infeasible is not None and seen.status is SloStatus.VIOLATED
        return SloStatus.INFEASIBLE if hopeless else seen.status

    def _next_id(self) -> int:
        self._count += 1
        return self._count
