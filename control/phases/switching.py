"""The phases of a switch in progress and of a trial: wait for the end."""

from dataclasses import dataclass, replace
from typing import ClassVar

from compositions.model import Composition, TransitionKind
from compositions.wording import figure
from control.assess import Assessment
from control.context import ManagerContext
from control.decision_log import Episode
from control.decisions import CallOff, Mode, NoChange, State, Trigger
from control.observation import Observation
from control.phases.deciding import advance, close, leave, under_way
from control.phases.phase import Answer, Phase, Running, TryOut, remain, rest
from control.settings import Measuring
from control.strategies.base import Settle, Trial, Try


@dataclass(frozen=True, slots=True)
class Switching(Phase):
    """A switch to the composition of ``step_to``, requested at ``asked_s``."""

    step_to: Try | Settle
    asked_s: float
    episode: Episode | None
    """The decision that the switch is part of; ``None`` once a request from outside has replaced it."""
    failure: str | None = None
    """The runner's reason if the switch failed; the old composition still runs then."""
    called_off: bool = False
    """True if the manager cancelled the switch for a newer request; ``failure`` is then no failure."""
    kind: TransitionKind = TransitionKind.SWITCH

    label: ClassVar[State] = State.SWITCHING

    @property
    def target(self) -> Composition:
        return self.step_to.composition

    def step(self, observed: Observation, context: ManagerContext) -> Answer:
        if self.called_off:
            ended = f"the {self.kind} to {self.target.name} was cancelled before all its workers had started"
            context.ended_by_due = ended
            return rest(observed, f"{ended}: {_asked(context)}")
        failure = self.failure or self._unheard(observed, context.settings.rhythm.switch_limit_s)
        if failure is not None:
            return self._failed(observed, context, failure)
        if self._done(observed):
            return self._arrived(observed, context)
        if self._overtaken(observed, context):
            return remain(observed, under_way(self.kind, self.target), CallOff(_asked(context)))
        return self._followed(observed, context) or remain(observed, under_way(self.kind, self.target))

    def _followed(self, observed: Observation, context: ManagerContext) -> Answer | None:
        """Return the request for a larger resize, if this one still waits for workers and the strategy wants more."""
        pace, waits = context.strategy.pace(context.settings), self.kind is TransitionKind.RESIZE
        if not pace.each_turn or not waits or self.episode is None or observed.aim.mode is not Mode.AUTO:
            return None
        situation = replace(context.situation(observed, self.episode.trigger), active=self.target)
        step = context.strategy.propose(situation, ())
        if not isinstance(step, Settle) or step.composition.workers <= self.target.workers:
            return None
        if context.transition(self.target, step.composition) is not TransitionKind.RESIZE:
            return None
        return leave(observed, context, self.episode, step)

    def _overtaken(self, observed: Observation, context: ManagerContext) -> bool:
        """Return True if a newer request asks for another composition, or allows too few workers for this one."""
        same = observed.aim.mode is Mode.PINNED and context.pin is not None and context.pin.name == self.target.name
        return (self.episode is None and not same) or self._beyond(context)

    def _beyond(self, context: ManagerContext) -> bool:
        most, due = context.choices.granted.workers, context.due
        news = due is not None and due.trigger is Trigger.BUDGET
        return news and most is not None and most < self.target.workers

    def _unheard(self, observed: Observation, limit_s: float) -> str | None:
        """Return a reason if the switch is overdue and the dispatcher is not switching; it then missed a report."""
        lasted_s = observed.now_s - self.asked_s
        overdue = lasted_s > limit_s and not observed.snapshot.switching
        return f"it had not ended after {lasted_s:.0f} s" if overdue else None

    def _done(self, observed: Observation) -> bool:
        """Return True if the snapshot shows the target, stable since the request or later."""
        seen = observed.snapshot
        return not seen.switching and seen.composition == self.target.name and seen.stable_since_s >= self.asked_s

    def _arrived(self, observed: Observation, context: ManagerContext) -> Answer:
        """Begin the trial for which the switch was made, or close the decision."""
        context.choices.activate(self.target)
        context.backlog.inherit()
        done = "resized" if self.kind is TransitionKind.RESIZE else "switched"
        context.hold(observed.now_s, f"just {done} to {self.target.name}")
        if self.episode is None:
            return rest(observed, f"the {self.kind} was overtaken by a newer request")
        if isinstance(self.step_to, Settle):
            return close(observed, context, self.episode, self.step_to)
        begun = NoChange(observed.now_s, f"trying {self.target.name}")
        return Answer(begun, TryOut(self.step_to, self.episode))

    def _failed(self, observed: Observation, context: ManagerContext, failure: str) -> Answer:
        """Stay with the old composition, and let the strategy decide again without the one that failed."""
        name = self.target.name
        context.choices.bar(self.target, observed.now_s + context.settings.rhythm.failed_switch_pause_s, failure)
        context.hold(observed.now_s, f"the {self.kind} to {name} failed")
        told = f"the {self.kind} to {name} failed: {failure}"
        if self.episode is None:  # a newer request is still to be carried out
            return rest(observed, told)
        if observed.aim.mode is Mode.PINNED:  # no retry: a user who pins a composition watches the result
            context.pin = None
            return rest(observed, told)
        ended = f"the {self.kind} failed: {failure}"
        trial = Trial(self.target, None, observed.now_s - self.asked_s, ended)
        return advance(observed, context, self.episode.and_then(trial))


def _asked(context: ManagerContext) -> str:
    return "a newer request" if context.due is None else context.due.reason


@dataclass(frozen=True, slots=True)
class Trying(Running):
    """A trial of the active composition, as part of ``episode``."""

    trial: Try
    episode: Episode

    label: ClassVar[State] = State.TRIAL

    def go_on(self, observed: Observation, context: ManagerContext) -> Answer:
        tried, seen = self.trial, observed.seen
        elapsed_s = observed.now_s - max(observed.snapshot.stable_since_s, self.episode.began_s)
        if not _time_up(elapsed_s, tried.limit_s, seen, context.settings.measuring):
            progress = f"{elapsed_s:.1f} of {figure(tried.limit_s, 6)} s"
            return remain(observed, f"trying {tried.composition.name}: {progress}; {seen.reason}")
        ended = Trial(tried.composition, seen, elapsed_s, "time up")
        return advance(observed, context, self.episode.and_then(ended))


def _time_up(elapsed_s: float, limit_s: float, seen: Assessment, measuring: Measuring) -> bool:
    """Return True at the end of a trial; without enough samples it is prolonged, by ``patience_s`` at most."""
    return elapsed_s >= limit_s and (seen.meets is not None or elapsed_s >= limit_s + measuring.patience_s)
