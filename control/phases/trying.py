"""The active composition is tried: is it clear, or is its time up?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from compositions.wording import figure
from control.assess import Assessment
from control.decisions import State
from control.desk import Desk
from control.episode import Episode
from control.phases.deciding import advance
from control.phases.phase import Answer, Running, remain, rest
from control.settings import Measuring
from control.sight import Sight
from control.strategies.base import Trial, Try


@dataclass(frozen=True, slots=True)
class Trying(Running):
    """One trial of ``episode``."""

    trial: Try
    episode: Episode

    label: ClassVar[State] = State.TRIAL

    def go_on(self, sight: Sight, desk: Desk) -> Answer:
        tried, seen, outlook = self.trial, sight.seen, sight.snapshot.outlook
        if outlook is not None and outlook.moving:
            return rest(sight, f"the load moves: a trial of {tried.composition.name} would tell of what is past")
        elapsed_s = sight.now_s - max(sight.snapshot.stable_since_s, self.episode.began_s)
        situation = desk.situation(sight, self.episode.trigger)
        clear = desk.strategy.clear(situation, elapsed_s)
        if clear is None and not _time_up(elapsed_s, tried.limit_s, seen, desk.settings.measuring):
            progress = f"{elapsed_s:.1f} of {figure(tried.limit_s, 6)} s"
            return remain(sight, f"trying {tried.composition.name}: {progress}; {seen.reason}")
        desk.strategy.learn(situation)
        ended = Trial(tried.composition, seen, elapsed_s, clear or "time up")
        return advance(sight, desk, self.episode.and_then(ended))


def _time_up(elapsed_s: float, limit_s: float, seen: Assessment, measuring: Measuring) -> bool:
    """A trial without enough samples is prolonged, but not for ever."""
    return elapsed_s >= limit_s and (seen.meets is not None or elapsed_s >= limit_s + measuring.patience_s)
