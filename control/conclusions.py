"""What was concluded: numbered decisions, that nothing can meet the objective, advice that still holds."""

from __future__ import annotations

from control.assess import Assessment
from control.decisions import Decision, Trigger
from control.episode import Episode
from control.strategies.base import Settle, Try
from profiler.slo import SloStatus


class Conclusions:
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

    def repeats(self, episode: Episode, step: Settle) -> bool:
        """A violation, nothing was tried, and nothing can help: as told before."""
        idle = episode.trigger is Trigger.VIOLATION and not episode.trials
        return idle and step.infeasible and step.composition.name == episode.origin.name == self._closest

    def again(self, step: Settle) -> str:
        """That nothing can help, with the figures of now."""
        self.infeasible = f"infeasible: {step.reason}"
        return self.infeasible

    def advise(self, episode: Episode, now_s: float, step: Try | Settle) -> Decision | str:
        """What would be done; for the same advice again only that it still holds."""
        last = self._advice
        if last is not None and last.to_name == step.composition.name and last.from_name == episode.origin.name:
            return f"observing: decision {last.id} still holds"
        verb = "would try" if isinstance(step, Try) else "would choose"
        reason = f"{verb} {step.composition.name}: {step.reason}"
        self._advice = episode.decision(self._next_id(), now_s, step, reason, acted=False)
        return self._advice

    def quiet(self, reason: str, seen: Assessment, *, rough: bool) -> str:
        """Why nothing is done: ``reason``, or that nothing can help, until the objective is met after all. That a
        ``rough`` load is met for some seconds is chance: the conclusion stands."""
        if seen.meets and not rough:
            self.infeasible = None
        return reason if seen.meets else self.infeasible or reason

    def status(self, seen: Assessment) -> SloStatus:
        """What the user sees."""
        hopeless = self.infeasible is not None and seen.status is SloStatus.VIOLATED
        return SloStatus.INFEASIBLE if hopeless else seen.status

    def _next_id(self) -> int:
        self._count += 1
        return self._count
