"""Replay a log: the same events on the same state give the same instructions, outcomes and errors."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from runtime.dispatch.dispatcher import Dispatcher
from runtime.dispatch.event_log import Blob, read
from runtime.dispatch.instructions import Instruction
from runtime.dispatch.outcomes import Outcome


@dataclass(frozen=True, slots=True)
class Replayed:
    """All that the dispatcher said, and the dispatcher as it was after the last event."""

    dispatcher: Dispatcher
    instructions: list[Instruction]
    outcomes: list[Outcome]


def replay(lines: Iterable[str], *, validate: bool = True) -> Replayed:
    """Feeds the events of a log to a dispatcher in the state that the log opens with.

    Raises: DispatcherError where the recorded dispatcher failed, and with ``validate`` at the first event after which
    something does not hold; ValueError for what is not such a log.
    """
    recording = read(lines)
    replayed = Replayed(Dispatcher.resumed(recording.state, recording.settings, _size, validate=validate), [], [])
    for event in recording.events:
        instructions, outcomes = replayed.dispatcher.handle(event)
        replayed.instructions.extend(instructions)
        replayed.outcomes.extend(outcomes)
    return replayed


def _size(payload: object) -> int:
    return payload.size_bytes if isinstance(payload, Blob) else 0
