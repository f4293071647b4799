"""What a phase is: a label, and what it says to what a tick sees."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from compositions.model import TransitionKind
from control.decisions import Command, Decision, NoChange, ResetWindow, State
from control.desk import Desk
from control.episode import Episode
from control.sight import Sight
from control.strategies.base import Settle, Try


@dataclass(frozen=True, slots=True)
class Remain:
    """The phase goes on."""


@dataclass(frozen=True, slots=True)
class Rest:
    """Nothing is under way any more."""


@dataclass(frozen=True, slots=True)
class Leave:
    """A switch to the step's composition was asked for at ``at_s``."""

    step: Try | Settle
    at_s: float
    episode: Episode
    kind: TransitionKind = TransitionKind.SWITCH


@dataclass(frozen=True, slots=True)
class TryOut:
    """The trial of the active composition begins."""

    step: Try
    episode: Episode


@dataclass(frozen=True, slots=True)
class Drop:
    """From outside: what was under way is for a question that nobody asks any more."""


@dataclass(frozen=True, slots=True)
class Fail:
    """From outside: the switch under way ended with an error."""

    reason: str
    called_off: bool = False


Move = Remain | Rest | Leave | TryOut | Drop | Fail


@dataclass(frozen=True, slots=True)
class Answer:
    """What a phase says to what it sees, what the runner is to do, and where that leads."""

    said: Decision | NoChange
    move: Move
    commands: tuple[Command, ...] = ()


class Phase(ABC):
    """Immutable: what changes is which phase it is."""

    __slots__ = ()
    label: ClassVar[State]

    @abstractmethod
    def step(self, sight: Sight, desk: Desk) -> Answer:
        """One tick of this phase."""


class Running(Phase):
    """A phase in which one composition has the stream to itself."""

    __slots__ = ()

    def step(self, sight: Sight, desk: Desk) -> Answer:
        desk.choices.recognise(sight.snapshot.composition)
        if desk.backlog.reset_due(sight.aim.objective, sight.snapshot, sight.seen):
            return remain(sight, "the backlog is worked off; measuring anew", ResetWindow())
        return self.go_on(sight, desk)

    @abstractmethod
    def go_on(self, sight: Sight, desk: Desk) -> Answer:
        """What this phase does once the measurements are the active composition's own."""


def remain(sight: Sight, reason: str, *commands: Command) -> Answer:
    """Nothing to do yet, and why."""
    return Answer(NoChange(sight.now_s, reason), Remain(), commands)


def rest(sight: Sight, reason: str) -> Answer:
    """Nothing to do any more, and why."""
    return Answer(NoChange(sight.now_s, reason), Rest())
