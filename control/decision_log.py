"""The manager's log of decisions: the one in progress, those made, the finding that nothing helps, and outcomes."""

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
    """Collects the trials of one decision."""

    trigger: Trigger
    evidence: str
    began_s: float
    origin: Composition
    trials: tuple[Trial, ...] = ()

    def and_then(self, trial: Trial) -> "Episode":
        return replace(self, trials=(*self.trials, trial))

    def decision(self, number: int, now_s: float, step: Try | Settle, reason: str, *, acted: bool = True) -> Decision:
        """Return what came of it: ``step`` was its last."""
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
    """``candidates`` with what the trials measured of them, and those whose switch failed with the reason."""
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
    """Learns from how far off predictions were how much less than predicted is to be expected: conformal prediction
    (Vovk et al., "Algorithmic Learning in a Random World", 2005, chapter 2), over the latest outcomes."""

    KEPT, BELOW = 100, 0.1
    """Number of outcomes that count, and the share of them that may be below the limit."""

    def __init__(self) -> None:
        self._off = deque[float](maxlen=self.KEPT)

    def note(self, predicted: float, measured: float) -> None:
        """Note the share that was predicted and the one that came."""
        self._off.append(measured - predicted)

    def at_least(self, predicted: float) -> float | None:
        """Return what the share exceeds nine times of ten; None while too few outcomes are known for that."""
        below = math.floor(self.BELOW * (len(self._off) + 1))
        return max(0.0, min(1.0, predicted + sorted(self._off)[below - 1])) if below else None


class Hindsight:
    """Waits until a decision's window is full, compares, and hands the decision out with its outcome."""

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._awaited = deque[Decision](maxlen=Calibration.KEPT)  # a strategy of small steps never asks
        self._compared: list[Decision] = []
        self._calibration = Calibration()

    def expect(self, decision: Decision) -> Decision:
        """Return the decision, which was carried out, with what its prediction is worth."""
        chosen = decision.chosen
        if chosen is not None and chosen.predicted_in_time is not None:
            least = self._calibration.at_least(chosen.predicted_in_time)
            decision = decision.with_chosen(replace(chosen, in_time_at_least=least))
        self._awaited.append(decision)
        return decision

    def compare(self, snapshot: Snapshot, seen: Assessment, wanted_s: float | None) -> None:
        """Compare what can be compared now. ``wanted_s``: the time that is asked of each item; None where only the
        stream as a whole is judged."""
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
        """``seen``: None of a decision that another one followed before its window was full."""
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
        """Those compared since the last call."""
        compared, self._compared = tuple(self._compared), []
        return compared


def outcome_text(decision: Decision, seen: Assessment | None, in_time: float | None) -> str:
    """The prediction of ``decision`` against what was ``seen`` once the window was full; None if another decision
    followed before. ``in_time``: the share of the items within the time that is asked of each."""
    chosen, predicted, measured = decision.chosen, [], []
    if chosen is not None and seen is not None and chosen.predicted_throughput_per_s is not None:
        rate, latency = _rate(chosen.predicted_throughput_per_s), _milliseconds(chosen.predicted_latency_s)
        predicted.append(f"up to {rate} and {latency}")
    if seen is not None:
        measured.append(f"{_rate(seen.throughput_per_s)} and {_milliseconds(seen.latency_s)}")
    if chosen is not None and chosen.predicted_in_time is not None and in_time is not None:
        least = chosen.in_time_at_least
        told = "" if least is None else f" (nine times of ten at least {_percent(least)})"
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
    """Since the last request from outside."""

    def __init__(self) -> None:
        self._count = 0
        self._advice: Decision | None = None
        self.infeasible: str | None = None
        """Why no known composition can meet the objective; ``None`` while one may."""
        self._closest: str | None = None
        """The composition that was last told to come closest when none can."""

    def forget(self) -> None:
        """The question is a new one."""
        self.infeasible, self._advice, self._closest = None, None, None

    def conclude(self, episode: Episode, now_s: float, step: Settle) -> Decision:
        """The decision that ``step`` ends, which has been carried out."""
        self.infeasible = f"infeasible: {step.reason}" if step.infeasible else None
        self._closest = step.composition.name if step.infeasible else None
        return self.numbered(episode, now_s, step)

    def numbered(self, episode: Episode, now_s: float, step: Settle) -> Decision:
        """The decision that ``step`` is, which answers no question about the objective."""
        return episode.decision(self._next_id(), now_s, step, step.reason)

    def placed(self, now_s: float, name: str, reason: str) -> Decision:
        """Return the pool's decision to have other workers for the composition called ``name``."""
        return Decision(self._next_id(), now_s, Trigger.PLACEMENT, name, name, reason)

    def repeats(self, episode: Episode, step: Settle) -> bool:
        """A violation, nothing was tried, and nothing can help: as told before."""
        idle = episode.trigger is Trigger.VIOLATION and not episode.trials
        return idle and step.infeasible and step.composition.name == episode.origin.name == self._closest

    def again(self, step: Settle) -> str:
        """That nothing can help, with the figures of now."""
        self.infeasible = f"infeasible: {step.reason}"
        return self.infeasible

    def advise(self, episode: Episode, now_s: float, step: Try | Settle) -> Decision | str:
        """Return what would be done; for the same advice again only that it still holds."""
        last = self._advice
        if last is not None and last.to_name == step.composition.name and last.from_name == episode.origin.name:
            return f"observing: decision {last.id} still holds"
        verb = "would try" if isinstance(step, Try) else "would choose"
        reason = f"{verb} {step.composition.name}: {step.reason}"
        self._advice = episode.decision(self._next_id(), now_s, step, reason, acted=False)
        return self._advice

    def quiet(self, reason: str, seen: Assessment) -> str:
        """Why nothing is done: ``reason``, or that nothing can help, until the objective is met after all."""
        if seen.meets:
            self.infeasible = None
        return reason if seen.meets else self.infeasible or reason

    def status(self, seen: Assessment) -> SloStatus:
        """Return what the user sees."""
        hopeless = self.infeasible is not None and seen.status is SloStatus.VIOLATED
        return SloStatus.INFEASIBLE if hopeless else seen.status

    def _next_id(self) -> int:
        self._count += 1
        return self._count
