"""Every transition between the manager's phases: profiling → (switching → trial)* → switching → stable, after Vogel
et al., section 3.2."""

from dataclasses import replace

from control.phases.phase import Drop, Fail, Leave, Move, Phase, Remain, TryOut
from control.phases.resting import HandsOff, Profiling, Resting
from control.phases.switching import Switching, Trying


def first(*, hands_off: bool) -> Phase:
    """The phase of an app that has just started."""
    return HandsOff() if hands_off else Profiling()


def dropped(phase: Phase, *, hands_off: bool) -> Phase:
    """What was under way is for a question that nobody asks any more."""
    return after(phase, Drop(), hands_off=hands_off)


def failed(phase: Phase, reason: str, *, called_off: bool = False, hands_off: bool) -> Phase:
    """The switch under way ended with an error."""
    return after(phase, Fail(reason, called_off), hands_off=hands_off)


def after(phase: Phase, move: Move, *, hands_off: bool) -> Phase:
    """The phase that follows ``phase`` on ``move``; ``hands_off``: pinned, or nothing to aim at."""
    match move, phase:
        case Remain(), _:
            return phase
        case Leave(step, at_s, episode, kind), _:
            return Switching(step, at_s, episode, kind=kind)
        case TryOut(step, episode), _:
            return Trying(step, episode)
        case Fail(reason, called_off), Switching():  # a switch that nobody waits for any more may fail as it likes
            return replace(phase, failure=reason, called_off=called_off)
        case Fail(), _:
            return phase
        case Drop(), Switching():  # it is let end first: two at once would be one too many
            return replace(phase, episode=None)
        case Drop(), Profiling() if not hands_off:
            return phase
        case _:  # Rest, or Drop of what had not left anywhere
            return HandsOff() if hands_off else Resting()
