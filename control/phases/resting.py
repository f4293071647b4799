"""Nothing is under way: is a decision due?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from control.assess import unsure
from control.decisions import ResetWindow, State, Trigger
from control.desk import Desk
from control.episode import Episode
from control.phases.deciding import advance
from control.phases.phase import Answer, Running, remain, rest
from control.turn import Turn
from control.watch import Due


@dataclass(frozen=True, slots=True)
class Resting(Running):
    """Compares what was decided with what came of it, and asks the watch."""

    label: ClassVar[State] = State.STABLE

    def go_on(self, turn: Turn, desk: Desk) -> Answer:
        compared = desk.hindsight.compare(turn.snapshot, turn.seen)
        if compared is not None:
            desk.strategy.learn(desk.situation(turn, compared.trigger))
        too_few = unsure(desk.choices.stages, turn.snapshot, desk.settings.measuring)
        waits = too_few or desk.watch.held(turn.now_s)
        return remain(turn, waits) if waits is not None else _decide(turn, desk)


@dataclass(frozen=True, slots=True)
class Profiling(Resting):
    """The same before the first decision: the stages are being measured."""

    label: ClassVar[State] = State.PROFILING


def _decide(turn: Turn, desk: Desk) -> Answer:
    due = desk.due
    if due is None:
        found = desk.watch.due(turn.snapshot, turn.seen)
        if isinstance(found, str):
            return rest(turn, desk.conclusions.quiet(found, turn.seen))
        if found.trigger is Trigger.INPUT_RATE and not desk.foresees:
            desk.due = found
            return remain(turn, f"{found.reason}; measuring anew", ResetWindow())
        due = found
    if turn.seen.meets is None and not desk.foresees:
        return remain(turn, turn.seen.reason)
    return _open(turn, desk, due)


def _open(turn: Turn, desk: Desk, due: Due) -> Answer:
    """Begin a decision, unless it is known that nothing can help and nothing has changed since."""
    desk.due = None
    hopeless = desk.conclusions.infeasible
    if due.trigger is Trigger.VIOLATION and hopeless is not None and desk.watch.changed(turn.snapshot) is None:
        return rest(turn, hopeless)
    evidence = due.reason if due.trigger is Trigger.VIOLATION else f"{due.reason}; {turn.seen.reason}"
    if turn.seen.meets is False:
        desk.strategy.learn(desk.situation(turn, due.trigger))
    return advance(turn, desk, Episode(due.trigger, evidence, turn.now_s, desk.choices.active, rising=due.rising))
