"""What an app says for itself when it is asked what it would make of a machine."""

from __future__ import annotations

from dataclasses import dataclass

from control.decisions import Grant
from profiler.budget import FREE, Budget

Limits = tuple[Budget, ...]


@dataclass(frozen=True, slots=True)
class Reach:
    """What it would make of so much."""

    met: float
    """How well its objective would be met, 0 … 1 (all of it)."""
    composition: str | None = None
    """What it would run; None: it has nothing that needs so little."""


@dataclass(frozen=True, slots=True)
class Bid:
    """Of one app."""

    reach: tuple[Reach, ...] | None
    """By the limits that it was asked about; None: nobody can tell now."""
    takes_part: bool = True
    """It keeps to what it is given. What else runs keeps what it has: pinned or observed, without an objective, or by a
    strategy that takes no budget."""
    uses: Budget = FREE
    """What it has now."""
    grant: Grant | None = None
    """What it keeps to now."""
