"""Strategy ``static``: the composition that was given, whatever happens; the baseline of every comparison."""

from __future__ import annotations

from control.situation import Situation
from control.strategies.base import Proposal, Stay, Strategy, Trial


class Static(Strategy):
    """Never proposes anything."""

    name = "static"
    several = True

    def propose(self, situation: Situation, trials: tuple[Trial, ...]) -> Proposal:
        return Stay(f"static: {situation.active.name} stays; {situation.assessment.reason}")
