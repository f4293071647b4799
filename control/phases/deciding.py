"""The steps of a decision: ask the strategy, carry out its proposal, and close it when the strategy settles."""

from dataclasses import replace

from compositions.model import Composition, TransitionKind
from control.context import ManagerContext
from control.decision_log import Episode
from control.decisions import Decision, Mode, NoChange, SwitchTo, Trigger
from control.observation import Observation
from control.phases.phase import Answer, Leave, Rest, TryOut, rest
from control.strategies.base import Proposal, Settle, Stay, Try


def advance(observed: Observation, context: ManagerContext, episode: Episode) -> Answer:
    """Ask the strategy for the next step of ``episode``, the decision in progress, and carry it out."""
    situation = context.situation(observed, episode.trigger)
    return follow(observed, context, episode, context.strategy.propose(situation, episode.trials))


def follow(observed: Observation, context: ManagerContext, episode: Episode, proposal: Proposal) -> Answer:
    """Carry out the strategy's proposal."""
    if isinstance(proposal, Stay):
        context.watch.rebase(observed.snapshot)
        step = Settle(context.choices.active, (), proposal.reason, infeasible=True)
        known = context.log.infeasible is not None or context.log.repeats(episode, step)
        if context.strategy.pace(context.settings).each_turn:
            context.log.infeasible = proposal.reason if proposal.infeasible else None
        if proposal.infeasible and not known and observed.aim.mode is not Mode.OBSERVE:
            return Answer(context.log.conclude(episode, observed.now_s, step), Rest())
        if episode.trigger is Trigger.BUDGET:  # a user who sees a new budget wants to see its effect
            return Answer(_kept(observed, context, episode, proposal.reason), Rest())
        return rest(observed, proposal.reason)
    if observed.aim.mode is Mode.OBSERVE:
        return _advise(observed, context, episode, proposal)
    if proposal.composition.shape != context.choices.active.shape:
        return leave(observed, context, episode, proposal)
    if isinstance(proposal, Settle):
        return close(observed, context, episode, proposal)
    begun = NoChange(observed.now_s, f"trying {proposal.composition.name}, which is active")
    return Answer(begun, TryOut(proposal, episode))


def _kept(observed: Observation, context: ManagerContext, episode: Episode, reason: str) -> Decision:
    step = Settle(context.choices.active, (), context.evidence(reason))
    return context.log.numbered(episode, observed.now_s, step)


def leave(observed: Observation, context: ManagerContext, episode: Episode, step: Try | Settle) -> Answer:
    """Ask the runner to change to the composition of ``step``."""
    kind = context.transition(context.choices.active, step.composition)
    asked = NoChange(observed.now_s, under_way(kind, step.composition))
    return Answer(asked, Leave(step, observed.now_s, episode, kind), (SwitchTo(step.composition),))


def under_way(kind: TransitionKind, target: Composition) -> str:
    """Return a text that says which change is in progress."""
    return f"{'resizing' if kind is TransitionKind.RESIZE else 'switching'} to {target.name}"


def close(observed: Observation, context: ManagerContext, episode: Episode, step: Settle) -> Answer:
    """Record the decision for the composition of ``step``, which is active, unless the log has it already."""
    if context.log.repeats(episode, step):
        context.watch.rebase(observed.snapshot)
        return rest(observed, context.log.again(step))
    decision = _with_transition(context, episode, step, context.log.conclude(episode, observed.now_s, step))
    context.watch.rebase(observed.snapshot)
    return Answer(context.hindsight.expect(decision), Rest())


def _advise(observed: Observation, context: ManagerContext, episode: Episode, step: Try | Settle) -> Answer:
    """Log the change that would be made: in mode ``observe`` nothing is changed."""
    context.watch.rebase(observed.snapshot)
    advice = context.log.advise(episode, observed.now_s, step)
    if isinstance(advice, str):
        return rest(observed, advice)
    return Answer(_with_transition(context, episode, step, advice), Rest())


def _with_transition(context: ManagerContext, episode: Episode, step: Try | Settle, decision: Decision) -> Decision:
    origin, target = episode.origin, step.composition
    if origin.shape == target.shape:
        return decision
    return replace(decision, transition=context.transition(origin, target))
