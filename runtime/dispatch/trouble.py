"""What is remembered of a bundle that a task failed on, or a worker died with."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Trouble:
    """What a bundle has cost at the stage where it is."""

    attempts: int = 0
    """Of one item: how often a stage raised on it."""
    losses: int = 0
    """Of one item: workers that died with it alone."""
    suspect: bool = False
    """A worker died with it and others at once: it runs alone, so that it is known whether it was this one."""


NO_TROUBLE = Trouble()
