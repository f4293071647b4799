"""The port of a strategy: what it is told and what it may answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from compositions.model import Composition
from control.decisions import Candidate, Trigger
from control.settings import Settings
from control.strategies.assess import Assessment
from profiler.slo import Slo
from profiler.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Situation:
    """Everything a strategy may look at. ``now_s`` is the snapshot's time."""

    trigger: Trigger
    snapshot: Snapshot
    slo: Slo
    assessment: Assessment
    """Of the active composition, as measured."""
    active: Composition
    compositions: tuple[Composition, ...]
    settings: Settings
    unavailable: Mapping[str, str] = field(default_factory=dict)
    """Compositions that could not be switched to of late, by name, with the reason."""

    @property
    def now_s(self) -> float:
        return self.snapshot.now_s


@dataclass(frozen=True, slots=True)
class Trial:
    """One composition tried within a decision."""

    composition: Composition
    assessment: Assessment | None
    """What was measured; ``None`` when the switch to it failed."""
    duration_s: float
    note: str
    """Why it ended: time up, clear before, or the reason of the failure."""


@dataclass(frozen=True, slots=True)
class Try:
    """Run ``composition`` for at most ``limit_s`` and ask again."""

    composition: Composition
    limit_s: float
    candidates: tuple[Candidate, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Settle:
    """Make ``composition`` the active one and be stable."""

    composition: Composition
    candidates: tuple[Candidate, ...]
    reason: str
    infeasible: bool = False
    """Nothing known can meet the SLO here; ``composition`` is the best found."""


@dataclass(frozen=True, slots=True)
class Stay:
    """No change, and why."""

    reason: str


Proposal = Try | Settle | Stay


@dataclass(frozen=True, slots=True)
class Pace:
    """How a strategy wants to be asked while the app is stable."""

    check_interval_s: float
    """Time between two looks at the SLO."""
    votes: int
    """Consecutive looks that must find a violation before it acts."""
    foresees: bool = False
    """It can tell from profile and input rate alone: ask it at once when these change, and now and then when the SLO
    is met whether less would do."""


class Strategy(Protocol):
    """Proposes; the manager acts. Pure: same calls, same answers."""

    name: str

    def pace(self, settings: Settings) -> Pace: ...

    def prepare(self, compositions: tuple[Composition, ...]) -> None:
        """These can be chosen from now on: what takes long over many of them is done here, not in a tick."""

    def propose(self, situation: Situation, trials: tuple[Trial, ...]) -> Proposal:
        """The next step of a decision, given the trials made in it so far; ends with ``Settle`` or ``Stay``."""

    def clear(self, situation: Situation, elapsed_s: float) -> str | None:
        """Why the trial of the active composition may end now, after ``elapsed_s``; ``None`` to let it run on."""

    def learn(self, situation: Situation) -> None:
        """The active composition's window is full: compare with what was expected of it."""
