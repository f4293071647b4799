"""Choose the bundle size of a run, from the requested size and the measurements."""

import math
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Protocol

from compositions.batching import Asked, Batching, BundleLimits
from compositions.model import Composition
from compositions.wording import figure
from control.bundles.batch_control import Circumstances, Steering, control_for
from control.bundles.bundle_size import PATIENCE_SHARE, SINGLE, Grain, SizeRuns, grain_of
from control.bundles.curve import Curve
from control.manager import Manager
from datapipe.sources.schedule import Offer
from profiler.snapshot import Demand, SizeLeftOpen, Snapshot
from runtime.dispatch.outcomes import Delivered, OutOfMemory, TaskTimed
from runtime.dispatch.views import DispatcherView
from service.runner.loop import Bundler
from service.schemas.compositions import BatchingStatus, SizeChange

PAYS_FOR_S = 5.0
"""Time in seconds for which bundles are still considered worthwhile, so that noise does not toggle a controller."""
BEYOND_RULE = 4
"""Limit of a controller's size, as a multiple of the rule's: the rule uses means of many seconds, a controller may
follow noise. A smaller size would help nobody: a bundle leaves when a worker is free, even if it is not full."""


class Inlet(Protocol):
    """The place where bundles are closed."""

    def set_batching(self, limits: BundleLimits) -> None:
        """Set the limits of the next bundle and of later ones."""

    def offered_per_s(self, now_s: float) -> float | None:
        """Return the input rate; None: items are always available."""

    def offer(self) -> Offer:
        """Return the offered load, and the number of waiting items."""


class Bundling(Bundler):
    """Owned by the loop's thread. The active composition's own setting has priority over the app's. ``first``: first
    composition of the run. ``batch_stages``: names of the stages that take a whole bundle."""

    def __init__(self, source: Inlet, asked: Batching, first: Composition, batch_stages: Collection[str] = ()) -> None:
        self._source, self._asked, self._active = source, asked, first
        self._target_s: float | None = None
        self._item_bytes = 0.0
        self._left_open = self.grain = SINGLE
        """The size by the rule, and the size in use."""
        self._paid_s = -math.inf
        """Time when hops last cost much compared with the work."""
        self._steering: Steering | None = None
        self._now_s = 0.0
        self._curve = Curve(batch_stages)
        self._most: dict[object, Grain] = {}
        """Maximum size by shape of a composition: half of the size with which a stage ran out of memory."""
        self.runs = SizeRuns()
        self._hold(self._fixed() or SINGLE)

    @property
    def in_force(self) -> Batching:
        return self._active.batch or self._asked

    @property
    def limit(self) -> int:
        """Return the maximum size if this many items wait: a controller chosen by default would go there."""
        ours = self._steering is not None and self._steering.control.name == "slo-batch"
        return max(self.grain.items, self._left_open.items) if ours else self.grain.items

    def tell(self, demand: Demand) -> Demand:
        """Return ``demand`` with the maximum bundle sizes in the present and in other compositions."""
        return replace(demand, bundle_limit=self.limit, size_left_open=self._size_left_open())

    def _size_left_open(self) -> SizeLeftOpen | None:
        if self._asked.items is not None or (self._asked.control is not None and self._target_s is not None):
            return None
        times = 1.0 if self._active.batch else max(1.0, self.limit / self._left_open.items)
        return SizeLeftOpen(self._target_s, times)

    @property
    def controller(self) -> Asked:
        """Return the controller that chooses the size now."""
        if self._steering is not None:
            return self._steering.control.name
        return "auto" if self.in_force.items is None else "fixed"

    @property
    def status(self) -> BatchingStatus:
        at_work = {} if self._steering is None else {"settings": self._steering.settings}
        size, reason = self.grain.items, self.grain.reason
        return BatchingStatus.of(self.in_force, controller=self.controller, size=size, reason=reason, **at_work)

    def changes(self, limit: int, at: Callable[[float], str], run: str | None) -> list[SizeChange]:
        """Return the latest changes of the size in this ``run``, oldest first."""
        return [SizeChange.of(each, at, run) for each in list(self.runs.kept)[-limit:]]

    def set(self, asked: Batching) -> None:
        """Set the requested size, from the next bundle on; an open size stays until ``decide``."""
        self._asked = asked
        self._choose(Grain(self.grain.items, "unchanged until the next evaluation"))

    def decide(self, snapshot: Snapshot, view: DispatcherView, manager: Manager) -> None:
        """Evaluate the active composition and, if no size was requested, the measurements."""
        self._now_s, self._target_s, self._item_bytes = snapshot.now_s, _latency_target_s(manager), view.item_bytes
        now, before = view.composition, self._active
        if (now.grouping, now.dyn) != (before.grouping, before.dyn):
            self._steering = None  # the cost of a bundle has changed
        if now.shape != before.shape:
            self._curve.forget()
        self._active = view.composition
        self._left_open = grain_of(snapshot.stages, view.composition, snapshot.hop_s, self._target_s)
        best = self._left_open
        if self._target_s is None:
            measured = self._curve.size(snapshot.now_s, view.composition, snapshot.stages, snapshot.hop_s)
            best = max(best, measured, key=lambda grain: grain.items)
        if self._left_open.pays and self._source.offered_per_s(snapshot.now_s) is not None:
            self._paid_s = snapshot.now_s
        self._choose(best)
        if self._steering is not None:
            self._steering.hop_s = snapshot.hop_s

    def admitted(self, first: int, items: int, now_s: float) -> None:
        """Record that a bundle left for a worker, with the serial number of its first item."""
        steering = self._steering
        if steering is None or not steering.due(now_s):
            return
        before, behind = steering.choice, self._source.offer().behind
        rate = self._source.offered_per_s(now_s) if self.in_force.linger_ms else None
        choice = steering.admitted(first, items, Circumstances(now_s, rate, behind))
        borne = self._borne(choice.items, behind)
        if choice is not before or borne != self.grain.items:
            self._now_s = now_s
            self._hold(Grain(borne, choice.reason))

    def timed(self, task: TaskTimed) -> None:
        self._curve.timed(task.at_s, task.timings, task.items)
        if self._steering is not None:
            self._steering.timed(task)

    def delivered(self, out: Delivered) -> None:
        if self._steering is not None:
            self._steering.delivered(out)

    def out_of_memory(self, failed: OutOfMemory) -> None:
        known = self._most.get(self._active.shape)
        if failed.composition == self._active.name and (known is None or failed.items // 2 < known.items):
            why = f"stage {failed.stage} ran out of memory with a bundle of {failed.items}"
            self._most[self._active.shape] = Grain(max(1, failed.items // 2), why)
            self._hold(self.grain)

    def _choose(self, left_open: Grain) -> None:
        control = control_for(self.in_force, self._target_s, pays=self._now_s - self._paid_s < PAYS_FOR_S)
        if control is None:
            self._steering = None
            self._hold(self._fixed() or self._without_target(left_open))
        elif self._steering is None or self._steering.control != control:
            begin = left_open.items if self.in_force.control is None else control.settings.sizes.first
            self._steering = Steering(control, begin)
            self._hold(Grain(self._borne(self._steering.choice.items, 0), self._steering.choice.reason))

    def _borne(self, items: int, behind: int) -> int:
        """Return ``items``, limited if the controller was chosen by default: at least the rule's size, at most this
        size times ``BEYOND_RULE``, or about a quarter of the items ``behind``: larger bundles catch up."""
        if self.in_force.control is not None:
            return items
        rule = self._left_open.items
        pile = 1 << max((behind // BEYOND_RULE).bit_length() - 1, 0)  # in powers of two, so that it rests
        return min(max(items, rule), max(BEYOND_RULE * rule, pile))

    def _fixed(self) -> Grain | None:
        items = self.in_force.items
        why = "as requested" if self._active.batch is None else f"set by composition {self._active.name}"
        return None if items is None else Grain(items, why)

    def _without_target(self, left_open: Grain) -> Grain:
        """Use the rule's size if the controller has no objective."""
        asked = self.in_force.control
        if asked is None or self._target_s is not None:
            return left_open
        told = f"{asked.name} needs a latency objective and has none, so auto decides: "
        return replace(left_open, reason=told + left_open.reason)

    def _light(self, grain: Grain) -> Grain:
        """Limit an automatic size by the bytes of the items, as results may be larger than inputs."""
        most = grain.weight * self.in_force.max_bytes
        if self.in_force.items is not None or grain.items * self._item_bytes <= most:
            return grain
        items = max(1, int(most / self._item_bytes))
        weight = f"{items} items have {figure(items * self._item_bytes / 2**20)} MiB"
        return replace(grain, items=items, reason=f"{grain.reason}; {weight}")

    def _hold(self, grain: Grain) -> None:
        grain = self._light(grain)
        most = self._most.get(self._active.shape)
        if most is not None and grain.items > most.items:
            grain = replace(grain, items=most.items, reason=most.reason)
        self.grain = grain
        self.runs.note(self._now_s, self.controller, grain.items, grain.reason)
        limits = self.in_force.limits(grain.items)
        if self.in_force.items is None and self._target_s is not None:
            limits = replace(limits, linger_s=min(limits.linger_s, PATIENCE_SHARE * self._target_s))
        self._source.set_batching(limits)


def _latency_target_s(manager: Manager) -> float | None:
    """Return the latency objective of a single item, or None."""
    target_ms = None if manager.objective is None else manager.objective.item_target_ms
    return None if target_ms is None else target_ms / 1e3
