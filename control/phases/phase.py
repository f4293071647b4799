"""The interface of a manager phase, its answer to an observation, and the moves between phases."""

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
    """Stay in this phase."""


@dataclass(frozen=True, slots=True)
class Rest:
    """Go to rest: no change and no trial is in progress any more."""


@dataclass(frozen=True, slots=True)
class Leave:
    """Wait for a switch to the step's composition, requested at ``at_s``."""

    step: Try | Settle
    at_s: float
    episode: Episode
    kind: TransitionKind = TransitionKind.SWITCH


@dataclass(frozen=True, slots=True)
class TryOut:
    """Begin a trial of the active composition."""

    step: Try
    episode: Episode


@dataclass(frozen=True, slots=True)
class Drop:
    """From outside: drop the decision in progress, because a newer request replaces it."""


@dataclass(frozen=True, slots=True)
class Fail:
    """From outside: the switch in progress ended with an error."""

    reason: str
    called_off: bool = False


Move = Remain | Rest | Leave | TryOut | Drop | Fail


@dataclass(frozen=True, slots=True)
class Answer:
    """A phase's answer to an observation: its report, the move to the next phase, and commands for the runner."""

    said: Decision | NoChange
    move: Move
    commands: tuple[Command, ...] = ()


class Phase(ABC):
    """A state of the manager. Immutable: the manager replaces it with the next phase."""

    __slots__ = ()
    label: ClassVar[State]

    @abstractmethod
    def step(self, observed: Observation, context: ManagerContext) -> Answer:
        """Return this phase's answer to one tick."""


class Running(Phase):
    """A phase in which no switch is in progress: one composition processes the whole stream."""

    __slots__ = ()

    def step(self, observed: Observation, context: ManagerContext) -> Answer:
        context.choices.recognise(observed.snapshot.composition)
        if context.backlog.reset_due(observed.aim.objective, observed.snapshot, observed.seen):
            return remain(observed, "backlog cleared; measuring again", ResetWindow())
        return self.go_on(observed, context)

    @abstractmethod
    def go_on(self, observed: Observation, context: ManagerContext) -> Answer:
        """Return the answer of this phase once the measurements are not spoilt by an earlier composition."""


def remain(observed: Observation, reason: str, *commands: Command) -> Answer:
    """Return an answer that stays in this phase, with the reason."""
    return Answer(NoChange(observed.now_s, reason), Remain(), commands)


def rest(observed: Observation, reason: str) -> Answer:
    """Return an answer that goes to rest, with the reason."""
    return Answer(NoChange(observed.now_s, reason), Rest())
