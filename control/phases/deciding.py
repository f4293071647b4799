"""A decision step by step: ask the strategy, carry out what it proposes, close when it settles."""

from __future__ import annotations

from control.decisions import Decision, Mode, NoChange, SwitchTo
from control.desk import Desk
from control.episode import Episode
from control.phases.phase import Answer, Leave, Rest, TryOut, rest
from control.strategies.base import Settle, Stay, Try
from control.turn import Turn


def advance(turn: Turn, desk: Desk, episode: Episode) -> Answer:
    """Ask the strategy for the next step of ``episode`` and carry it out."""
    proposal = desk.strategy.propose(desk.situation(turn, episode.trigger, episode.floor_workers), episode.trials)
    if isinstance(proposal, Stay):
        desk.watch.rebase(turn.snapshot)
        return rest(turn, proposal.reason)
    if turn.aim.mode is Mode.OBSERVE:
        return _advise(turn, desk, episode, proposal)
    if proposal.composition.shape != desk.choices.active.shape:
        return leave(turn, episode, proposal)
    if isinstance(proposal, Settle):
        return close(turn, desk, episode, proposal)
    begun = NoChange(turn.now_s, f"trying {proposal.composition.name}, which is active")
    return Answer(begun, TryOut(proposal, episode))


def leave(turn: Turn, episode: Episode, step: Try | Settle) -> Answer:
    """Ask the runner for a switch to the composition of ``step``."""
    asked = NoChange(turn.now_s, f"switching to {step.composition.name}")
    return Answer(asked, Leave(step, turn.now_s, episode), (SwitchTo(step.composition),))


def close(turn: Turn, desk: Desk, episode: Episode, step: Settle) -> Answer:
    """The composition of ``step`` is active: that is the decision, unless it was told already."""
    if desk.conclusions.repeats(episode, step):
        desk.watch.rebase(turn.snapshot)
        return rest(turn, desk.conclusions.again(step))
    decision = desk.conclusions.conclude(episode, turn.now_s, step)
    desk.hindsight.expect(decision)
    desk.watch.rebase(turn.snapshot)
    return Answer(decision, Rest())


def _advise(turn: Turn, desk: Desk, episode: Episode, step: Try | Settle) -> Answer:
    """Say what would be done."""
    desk.watch.rebase(turn.snapshot)
    advice = desk.conclusions.advise(episode, turn.now_s, step)
    return Answer(advice, Rest()) if isinstance(advice, Decision) else rest(turn, advice)
