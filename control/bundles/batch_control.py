"""A batch controller at work on a running app (docs/decisions/0023-controllers.md).

It observes bundles as they leave and is asked when others are admitted: its answer holds from the next bundle on that
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
"""Share of the latency objective that a bundle may take if no controller was named: the rest is for the spread, and for
the bundle ahead. A named controller gets the objective itself, as its paper says."""
OURS = SizeControl("slo-batch", BatchSettings(sizes=Sizes(most=MOST_ITEMS)))
"""Controller that is used if none was named, an item is held to a latency, and bundles pay."""
FOLLOW_EVERY_S = 0.002
"""Shortest time between two bundles that are followed. At 50 µs each that is 2.5 % of a core; to follow ten thousand a
second would take half of one."""


def control_for(asked: Batching, target_s: float | None, *, pays: bool) -> SizeControl | None:
    """The controller that is to choose the size, with what it aims at; None: none is.

    ``target_s``: what each item is held to, None where it is not. ``pays``: hops show beside the work.
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
    """Input rate; None: items are always there, or bundles do not wait to be filled."""
    waiting: int
    """Items that have come and are not admitted."""


@dataclass(slots=True)
class _Followed:
    items: int
    work_s: float = 0.0


class Steering:
    """The control of bundle sizes in one run, from ``first``, held within the bounds, to ``choice``. Pure."""

    def __init__(self, control: SizeControl, first: int) -> None:
        self.control = control
        sizes = control.settings.sizes
        begun = replace(control.settings, sizes=replace(sizes, first=int(sizes.held(first))))
        self._controller = make_batch_controller(control.name, begun)
        self.choice = self._controller.next(BundleOpening(0))
        self._followed: dict[int, _Followed] = {}
        """Bundles on their way, by the serial number of their first item."""
        self._origin: int | None = None
        """Serial number of the first item that is seen: the controller counts from there."""
        self._next_s = -math.inf
        self.hop_s = 0.0
        """Measured price of a hop, of which every task of a bundle pays one; whoever measures it says so."""

    @property
    def settings(self) -> dict[str, int | float]:
        """Those in force, with what is aimed at, by their plain names."""
        return plain(self.control.settings)

    def due(self, now_s: float) -> bool:
        """Return whether a bundle that is admitted now is one to follow."""
        return now_s >= self._next_s

    def admitted(self, first: int, items: int, seen: Circumstances) -> Choice:
        """A bundle went on its way; the size from the next one on."""
        self._next_s = seen.now_s + FOLLOW_EVERY_S
        if self._origin is None:
            self._origin = first
        self._followed[first] = _Followed(items)
        self.choice = self._controller.next(BundleOpening(first - self._origin, seen.rate_per_s, seen.waiting))
        return self.choice

    def timed(self, task: outcomes.TaskTimed) -> None:
        """A task came back: its stages and a hop were work on a bundle. The hop is the mean one: one task has waited
        behind another in its worker, the next has not, and the law of bundles is to be the same for both."""
        followed = self._followed.get(task.serial)
        if followed is not None:
            followed.work_s += sum(timing.wall_s for timing in task.timings) + self.hop_s

    def delivered(self, out: outcomes.Delivered) -> None:
        """Items left. What was split on its way, or has failed, tells nothing."""
        if not self._followed:
            return
        followed = self._followed.pop(out.serial, None)
        while self._followed and (oldest := next(iter(self._followed))) < out.serial:
            del self._followed[oldest]  # bundles leave in order: it was split, shed or lost
        if followed is None or self._origin is None or out.error is not None or followed.items != out.count:
            return
        came_s, last_s = out.arrived_s[0], out.arrived_s[-1]
        first = out.serial - self._origin
        told = DeliveredBundle(first, out.count, out.at_s - came_s, last_s - came_s, followed.work_s)
        self._controller.delivered(told)
