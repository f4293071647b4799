"""The phases without a decision in progress: check if a decision is due."""

from dataclasses import dataclass, replace
from typing import ClassVar

from compositions.model import Composition, TransitionKind
from compositions.wording import figure
from control.assess import unsure
from control.context import ManagerContext
from control.decision_log import Episode
from control.decisions import Mode, ResetWindow, State, Trigger
from control.observation import Observation
from control.phases.deciding import advance, follow, leave
from control.phases.phase import Answer, Running, remain, rest
from control.strategies.base import Settle, Stay
from control.watch import Due


@dataclass(frozen=True, slots=True)
class Resting(Running):
    """Compares the last decision's prediction with the measurements, and checks if a new decision is due."""

    label: ClassVar[State] = State.STABLE

    def go_on(self, observed: Observation, context: ManagerContext) -> Answer:
        pace = context.strategy.pace(context.settings)
        if pace.every_step:
            return step(observed, context, pace.check_interval_s)
        aim = observed.aim.objective
        context.hindsight.compare(observed.snapshot, observed.seen, None if aim is None else aim.wanted_s)
        if pace.each_turn:
            return _ask(observed, context)
        too_few = unsure(context.choices.stages, observed.snapshot, context.settings.measuring)
        if too_few is not None:
            return remain(observed, too_few)
        held = context.watch.held(observed.now_s)
        return remain(observed, held) if held is not None else _decide(observed, context)


@dataclass(frozen=True, slots=True)
class Profiling(Resting):
    """Resting before the first decision, while the stages are being measured."""

    label: ClassVar[State] = State.PROFILING


def _ask(observed: Observation, context: ManagerContext) -> Answer:
    """Ask a strategy that models the stream itself: it is asked at each turn, whatever the turn shows."""
    due, context.due = context.due, None
    missed = observed.seen.meets is False
    trigger = due.trigger if due else Trigger.VIOLATION if missed else Trigger.INPUT_RATE
    evidence = f"{due.reason}; {observed.seen.reason}" if due else observed.seen.reason
    episode = Episode(trigger, context.evidence(evidence), observed.now_s, context.choices.active)
    proposal = context.strategy.propose(context.situation(observed, trigger), ())
    if isinstance(proposal, Stay) and proposal.unknown:
        context.due = due
        return remain(observed, proposal.reason)
    return follow(observed, context, episode, proposal)


def _decide(observed: Observation, context: ManagerContext) -> Answer:
    due = context.due
    if due is None:
        found = context.watch.due(observed.snapshot, observed.seen)
        if isinstance(found, str):
            return rest(observed, context.log.quiet(found, observed.seen))
        if found.trigger is Trigger.INPUT_RATE:
            context.due = found
            return remain(observed, f"{found.reason}; measuring again", ResetWindow())
        due = found
    if observed.seen.meets is None:
        return remain(observed, observed.seen.reason)
    return _open(observed, context, due)


def _open(observed: Observation, context: ManagerContext, due: Due) -> Answer:
    """Begin a decision, even if the last one found no solution (Vogel et al. 2021, section 3.2, step 6)."""
    context.due = None
    evidence = due.reason if due.trigger is Trigger.VIOLATION else f"{due.reason}; {observed.seen.reason}"
    opened = Episode(due.trigger, context.evidence(evidence), observed.now_s, context.choices.active)
    return advance(observed, context, opened)


_ROUNDING_S = 1e-6


def step(observed: Observation, context: ManagerContext, interval_s: float) -> Answer:
    """Ask the strategy at the end of a control step; the next step begins now, or when a resize ends."""
    since_s = max(observed.snapshot.window_start_s, observed.snapshot.stable_since_s)
    if observed.now_s - since_s < interval_s - _ROUNDING_S:
        return remain(observed, f"the control step lasts {figure(interval_s, 6)} s; {observed.seen.reason}")
    context.due = None
    trigger = Trigger.VIOLATION if observed.seen.meets is False else Trigger.PROFILE
    answer = advance(
        observed,
        context,
        Episode(trigger, context.evidence(observed.seen.reason), observed.now_s, context.choices.active),
    )
    return replace(answer, commands=(*answer.commands, ResetWindow()))


@dataclass(frozen=True, slots=True)
class HandsOff(Running):
    """The phase without decisions: switches once to the pinned composition, if there is one, and stays there."""

    label: ClassVar[State] = State.STABLE

    def go_on(self, observed: Observation, context: ManagerContext) -> Answer:
        active, target = context.choices.active, context.pin
        if observed.aim.mode is not Mode.PINNED:
            return remain(observed, "no SLO set")
        if target is None or _is(target, active, context):
            return remain(observed, context.evidence(f"pinned to {active.name}"))
        episode = Episode(Trigger.MANUAL, context.evidence("requested by hand"), observed.now_s, active)
        return leave(observed, context, episode, Settle(target, (), f"{target.name} was pinned"))


def _is(target: Composition, active: Composition, context: ManagerContext) -> bool:
    """Return True if no change is needed. If only the name differs, a resize is worth it, but a drain is not."""
    in_place = context.transition(active, target) is TransitionKind.RESIZE
    return target.shape == active.shape and (target.name == active.name or not in_place)
