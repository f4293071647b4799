"""The restart policy of a runner: when to start it, observe it, wait for it or give it up.

Pure: states and facts in, states out.

Starting ──came up──▶ Up ──run finished──▶ Ended
 ▲ ▲  │                │ ├─ silent: hung or cut off, until its lease is over
 │ │  │                │ └─ a user stops it ──▶ Stopping ──▶ Ended
 └─┼──┤ queued, put off│ (or moved, as its node is to go)
   │  └── died ────────┤  refused, or died too often, and owes nothing ──▶ Failed
   └── died, lease over┘

The facts are: what the runner answered last and when, how it looks from here (``Vital``), for how long a silent one is
left alone (its lease), how often it was started, and whether its run owes something. A silent runner is one of three:
*cut off* (its machine does not answer either), *hung* (its machine answers, it does not), or *dead*. Only a dead one is
replaced at once. One of the others is replaced when its lease is over: the journal's epoch keeps what it may still do
out of a durable run, and it ends itself when it learns that it was replaced.
"""

from dataclasses import dataclass, replace

from service.runner.rpc.vital import Vital

LOOK_S = 0.5
"""Interval between two calls of a runner, in seconds; such a call also detects that the runner is dead."""
BACK_OFF_S = (0.0, 1.0, 2.0, 4.0, 8.0)
"""Pauses before restarts of a runner that died, in seconds; after the last, an app without debts has failed."""
HEALTHY_S = 60.0
"""If a runner lived this long (seconds), or advanced a durable run, the count of attempts starts anew."""
POSTPONED_S = (5.0, 5.0, 10.0, 20.0, 30.0)
"""Pauses before a postponed attempt is repeated, in seconds, as each costs a process; the last one repeats."""
OWING_S = (15.0, 30.0, 60.0)
"""The same pauses for a run that would have failed, but owes data."""
TURN_S = 0.25
"""Interval between two checks of whether it is the app's turn to start, in seconds."""


@dataclass(frozen=True, slots=True)
class Deaths:
    """Counts of the failures so far."""

    in_a_row: int = 0
    """Deaths since a runner was last healthy."""
    restarts: int = 0
    """Restarts since the app was started."""
    reason: str | None = None


# --- states of the runner of a started app ---


@dataclass(frozen=True, slots=True)
class Starting:
    """A runner is to be started, not before ``due_s``."""

    due_s: float
    deaths: Deaths = Deaths()
    blocked: str | None = None
    """Reason why the previous attempt was postponed, if it was."""
    put_off: int = 0
    """Number of attempts in a row that were postponed."""
    ahead: int = 0


@dataclass(frozen=True, slots=True)
class Up:
    since_s: float
    deaths: Deaths = Deaths()
    heard_s: float | None = None
    """Time of the last answer, while the runner is silent; None: it answers."""
    silent: Vital | None = None
    got_on: bool = False
    """True if the runner advanced the run: items were delivered that were not when the previous one died."""


@dataclass(frozen=True, slots=True)
class Stopping:
    """A user stops the runner; until it ends, it can answer requests."""

    deaths: Deaths = Deaths()


@dataclass(frozen=True, slots=True)
class Ended:
    """The run ended by itself, or because a user stopped it."""

    deaths: Deaths = Deaths()


@dataclass(frozen=True, slots=True)
class Failed:
    """The run was given up; ``deaths.reason`` says why."""

    deaths: Deaths = Deaths()


Condition = Starting | Up | Stopping | Ended | Failed


# --- events; ``now_s`` in seconds of any steady clock ---


@dataclass(frozen=True, slots=True)
class Queued:
    """Other apps start first."""

    now_s: float
    ahead: int


@dataclass(frozen=True, slots=True)
class CameUp:
    now_s: float


@dataclass(frozen=True, slots=True)
class Answered:
    """The runner answered a request. ``got_on``: as in ``Up``."""

    got_on: bool = False


@dataclass(frozen=True, slots=True)
class Silent:
    """A call was not answered, or answered with an error of the runner itself."""

    heard_s: float
    """Time when the call began; until then the runner may have been healthy."""
    now_s: float
    reason: str
    vital: Vital
    lease_s: float
    owes: bool = False
    """As in ``Died``; counts only if the runner is given up (``gives_up``)."""


@dataclass(frozen=True, slots=True)
class Died:
    """The runner died, or the attempt to bring one up failed."""

    now_s: float
    reason: str
    owes: bool = False
    """True if the run is durable and its journal has undelivered data."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The spec cannot run, or the run failed by itself; another attempt would probably end in the same way."""

    now_s: float
    reason: str
    owes: bool = False


@dataclass(frozen=True, slots=True)
class Postponed:
    """The runner cannot be started now, for a reason outside it; this does not count as an attempt."""

    now_s: float
    reason: str


@dataclass(frozen=True, slots=True)
class Moved:
    """The runner delivered its items and gave up its place, for ``reason``; the next one continues elsewhere."""

    now_s: float
    reason: str


@dataclass(frozen=True, slots=True)
class StopAsked:
    """A user stops the runner, or the daemon ends."""


@dataclass(frozen=True, slots=True)
class Finished:
    """The run is over or was stopped."""


Event = Queued | CameUp | Answered | Silent | Died | Moved | Refused | Postponed | StopAsked | Finished


def after(condition: Condition, event: Event) -> Condition:
    """Return the condition after the event. An ended or failed run stays so; a stopping one can only end."""
    match condition, event:
        case ((Ended() | Failed()), _):
            return condition
        case _, Finished():
            return Ended(condition.deaths)
        case _, StopAsked():
            return Stopping(condition.deaths)
        case Stopping(), _:
            return condition
        case Starting(), Queued(now_s, ahead):
            return replace(condition, due_s=now_s + TURN_S, ahead=ahead)
        case Starting(deaths=deaths), CameUp(now_s):
            return Up(now_s, deaths)
        case _, Postponed(now_s, reason):
            before = condition.put_off if isinstance(condition, Starting) else 0
            return Starting(now_s + _nth(POSTPONED_S, before), condition.deaths, reason, before + 1)
        case _, Refused(now_s, reason, owes):
            return _owing(condition, now_s, reason) if owes else Failed(replace(condition.deaths, reason=reason))
        case _, Died(now_s, reason, owes):
            return _again(condition, now_s, reason, owes)
        case Up(), Moved(now_s, reason):
            return Starting(now_s, replace(condition.deaths, reason=reason))
        case Up(), Answered(got_on):
            return replace(condition, heard_s=None, silent=None, got_on=condition.got_on or got_on)
        case Up(), Silent():
            return _silent(condition, event)
    return condition


def gives_up(condition: Condition, event: Silent) -> bool:
    """Return whether another runner replaces a silent one: it is dead, or its lease is over."""
    return event.vital is Vital.DEAD or event.now_s - _heard_s(condition, event) >= event.lease_s


def _heard_s(condition: Condition, event: Silent) -> float:
    known = condition.heard_s if isinstance(condition, Up) else None
    return event.heard_s if known is None else known


def _silent(condition: Up, event: Silent) -> Condition:
    if not gives_up(condition, event):
        return replace(condition, heard_s=_heard_s(condition, event), silent=event.vital)
    if event.vital is Vital.DEAD:
        return _again(condition, event.now_s, event.reason, event.owes)
    how = "hung: it has answered no request" if event.vital is Vital.REACHABLE else "cut off: no message came from it"
    reason = f"the runner is {how} for {event.lease_s:g} s (lease_s); {event.reason}"
    return _again(condition, event.now_s, reason, event.owes)


def _again(condition: Condition, now_s: float, reason: str, owes: bool) -> Condition:
    """Return another attempt after a pause, or the end of all attempts."""
    before = _in_a_row(condition, now_s)
    if before < len(BACK_OFF_S):
        return Starting(now_s + BACK_OFF_S[before], Deaths(before + 1, condition.deaths.restarts + 1, reason))
    if owes:
        return _owing(condition, now_s, reason)
    return Failed(replace(condition.deaths, reason=f"the runner died {before + 1} times; last: {reason}"))


def _owing(condition: Condition, now_s: float, reason: str) -> Starting:
    """Return another attempt, however many failed, as acknowledged data are still to be delivered."""
    before = _in_a_row(condition, now_s)
    deaths = Deaths(before + 1, condition.deaths.restarts + 1, reason)
    return Starting(now_s + _nth(OWING_S, before), deaths, reason, before + 1)


def _in_a_row(condition: Condition, now_s: float) -> int:
    """Return the number of deaths before this one since a runner was last healthy."""
    healthy = isinstance(condition, Up) and (condition.got_on or now_s - condition.since_s >= HEALTHY_S)
    return 0 if healthy else condition.deaths.in_a_row


def _nth(waits_s: tuple[float, ...], number: int) -> float:
    """Return the n-th pause; the last one is used for all further attempts."""
    return waits_s[min(number, len(waits_s) - 1)]


def delay_s(condition: Condition, now_s: float) -> float | None:
    """Return the seconds until the next turn; None if there will be none."""
    match condition:
        case Starting(due_s):
            return max(due_s - now_s, 0.0)
        case Up():
            return LOOK_S
    return None


def put_off(condition: Condition) -> str | None:
    """Return why the last attempt was postponed, if it was."""
    return condition.blocked if isinstance(condition, Starting) else None


def waits_for(condition: Condition) -> str | None:
    """Return in words what the start waits for."""
    if not isinstance(condition, Starting) or condition.blocked is not None or not condition.ahead:
        return put_off(condition)
    return f"{condition.ahead} {'app starts' if condition.ahead == 1 else 'apps start'} first"


def fails_to_start(condition: Condition) -> bool:
    """Return whether the previous attempts failed, for any reason."""
    return isinstance(condition, Starting) and (condition.put_off > 0 or condition.deaths.in_a_row > 1)
