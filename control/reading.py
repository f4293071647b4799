"""Read rate, backlog and stalls from a snapshot."""

from compositions.wording import figure
from profiler.monitor import AT_HAND
from profiler.snapshot import Snapshot
from profiler.windows import input_rate_change

_GROWTH = 0.01
"""Share of the input rate by which a backlog must grow to count: a window of ten seconds tells no less."""


def waiting(snapshot: Snapshot) -> bool:
    """Items wait, admitted or due: the composition has all the work it can take. A small buffer may be full."""
    return snapshot.backlog > AT_HAND or snapshot.input.held_back


def drained_in_s(snapshot: Snapshot) -> float | None:
    """Time until the backlog is gone at the present pace; ``None`` when there is none or it does not shrink.

    The pace shows in the backlog and in what comes out beyond what comes in; either is noisy, so the better one counts.
    """
    change, throughput, rate = snapshot.backlog_change_per_s, snapshot.throughput_per_s, snapshot.input_rate_per_s
    surplus = 0.0 if throughput is None or rate is None else throughput - rate
    pace = max(surplus, 0.0 if change is None else -change)
    return snapshot.backlog / pace if waiting(snapshot) and change is not None and pace > 0 else None


def growing_per_s(snapshot: Snapshot) -> float | None:
    """Return how fast more is due than comes out, items/s, beyond what chance brings; items given up count as if
    they waited. ``None`` when it does not grow, or nobody knows what was asked for."""
    demand, change, rate = snapshot.demand, snapshot.backlog_change_per_s, snapshot.input_rate_per_s
    if demand is None or change is None or not rate:
        return None
    growth = change + (demand.missed_per_s or 0.0)
    return growth if growth > _GROWTH * rate else None


def held_s(snapshot: Snapshot) -> float:
    """Return how long items have waited without a break, as far as anybody knows."""
    return snapshot.demand.held_s if snapshot.demand else 0.0


STALLED_S = 5.0
"""Minimum time without a delivery that counts as a stall, in seconds."""
_UNUSUAL = 3.0
"""A stall is also longer than this multiple of the usual time of all stages (p95), so that a slow item does not
count."""


def stalled_s(snapshot: Snapshot) -> float | None:
    """Return how long nothing came out though items are there, if longer than the stages explain; else None."""
    if snapshot.demand is None:
        return None
    usual_s = sum(stage.p95_s for stage in snapshot.stages)
    still_s = snapshot.demand.stalled_s
    return still_s if still_s > max(STALLED_S, _UNUSUAL * usual_s) else None


def grows(backlog: int, growth_per_s: float) -> str:
    """A backlog that grows, in words."""
    return f"{backlog} items wait and {figure(growth_per_s)} more each second"


def current_rate(snapshot: Snapshot) -> float | None:
    """The input rate as of now, items/s: of the last second where that is set or contrasts with the whole window."""
    windows, mean = snapshot.input_rate_windows, snapshot.input_rate_per_s
    if windows and not windows[-1].counted:
        return windows[-1].rate_per_s
    changed = input_rate_change(mean, windows)
    return mean if changed is None else changed


def needed_rate(snapshot: Snapshot) -> float | None:
    """Return what a composition must be able to take, items/s: a short dip below the window's mean is no relief."""
    known = [rate for rate in (current_rate(snapshot), snapshot.input_rate_per_s) if rate is not None]
    return max(known, default=None)
