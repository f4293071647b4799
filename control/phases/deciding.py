"""A decision step by step: ask the strategy, carry out what it proposes, close when it settles."""

from __future__ import annotations

from dataclasses import replace

from compositions.model import Composition, TransitionKind
from control.decisions import Decision, Mode, NoChange, SwitchTo, Trigger
from control.desk import Desk
from control.episode import Episode
from control.phases.phase import Answer, Leave, Remain, Rest, TryOut, rest
from control.sight import Sight
from control.strategies.base import Settle, Stay, Try


def advance(sight: Sight, desk: Desk, episode: Episode) -> Answer:
    """Ask the strategy for the next step of ``episode`` and carry it out."""
    situation = desk.situation(sight, episode.trigger, episode.floor_workers)
    proposal = desk.strategy.propose(situation, episode.trials)
    if isinstance(proposal, Stay):
        if not situation.moving:
            desk.watch.rebase(sight.snapshot)
        if episode.trigger is Trigger.BUDGET:  # whoever sees what the app was given wants to know what came of it
            return Answer(_kept(sight, desk, episode, proposal.reason), Rest())
        return rest(sight, proposal.reason)
    if sight.aim.mode is Mode.OBSERVE:
        return _advise(sight, desk, episode, proposal)
    if proposal.composition.shape != desk.choices.active.shape:
        return leave(sight, desk, episode, proposal)
    if isinstance(proposal, Settle):
        return close(sight, desk, episode, proposal)
    begun = NoChange(sight.now_s, f"trying {proposal.composition.name}, which is active")
    return Answer(begun, TryOut(proposal, episode))


def tell_grant(sight: Sight, desk: Desk, reason: str) -> Answer:
    """The arbiter gives another share, for ``reason``, and what runs is within it and enough."""
    active = desk.choices.active
    episode = Episode(Trigger.BUDGET, reason, sight.now_s, active)
    return Answer(_kept(sight, desk, episode, f"{active.name} stays: it is enough"), Remain())


def _kept(sight: Sight, desk: Desk, episode: Episode, reason: str) -> Decision:
    step = Settle(desk.choices.active, (), desk.evidence(reason))
    return desk.conclusions.numbered(episode, sight.now_s, step)


def leave(sight: Sight, desk: Desk, episode: Episode, step: Try | Settle) -> Answer:
    """Ask the runner for the composition of ``step``."""
    kind = desk.transition(desk.choices.active, step.composition)
    desk.lookout.delays.left(sight.now_s, cold=step.composition.workers > sight.snapshot.workers_alive)
    asked = NoChange(sight.now_s, under_way(kind, step.composition))
    return Answer(asked, Leave(step, sight.now_s, episode, kind), (SwitchTo(step.composition),))


def under_way(kind: TransitionKind, target: Composition) -> str:
    """What is being done, in words."""
    return f"{'resizing' if kind is TransitionKind.RESIZE else 'switching'} to {target.name}"


def close(sight: Sight, desk: Desk, episode: Episode, step: Settle) -> Answer:
    """The composition of ``step`` is active: that is the decision, unless it was told already."""
    if desk.conclusions.repeats(episode, step):
        desk.watch.rebase(sight.snapshot)
        return rest(sight, desk.conclusions.again(step))
    decision = _with_transition(desk, episode, step, desk.conclusions.conclude(episode, sight.now_s, step))
    desk.hindsight.expect(decision)
    desk.watch.rebase(sight.snapshot)
    return Answer(decision, Rest())


def _advise(sight: Sight, desk: Desk, episode: Episode, step: Try | Settle) -> Answer:
    """Say what would be done."""
    desk.watch.rebase(sight.snapshot)
    advice = desk.conclusions.advise(episode, sight.now_s, step)
    if isinstance(advice, str):
        return rest(sight, advice)
    return Answer(_with_transition(desk, episode, step, advice), Rest())


def _with_transition(desk: Desk, episode: Episode, step: Try | Settle, decision: Decision) -> Decision:
    origin, target = episode.origin, step.composition
    if origin.shape == target.shape:
        return decision
    return replace(decision, transition=desk.transition(origin, target))
