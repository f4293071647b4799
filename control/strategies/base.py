"""The port of a strategy: what it is told and what it may answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import ClassVar

from compositions.model import Composition
from control.arbitration.bid import Reach
from control.assess import Assessment
from control.decisions import Candidate
from control.settings import Settings
from control.situation import Situation
from profiler.budget import Budget
from profiler.snapshot import LatencyFrom
from runtime.dispatch.events import SwitchStyle

Limits = Sequence[Budget]


@dataclass(frozen=True, slots=True)
class Trial:
    """One composition tried within a decision."""

    composition: Composition
    assessment: Assessment | None
    """What was measured; ``None`` when the switch to it failed."""
    duration_s: float
    ended: str
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
    every_step: bool = False
    """It regulates: ask it at every check interval, whatever that shows, and measure each by itself."""


class Strategy(ABC):
    """Proposes; the manager acts. Pure: same calls, same answers. What a strategy leaves out, it has no need of."""

    name: ClassVar[str]
    latency_from: ClassVar[LatencyFrom] = LatencyFrom.DUE
    """What it judges by unless a run says otherwise."""
    style: ClassVar[SwitchStyle] = SwitchStyle.SEAMLESS
    """How it has one composition follow another unless a run says otherwise."""
    several: ClassVar[bool] = False
    """Whether it takes several objectives at once, and budgets; as published they take one objective, and no budget."""

    @abstractmethod
    def propose(self, situation: Situation, trials: tuple[Trial, ...]) -> Proposal:
        """The next step of a decision, given the trials made in it so far; ends with ``Settle`` or ``Stay``."""

    def pace(self, settings: Settings) -> Pace:
        """That of the paper unless a strategy says otherwise: one look a check interval."""
        return Pace(settings.rhythm.check_interval_s, votes=1)

    def prepare(self, compositions: tuple[Composition, ...]) -> None:  # noqa: B027  # most have nothing to prepare
        """These can be chosen from now on: what takes long over many of them is done here, not in a tick."""

    def clear(self, situation: Situation, elapsed_s: float) -> str | None:
        """Why the trial of the active composition may end now, after ``elapsed_s``; ``None`` to let it run on."""
        return None

    def suffices(self, situation: Situation) -> bool | None:
        """Whether the active composition will do for what is expected of the load; ``None`` where it cannot tell."""
        return None

    def reaches(self, situation: Situation, limits: Limits) -> tuple[Reach, ...] | None:
        """How well the objective would be met within each of ``limits``; ``None`` where it cannot tell."""
        return None

    def learn(self, situation: Situation) -> None:  # noqa: B027  # most carry nothing from one decision to the next
        """The active composition's window is full: compare with what was expected of it."""

    def fork(self) -> Strategy:
        """One that knows the same and goes its own way: asking it, or teaching it, leaves this one as it is."""
        return deepcopy(self)
