"""Control steps of a strategy that regulates: each is measured by itself, and asked about, whatever it shows."""

from __future__ import annotations

from dataclasses import replace

from compositions.wording import figure
from control.decisions import ResetWindow, Trigger
from control.desk import Desk
from control.episode import Episode
from control.phases.deciding import advance
from control.phases.phase import Answer, remain
from control.sight import Sight

_ROUNDING_S = 1e-6


def step(sight: Sight, desk: Desk, interval_s: float) -> Answer:
    """Asks when the step is over; the next one is measured from here, or from where a resize ends."""
    since_s = max(sight.snapshot.window_start_s, sight.snapshot.stable_since_s)
    if sight.now_s - since_s < interval_s - _ROUNDING_S:
        return remain(sight, f"the control step lasts {figure(interval_s, 6)} s; {sight.seen.reason}")
    desk.due = None
    trigger = Trigger.VIOLATION if sight.seen.meets is False else Trigger.PROFILE
    answer = advance(sight, desk, Episode(trigger, desk.evidence(sight.seen.reason), sight.now_s, desk.choices.active))
    return replace(answer, commands=(*answer.commands, ResetWindow()))
