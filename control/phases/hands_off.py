"""Nobody to decide for: pinned, or without an objective. Only a request by hand moves anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from compositions.model import Composition, TransitionKind
from control.decisions import Mode, State, Trigger
from control.desk import Desk
from control.episode import Episode
from control.phases.deciding import leave
from control.phases.phase import Answer, Running, remain
from control.sight import Sight
from control.strategies.base import Settle


@dataclass(frozen=True, slots=True)
class HandsOff(Running):
    """Goes where it was told to go, once, and stays."""

    label: ClassVar[State] = State.STABLE

    def go_on(self, sight: Sight, desk: Desk) -> Answer:
        active, target = desk.choices.active, desk.pin
        if sight.aim.mode is not Mode.PINNED:
            return remain(sight, "no SLO set")
        if target is None or _is(target, active, desk):
            return remain(sight, desk.evidence(f"pinned to {active.name}"))
        episode = Episode(Trigger.MANUAL, desk.evidence("requested by hand"), sight.now_s, active)
        return leave(sight, desk, episode, Settle(target, (), f"{target.name} was pinned"))


def _is(target: Composition, active: Composition, desk: Desk) -> bool:
    """Another name for the same is worth a resize, which moves nothing, and no drain."""
    in_place = desk.transition(active, target) is TransitionKind.RESIZE
    return target.shape == active.shape and (target.name == active.name or not in_place)
