"""The situation: everything that a strategy may use for a decision."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from compositions.model import Composition, Room, TransitionKind
from control.assess import Assessment
from control.decisions import Trigger
from control.objectives.objective import Objective
from control.settings import Settings
from profiler.budget import FREE, Budget
from profiler.snapshot import Announcement, Snapshot


@dataclass(frozen=True, slots=True)
class Situation:
    """``now_s`` is the snapshot's time."""

    trigger: Trigger
    snapshot: Snapshot
    objective: Objective
    assessment: Assessment
    """Verdict on the active composition, as measured."""
    active: Composition
    compositions: tuple[Composition, ...]
    settings: Settings
    unavailable: Mapping[str, str] = field(default_factory=dict)
    """Compositions that could not be switched to of late, by name, with the reason."""
    budget: Budget = FREE
    """Budget of the app."""
    generated: bool = False
    """Nobody wrote the compositions: whatever can be composed may be chosen."""
    announced: tuple[Announcement, ...] = ()
    """Loads that are to come."""
    room: Room = field(default_factory=dict)
    """How many workers of a class the nodes could hold, where they reserve something."""

    def transition_to(self, composition: Composition) -> TransitionKind:
        """Return what it takes to get there."""
        return self.settings.style.transition(self.active, composition)

    @property
    def now_s(self) -> float:
        return self.snapshot.now_s
