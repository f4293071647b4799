"""Strategy ``static``: the composition that was given, whatever happens; the baseline of every comparison."""

from __future__ import annotations

from compositions.model import Composition
from control.settings import Settings
from control.strategies.base import Pace, Proposal, Situation, Stay, Trial


class Static:
    """Never proposes anything."""

    name = "static"

    def pace(self, settings: Settings) -> Pace:
        return Pace(settings.rhythm.check_interval_s, votes=1)

    def prepare(self, compositions: tuple[Composition, ...]) -> None:
        """Nothing to prepare."""

    def clear(self, situation: Situation, elapsed_s: float) -> str | None:
        return None

    def learn(self, situation: Situation) -> None:
        """Nothing to learn for one who never moves."""

    def propose(self, situation: Situation, trials: tuple[Trial, ...]) -> Proposal:
        return Stay(f"static: {situation.active.name} stays; {situation.assessment.reason}")
