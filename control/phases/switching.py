"""A switch is under way: wait for its end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from compositions.model import Composition, TransitionKind
from control.decisions import CallOff, Mode, NoChange, State, Trigger
from control.desk import Desk
from control.episode import Episode
from control.phases.deciding import advance, close, under_way
from control.phases.phase import Answer, Phase, TryOut, remain, rest
from control.sight import Sight
from control.strategies.base import Settle, Trial, Try


@dataclass(frozen=True, slots=True)
class Switching(Phase):
    """To the composition of ``step``, since ``asked_s``."""

    step_to: Try | Settle
    asked_s: float
    episode: Episode | None
    """The decision that the switch is part of; ``None`` once a request from outside has overtaken it."""
    failure: str | None = None
    """What the runner said of it; the old composition is still running then."""
    called_off: bool = False
    """By us, before anything moved, as it was overtaken: ``failure`` is no failure then."""
    kind: TransitionKind = TransitionKind.SWITCH

    label: ClassVar[State] = State.SWITCHING

    @property
    def target(self) -> Composition:
        return self.step_to.composition

    def step(self, sight: Sight, desk: Desk) -> Answer:
        if self.called_off:
            ended = f"the {self.kind} to {self.target.name}, whose workers were not all there, was called off"
            desk.ended_by_due = ended
            return rest(sight, f"{ended}: {_asked(desk)}")
        failure = self.failure or self._unheard(sight, desk.settings.rhythm.switch_limit_s)
        if failure is not None:
            return self._failed(sight, desk, failure)
        if self._done(sight):
            return self._arrived(sight, desk)
        calls = (CallOff(_asked(desk)),) if self._overtaken(sight, desk) else ()
        return remain(sight, under_way(self.kind, self.target), *calls)

    def _overtaken(self, sight: Sight, desk: Desk) -> bool:
        """A request from outside has come since, and does not ask for the same; or another share of the machine, which
        is too small for it. The runner is told at each turn, and knows whether it still waits for workers."""
        same = sight.aim.mode is Mode.PINNED and desk.pin is not None and desk.pin.name == self.target.name
        return (self.episode is None and not same) or self._beyond(desk)

    def _beyond(self, desk: Desk) -> bool:
        most, due = desk.choices.granted.workers, desk.due
        news = desk.untold is not None or (due is not None and due.trigger is Trigger.BUDGET)
        return news and most is not None and most < self.target.workers

    def _unheard(self, sight: Sight, limit_s: float) -> str | None:
        """While the dispatcher is at it, its word is the only one; when it is not, one should have come."""
        lasted_s = sight.now_s - self.asked_s
        overdue = lasted_s > limit_s and not sight.snapshot.switching
        return f"it had not ended after {lasted_s:.0f} s" if overdue else None

    def _done(self, sight: Sight) -> bool:
        """The snapshot is of the target, and no older than the request."""
        seen = sight.snapshot
        return not seen.switching and seen.composition == self.target.name and seen.stable_since_s >= self.asked_s

    def _arrived(self, sight: Sight, desk: Desk) -> Answer:
        """Begin the trial that the switch was for, or close the decision."""
        desk.choices.activate(self.target)
        desk.backlog.inherit()
        desk.lookout.delays.arrived(sight.now_s, in_place=self.kind is TransitionKind.RESIZE)
        done = "resized" if self.kind is TransitionKind.RESIZE else "switched"
        desk.hold(sight.now_s, f"just {done} to {self.target.name}")
        if self.episode is None:
            return rest(sight, f"the {self.kind} was overtaken by a newer request")
        if isinstance(self.step_to, Settle):
            return close(sight, desk, self.episode, self.step_to)
        begun = NoChange(sight.now_s, f"trying {self.target.name}")
        return Answer(begun, TryOut(self.step_to, self.episode))

    def _failed(self, sight: Sight, desk: Desk, failure: str) -> Answer:
        """The old composition runs on; the strategy goes on without the one that failed."""
        name = self.target.name
        desk.choices.bar(self.target, sight.now_s + desk.settings.rhythm.failed_switch_pause_s, failure)
        desk.hold(sight.now_s, f"the {self.kind} to {name} failed")
        told = f"the {self.kind} to {name} failed: {failure}"
        if self.episode is None:  # what was asked for since is still to be done
            return rest(sight, told)
        if sight.aim.mode is Mode.PINNED:  # once: who pins looks at what becomes of it
            desk.pin = None
            return rest(sight, told)
        ended = f"the {self.kind} failed: {failure}"
        trial = Trial(self.target, None, sight.now_s - self.asked_s, ended)
        return advance(sight, desk, self.episode.and_then(trial))


def _asked(desk: Desk) -> str:
    return desk.untold or ("a newer request" if desk.due is None else desk.due.reason)
