"""A finding of ``recompose doctor``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Grade = Literal["good", "note", "bad"]


@dataclass(frozen=True, slots=True)
class Finding:
    """``note``: something will not go, or not well; ``bad``: nothing will."""

    about: str
    grade: Grade
    found: str
    do: str | None = None
    """What to do; None where nothing is to be done."""
