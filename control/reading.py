"""Read rate, backlog and stalls from a snapshot."""

from compositions.wording import figure
from profiler.monitor import AT_HAND
from profiler.snapshot import Snapshot
from profiler.windows import input_rate_change

_GROWTH = 0.01
"""Smallest growth of a backlog that counts, as a share of the input rate: ten seconds cannot show smaller growth."""


def waiting(snapshot: Snapshot) -> bool:
    """Return True if items wait, so the composition has all the work it can take: a backlog, or a blocked source."""
    return snapshot.backlog > AT_HAND or snapshot.input.held_back


def drained_in_s(snapshot: Snapshot) -> float | None:
    """Return the time until the backlog is gone at the present rate; ``None`` if there is none or it does not shrink.

    The rate is measured as the backlog's change and as throughput minus input; both are noisy, so the larger counts.
    """
    change, throughput, rate = snapshot.backlog_change_per_s, snapshot.throughput_per_s, snapshot.input_rate_per_s
    surplus = 0.0 if throughput is None or rate is None else throughput - rate
    pace = max(surplus, 0.0 if change is None else -change)
    return snapshot.backlog / pace if waiting(snapshot) and change is not None and pace > 0 else None


def growing_per_s(snapshot: Snapshot) -> float | None:
    """Return the growth of the backlog in items/s, dropped items included. ``None`` if it does not grow beyond noise,
    or if the demand is unknown."""
    demand, change, rate = snapshot.demand, snapshot.backlog_change_per_s, snapshot.input_rate_per_s
    if demand is None or change is None or not rate:
        return None
    growth = change + (demand.missed_per_s or 0.0)
    return growth if growth > _GROWTH * rate else None


def held_s(snapshot: Snapshot) -> float:
    """Return the time for which items have waited without a break, in seconds; 0 if unknown."""
    return snapshot.demand.held_s if snapshot.demand else 0.0


STALLED_S = 5.0
"""Minimum time without a delivery that counts as a stall, in seconds."""
_UNUSUAL = 3.0
"""Minimum stall as a multiple of the sum of the stages' p95 times, so that one slow item is no stall."""


def stalled_s(snapshot: Snapshot) -> float | None:
    """Return the time without a delivery although there are items, if longer than stage times explain; else None."""
    if snapshot.demand is None:
        return None
    usual_s = sum(stage.p95_s for stage in snapshot.stages)
    still_s = snapshot.demand.stalled_s
    return still_s if still_s > max(STALLED_S, _UNUSUAL * usual_s) else None


def grows(backlog: int, growth_per_s: float) -> str:
    """Return a text about a growing backlog."""
    return f"{backlog} items wait and {figure(growth_per_s)} more each second"


def current_rate(snapshot: Snapshot) -> float | None:
    """Return the present input rate in items/s: the newest window's if that is a set rate or far from the mean."""
    windows, mean = snapshot.input_rate_windows, snapshot.input_rate_per_s
    if windows and not windows[-1].counted:
        return windows[-1].rate_per_s
    changed = input_rate_change(mean, windows)
    return mean if changed is None else changed


def needed_rate(snapshot: Snapshot) -> float | None:
    """Return the rate that a composition must process, in items/s: a short dip below the mean does not lower it."""
    known = [rate for rate in (current_rate(snapshot), snapshot.input_rate_per_s) if rate is not None]
    return max(known, default=None)
