"""The interface of a manager phase: its label, and its answer to what a tick observes."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from compositions.model import TransitionKind
from control.context import ManagerContext
from control.decision_log import Episode
from control.decisions import Command, Decision, NoChange, ResetWindow, State
from control.observation import Observation
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
    """The answer of a phase to an observation: what it reports, what the runner is to do, and the move that follows."""

    said: Decision | NoChange
    move: Move
    commands: tuple[Command, ...] = ()


class Phase(ABC):
    """Immutable: what changes is which phase it is."""

    __slots__ = ()
    label: ClassVar[State]

    @abstractmethod
    def step(self, observed: Observation, context: ManagerContext) -> Answer:
        """One tick of this phase."""


class Running(Phase):
    """A phase in which one composition has the stream to itself."""

    __slots__ = ()

    def step(self, observed: Observation, context: ManagerContext) -> Answer:
        context.choices.recognise(observed.snapshot.composition)
        if context.backlog.reset_due(observed.aim.objective, observed.snapshot, observed.seen):
            return remain(observed, "backlog cleared; measuring again", ResetWindow())
        return self.go_on(observed, context)

    @abstractmethod
    def go_on(self, observed: Observation, context: ManagerContext) -> Answer:
        """Return what this phase does once the measurements are the active composition's own."""


def remain(observed: Observation, reason: str, *commands: Command) -> Answer:
    """Nothing to do yet, and why."""
    return Answer(NoChange(observed.now_s, reason), Remain(), commands)


def rest(observed: Observation, reason: str) -> Answer:
    """Nothing to do any more, and why."""
    return Answer(NoChange(observed.now_s, reason), Rest())
