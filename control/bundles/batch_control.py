"""Apply a batch controller to a running app (docs/decisions/0023-controllers.md).

The controller observes delivered bundles. Whenever a bundle is admitted, it chooses the size of the next bundle that
the source closes.
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

from compositions.batch_settings import BatchSettings, LatencyAim, Sizes
from compositions.batching import Batching, SizeControl
from compositions.settings import plain, ranges
from control.bundles import make_batch_controller
from control.bundles.bundle_size import MOST_ITEMS
from control.bundles.port import BundleOpening, Choice, DeliveredBundle
from runtime.dispatch import outcomes

OWN_SHARE = 0.75
"""Share of the latency objective that a bundle may take if the user names no controller: the rest is for the spread and
for the bundle ahead. A named controller gets the objective itself, as its paper says."""
OURS = SizeControl("slo-batch", BatchSettings(sizes=Sizes(most=MOST_ITEMS)))
"""Controller that is used if the user names none, there is a latency objective, and larger bundles pay."""
FOLLOW_EVERY_S = 0.002
"""Shortest time between two bundles that are measured. At 50 µs each that is 2.5 % of a core; to measure ten thousand a
second would take half a core."""


def control_for(asked: Batching, target_s: float | None, *, pays: bool) -> SizeControl | None:
    """Return the controller of the bundle size with its target; None if no controller is needed.

    ``target_s``: latency objective of an item; None: there is none. ``pays``: a hop costs much beside the work.
    """
    if asked.items is not None or target_s is None:
        return None
    if asked.control is not None:
        return _aimed(asked.control, target_s)
    return _aimed(OURS, OWN_SHARE * target_s) if pays else None


def _aimed(control: SizeControl, target_s: float) -> SizeControl:
    low, high = ranges(LatencyAim())["target_ms"]
    settings = control.settings
    aim = replace(settings.aim, target_ms=min(max(target_s * 1e3, low), high))
    return replace(control, settings=replace(settings, aim=aim))


class Circumstances(NamedTuple):
    """The circumstances in which a bundle is admitted."""

    now_s: float
    rate_per_s: float | None
    """Input rate in items/s; None: the source always has items, or bundles do not wait to be filled."""
    waiting: int
    """Items that have arrived and are not admitted yet."""


@dataclass(slots=True)
class _Followed:
    items: int
    work_s: float = 0.0


class Steering:
    """Controls the bundle size in one run, from ``first``, clipped to the bounds, to ``choice``. Pure."""

    def __init__(self, control: SizeControl, first: int) -> None:
        self.control = control
        sizes = control.settings.sizes
        begun = replace(control.settings, sizes=replace(sizes, first=int(sizes.held(first))))
        self._controller = make_batch_controller(control.name, begun)
        self.choice = self._controller.next(BundleOpening(0))
        self._followed: dict[int, _Followed] = {}
        """Measured bundles in flight, by the serial number of their first item."""
        self._origin: int | None = None
        """Serial number of the first measured item, from which the controller counts."""
        self._next_s = -math.inf
        self.hop_s = 0.0
        """Measured time of a hop in seconds, paid once by every task of a bundle; the caller sets it."""

    @property
    def settings(self) -> dict[str, int | float]:
        """The settings in force and the target, by their plain names."""
        return plain(self.control.settings)

    def due(self, now_s: float) -> bool:
        """Return True if a bundle that is admitted now should be measured."""
        return now_s >= self._next_s

    def admitted(self, first: int, items: int, seen: Circumstances) -> Choice:
        """Record that a bundle was admitted; return the size of the next one."""
        self._next_s = seen.now_s + FOLLOW_EVERY_S
        if self._origin is None:
            self._origin = first
        self._followed[first] = _Followed(items)
        self.choice = self._controller.next(BundleOpening(first - self._origin, seen.rate_per_s, seen.waiting))
        return self.choice

    def timed(self, task: outcomes.TaskTimed) -> None:
        """Add the stage times of a returned task and one hop to the work on its bundle. The hop is the mean hop: only
        some tasks wait behind another one in their worker, and the cost of a bundle must not depend on that."""
        followed = self._followed.get(task.serial)
        if followed is not None:
            followed.work_s += sum(timing.wall_s for timing in task.timings) + self.hop_s

    def delivered(self, out: outcomes.Delivered) -> None:
        """Pass a delivered bundle to the controller; bundles that were split or failed are not measured."""
        if not self._followed:
            return
        followed = self._followed.pop(out.serial, None)
        while self._followed and (oldest := next(iter(self._followed))) < out.serial:
            del self._followed[oldest]  # bundles leave in order, so this one was split, shed or lost
        if followed is None or self._origin is None or out.error is not None or followed.items != out.count:
            return
        came_s, last_s = out.arrived_s[0], out.arrived_s[-1]
        first = out.serial - self._origin
        told = DeliveredBundle(first, out.count, out.at_s - came_s, last_s - came_s, followed.work_s)
        self._controller.delivered(told)
