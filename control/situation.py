"""The situation: the information that a strategy gets for a decision."""

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
    """The information for one decision; ``now_s`` is the snapshot's time."""

    trigger: Trigger
    snapshot: Snapshot
    objective: Objective
    assessment: Assessment
    """Measured assessment of the active composition."""
    active: Composition
    compositions: tuple[Composition, ...]
    settings: Settings
    unavailable: Mapping[str, str] = field(default_factory=dict)
    """Names of the compositions that cannot be chosen now, with the reason."""
    budget: Budget = FREE
    """Budget of the app."""
    generated: bool = False
    """True if the user gave no list: any possible composition may be chosen."""
    announced: tuple[Announcement, ...] = ()
    """Planned loads."""
    room: Room = field(default_factory=dict)
    """Number of workers that fit on the nodes, by class, for classes that reserve resources."""

    def transition_to(self, composition: Composition) -> TransitionKind:
        """Return the kind of the change from the active composition to ``composition``."""
        return self.settings.style.transition(self.active, composition)

    @property
    def now_s(self) -> float:
        return self.snapshot.now_s
