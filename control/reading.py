"""What a snapshot says of rate and backlog."""

from __future__ import annotations

from profiler.snapshot import Snapshot
from profiler.windows import input_rate_change

_WAITING = 2
"""Items that may wait for admission without being a backlog: what a paced source has at hand between two tasks."""


def waiting(snapshot: Snapshot) -> bool:
    """Items wait for admission: the composition has all the work it can take."""
    return snapshot.queued > _WAITING


def drained_in_s(snapshot: Snapshot) -> float | None:
    """Time until the backlog is gone at the present pace; ``None`` when there is none or it does not shrink.

    The pace shows in the queue and in what comes out beyond what comes in; either is noisy, so the better one counts.
    """
    change, throughput, rate = snapshot.queued_change_per_s, snapshot.throughput_per_s, snapshot.input_rate_per_s
    surplus = 0.0 if throughput is None or rate is None else throughput - rate
    pace = max(surplus, 0.0 if change is None else -change)
    return snapshot.queued / pace if waiting(snapshot) and change is not None and pace > 0 else None


def current_rate(snapshot: Snapshot) -> float | None:
    """The input rate as of now, items/s: of the last second where that is set or contrasts with the whole window."""
    windows, mean = snapshot.input_rate_windows, snapshot.input_rate_per_s
    if windows and not windows[-1].counted:
        return windows[-1].rate_per_s
    changed = input_rate_change(mean, windows)
    return mean if changed is None else changed


def needed_rate(snapshot: Snapshot) -> float | None:
    """What a composition must be able to take, items/s: a short dip below the window's mean is no relief."""
    known = [rate for rate in (current_rate(snapshot), snapshot.input_rate_per_s) if rate is not None]
    return max(known, default=None)
