"""When a runner is brought up, looked at, given another chance or given up. Pure: states and events in, states out.

Starting ──came up──▶ Up ──run finished──▶ Ended
 ▲ ▲  │                │
 └─┼──┤ put off        │
   │  └── died ────────┤  refused, or died too often ──▶ Failed
   └──── died, silent ─┘
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import ClassVar

LOOK_S = 0.5
"""Between two looks at a runner; the same call notices that it is dead."""
BACK_OFF_S = (0.0, 1.0, 2.0, 4.0, 8.0)
"""Waits before the restarts of a runner that died; after the last the app counts as failed."""
HEALTHY_S = 60.0
"""After a runner that lived this long, or got on with a durable run, the next one has fresh attempts."""
POSTPONED_S = 5.0
"""Before an attempt that was put off is made again: it costs a process, and nobody says when there is room."""
SILENT_LIMIT = 3
"""Calls in a row without an answer until a runner that seems alive counts as hung."""


@dataclass(frozen=True, slots=True)
class Deaths:
    """What went wrong so far."""

    in_a_row: int = 0
    """Since a runner was last healthy."""
    restarts: int = 0
    """Since the app was started."""
    reason: str | None = None
    """Of the last one, or of the failure."""


# --- states of the runner of a started app ---


@dataclass(frozen=True, slots=True)
class Starting:
    """To be brought up, not before ``due_s``."""

    word: ClassVar[str] = "starting"
    due_s: float
    deaths: Deaths = Deaths()
    held_up: str | None = None
    """Why the attempt before was put off."""


@dataclass(frozen=True, slots=True)
class Up:
    word: ClassVar[str] = "up"
    since_s: float
    deaths: Deaths = Deaths()
    silent: int = 0
    """Calls in a row that were not answered."""
    got_on: bool = False
    """With the run of the one before: items are out that were not when that one died."""


@dataclass(frozen=True, slots=True)
class Ended:
    """By itself, or because it was told to."""

    word: ClassVar[str] = "ended"
    deaths: Deaths = Deaths()


@dataclass(frozen=True, slots=True)
class Failed:
    """Given up; ``deaths.reason`` says why."""

    word: ClassVar[str] = "failed"
    deaths: Deaths = Deaths()


Condition = Starting | Up | Ended | Failed


# --- what happens to it; ``now_s`` in seconds of any steady clock ---


@dataclass(frozen=True, slots=True)
class CameUp:
    now_s: float


@dataclass(frozen=True, slots=True)
class Answered:
    """What it was asked. ``got_on``: as in ``Up``."""

    got_on: bool = False


@dataclass(frozen=True, slots=True)
class Silent:
    """A call was not answered, or with an error of the runner's own."""

    now_s: float
    reason: str
    alive: bool


@dataclass(frozen=True, slots=True)
class Died:
    now_s: float
    reason: str


@dataclass(frozen=True, slots=True)
class Refused:
    """Its spec cannot run; another attempt would end the same way."""

    reason: str


@dataclass(frozen=True, slots=True)
class Postponed:
    """It cannot be brought up now, and not for a fault of its own; that costs none of its attempts."""

    now_s: float
    reason: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The run is over, or was stopped."""


Event = CameUp | Answered | Silent | Died | Refused | Postponed | Finished


def after(condition: Condition, event: Event) -> Condition:
    """The condition that follows. What ended or failed stays so."""
    match condition, event:
        case ((Ended() | Failed()), _):
            return condition
        case _, Finished():
            return Ended(condition.deaths)
        case _, Refused(reason):
            return Failed(replace(condition.deaths, reason=reason))
        case _, Postponed(now_s, reason):
            return Starting(now_s + POSTPONED_S, condition.deaths, reason)
        case _, Died(now_s, reason):
            return _again(condition, now_s, reason)
        case Starting(deaths=deaths), CameUp(now_s):
            return Up(now_s, deaths)
        case Up(), Answered(got_on):
            return replace(condition, silent=0, got_on=condition.got_on or got_on)
        case Up(silent=silent), Silent(now_s, reason, alive):
            hung = silent + 1 >= SILENT_LIMIT
            return replace(condition, silent=silent + 1) if alive and not hung else _again(condition, now_s, reason)
    return condition


def _again(condition: Condition, now_s: float, reason: str) -> Condition:
    """Another attempt after a back-off, or the end of all attempts."""
    healthy = isinstance(condition, Up) and (condition.got_on or now_s - condition.since_s >= HEALTHY_S)
    before = 0 if healthy else condition.deaths.in_a_row
    if before >= len(BACK_OFF_S):
        return Failed(replace(condition.deaths, reason=f"the runner died {before + 1} times; last: {reason}"))
    return Starting(now_s + BACK_OFF_S[before], Deaths(before + 1, condition.deaths.restarts + 1, reason))


class Upkeep(Enum):
    """What there is to do."""

    WAIT = "wait"
    BRING_UP = "bring up"
    LOOK = "look"
    NONE = "none"


def upkeep(condition: Condition, now_s: float) -> Upkeep:
    match condition:
        case Starting(due_s):
            return Upkeep.BRING_UP if now_s >= due_s else Upkeep.WAIT
        case Up():
            return Upkeep.LOOK
    return Upkeep.NONE


def delay_s(condition: Condition, now_s: float) -> float | None:
    """Seconds until the next turn; None when there will be none."""
    match condition:
        case Starting(due_s):
            return max(due_s - now_s, 0.0)
        case Up():
            return LOOK_S
    return None


def put_off(condition: Condition) -> str | None:
    """Why the last attempt was, if it was."""
    return condition.held_up if isinstance(condition, Starting) else None
