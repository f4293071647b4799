"""Every transition between the manager's phases: profiling → (switching → trial)* → switching → stable, after Vogel
et al., section 3.2."""

from dataclasses import replace

from control.phases.phase import Drop, Fail, Leave, Move, Phase, Remain, TryOut
from control.phases.resting import HandsOff, Profiling, Resting
from control.phases.switching import Switching, Trying


def first(*, hands_off: bool) -> Phase:
    """Return the phase of an app that has just started."""
    return HandsOff() if hands_off else Profiling()


def dropped(phase: Phase, *, hands_off: bool) -> Phase:
    """Return the phase after the decision in progress was dropped for a newer request."""
    return after(phase, Drop(), hands_off=hands_off)


def failed(phase: Phase, reason: str, *, called_off: bool = False, hands_off: bool) -> Phase:
    """Return the phase after the switch in progress ended with an error."""
    return after(phase, Fail(reason, called_off), hands_off=hands_off)


def after(phase: Phase, move: Move, *, hands_off: bool) -> Phase:
    """Return the phase that follows ``phase`` on ``move``; ``hands_off``: pinned, or without an objective."""
    match move, phase:
        case Remain(), _:
            return phase
        case Leave(step, at_s, episode, kind), _:
            return Switching(step, at_s, episode, kind=kind)
        case TryOut(step, episode), _:
            return Trying(step, episode)
        case Fail(reason, called_off), Switching():
            return replace(phase, failure=reason, called_off=called_off)
        case Fail(), _:  # no phase waits for this switch any more
            return phase
        case Drop(), Switching():  # the switch must end first: only one may be in progress
            return replace(phase, episode=None)
        case Drop(), Profiling() if not hands_off:
            return phase
        case _:  # Rest, or Drop in a phase without a switch in progress
            return HandsOff() if hands_off else Resting()
