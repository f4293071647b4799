"""What holds a stream up, in words."""

from __future__ import annotations

from profiler.snapshot import Demand
from runtime.dispatch.views import DispatcherView

LATE_S = 1.0
"""An item that has been due for longer than this waits for more than its turn."""


def held_up(view: DispatcherView, demand: Demand | None, blocked: str | None = None) -> str | None:
    """A sentence while workers are too few for the groups, the source waits for room, or nothing can be read or stored
    (``blocked``); None while all is well."""
    return "; ".join(reason for reason in (blocked, _short(view), _late(demand)) if reason) or None


def _short(view: DispatcherView) -> str | None:
    if not view.short_of_workers:
        return None
    workers, groups = len(view.workers), len(view.composition.groups)
    if view.composition.dyn is not None and workers >= view.composition.workers:
        return None  # they go from group to group because they are to
    return f"{workers} {'worker' if workers == 1 else 'workers'} for {groups} groups, shared in turn"


def _late(demand: Demand | None) -> str | None:
    if demand is None or demand.lag_s <= LATE_S:
        return None
    return f"the source is held back: the next item has been due for {demand.lag_s:.1f} s"
