"""What is remembered of a bundle that a task failed on, or a worker died with."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Trouble:
    """What a bundle has cost at the stage where it is."""

    attempts: int = 0
    """Of one item: how often a stage raised on it."""
    losses: int = 0
    """Of one item: workers that died with it alone."""
    lost_as: int = 0
    """Which one of the run's lost workers the last of these was."""
    suspect: bool = False
    """A worker died with it and others at once: it runs alone, so that it is known whether it was this one."""

    def after_loss(self, number: int, heard: int) -> Trouble:
        """Of one item, whose worker was lost as the run's ``number``-th and was known to live after the ``heard``-th.

        A machine that dies takes all its workers, and is noticed one worker after the other: an item goes from the dead
        to the dead. So what it had cost before counts on only where its worker was heard of since.
        """
        if self.losses and heard < self.lost_as:
            return self
        return replace(self, losses=self.losses + 1, lost_as=number)


NO_TROUBLE = Trouble()
