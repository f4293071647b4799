"""Nothing is under way: is a decision due?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from control.assess import unsure
from control.decisions import ResetWindow, State, Trigger
from control.desk import Desk
from control.episode import Episode
from control.evidence import Asked
from control.phases.deciding import advance, tell_grant
from control.phases.phase import Answer, Running, remain, rest
from control.phases.regulating import step
from control.sight import Sight
from control.watch import Due


@dataclass(frozen=True, slots=True)
class Resting(Running):
    """Compares what was decided with what came of it, and asks the watch."""

    label: ClassVar[State] = State.STABLE

    def go_on(self, sight: Sight, desk: Desk) -> Answer:
        pace = desk.strategy.pace(desk.settings)
        if pace.every_step:
            return step(sight, desk, pace.check_interval_s)
        compared = desk.hindsight.compare(sight.snapshot, sight.seen)
        if compared is not None:
            desk.strategy.learn(desk.situation(sight, compared.trigger))
        if desk.untold is not None:
            reason, desk.untold = desk.untold, None
            return tell_grant(sight, desk, reason)
        too_few = unsure(desk.choices.stages, sight.snapshot, desk.settings.measuring)
        if too_few is not None:
            return remain(sight, too_few)
        ahead = _look_ahead(sight, desk)
        if ahead is not None:
            return ahead
        held = desk.watch.held(sight.now_s)
        return remain(sight, held) if held is not None else _decide(sight, desk)


@dataclass(frozen=True, slots=True)
class Profiling(Resting):
    """The same before the first decision: the stages are being measured."""

    label: ClassVar[State] = State.PROFILING


def _look_ahead(sight: Sight, desk: Desk) -> Answer | None:
    """What is expected of the load is answered at once, whatever is measured: while it moves a window tells of what is
    past. So is another share of the machine: others wait for what is to be given back. ``None``: it rests, and what is
    measured counts."""
    outlook = sight.snapshot.outlook
    if outlook is not None and desk.due is not None and desk.due.trigger is Trigger.BUDGET:
        return _open(replace(sight, snapshot=desk.lookout.held(sight.snapshot)), desk, desk.due)
    if outlook is None or desk.due is not None:
        return None
    asked = replace(sight, snapshot=desk.lookout.asked(sight.snapshot))
    enough = desk.strategy.suffices(desk.situation(asked, Trigger.INPUT_RATE))
    due = desk.lookout.due(sight.snapshot, enough)
    if due is not None:
        held = replace(sight, snapshot=desk.lookout.held(sight.snapshot))
        if enough and desk.strategy.suffices(desk.situation(held, due.trigger)) is False:
            return rest(sight, "what was needed a moment ago would take more than there is: nothing is given back")
        origin = desk.choices.active
        return advance(held, desk, Episode(due.trigger, due.reason, sight.now_s, origin, rising=due.rising))
    if outlook.moving:
        desk.watch.met(sight.now_s, sight.seen)
        return rest(sight, sight.seen.reason)
    return None


def _decide(sight: Sight, desk: Desk) -> Answer:
    due = desk.due
    if due is None:
        found = desk.watch.due(sight.snapshot, sight.seen, Asked(sight.aim.objective, desk.choices.active))
        if isinstance(found, str):
            return rest(sight, desk.conclusions.quiet(found, sight.seen, rough=sight.snapshot.counted))
        if found.trigger is Trigger.INPUT_RATE and not desk.foresees:
            desk.due = found
            return remain(sight, f"{found.reason}; measuring anew", ResetWindow())
        due = found
    if sight.seen.meets is None and not desk.foresees:
        return remain(sight, sight.seen.reason)
    return _open(sight, desk, due)


def _open(sight: Sight, desk: Desk, due: Due) -> Answer:
    """Begin a decision, unless it is known that nothing can help and nothing has changed since."""
    desk.due = None
    hopeless = desk.conclusions.infeasible
    if due.trigger is Trigger.VIOLATION and hopeless is not None and desk.watch.changed(sight.snapshot) is None:
        return rest(sight, hopeless)
    evidence = due.reason if due.trigger is Trigger.VIOLATION else f"{due.reason}; {sight.seen.reason}"
    if sight.seen.meets is False:
        desk.strategy.learn(desk.situation(sight, due.trigger))
    opened = Episode(due.trigger, desk.evidence(evidence), sight.now_s, desk.choices.active, rising=due.rising)
    return advance(sight, desk, opened)
