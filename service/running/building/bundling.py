"""How many items of a run travel together: what was asked for, and what holds now."""

from __future__ import annotations

from dataclasses import replace

from apps.input.source_thread import SourceThread
from compositions.batching import Batching
from compositions.model import Composition
from control.grain import PATIENCE_SHARE, SINGLE, Grain, grain_of
from control.manager import Manager
from profiler.snapshot import Snapshot
from runtime.dispatch.views import DispatcherView
from service.bodies.batching import BatchingStatus


class Bundling:
    """Owned by the loop's thread. What the active composition says of itself comes before what was asked for the app.

    ``first``: the composition that the run begins with.
    """

    def __init__(self, source: SourceThread, asked: Batching, first: Composition) -> None:
        self._source, self._asked, self._active = source, asked, first
        self._target_s: float | None = None
        self.grain = SINGLE
        self.sizes: list[int] = []
        """Those in use so far, in the order of their first use."""
        self._hold(self._fixed() or SINGLE)

    @property
    def in_force(self) -> Batching:
        return self._active.batch or self._asked

    @property
    def status(self) -> BatchingStatus:
        return BatchingStatus.of(self.in_force, self.grain.items, self.grain.reason)

    def set(self, asked: Batching) -> None:
        """For the app, from the next bundle on; a size that is left open is the present one until ``decide``."""
        self._asked = asked
        self._hold(self._fixed() or Grain(self.grain.items, "as before, until it is looked at again"))

    def decide(self, snapshot: Snapshot, view: DispatcherView, manager: Manager) -> None:
        """Looks at what runs and, where the size was left open, at what was measured."""
        self._active, self._target_s = view.composition, _latency_target_s(manager)
        left_open = grain_of(snapshot.stages, view.composition, snapshot.hop_s, self._target_s)
        self._hold(self._fixed() or left_open)

    def _fixed(self) -> Grain | None:
        items = self.in_force.items
        if items is None:
            return None
        return Grain(
            items, "as asked for" if self._active.batch is None else f"composition {self._active.name} has it so"
        )

    def _hold(self, grain: Grain) -> None:
        self.grain = grain
        if grain.items not in self.sizes:
            self.sizes.append(grain.items)
        limits = self.in_force.limits(grain.items)
        if self.in_force.items is None and self._target_s is not None:
            limits = replace(limits, linger_s=min(limits.linger_s, PATIENCE_SHARE * self._target_s))
        self._source.set_batching(limits)


def _latency_target_s(manager: Manager) -> float | None:
    """What each item is held to; None where it is not."""
    target_ms = None if manager.objective is None else manager.objective.item_target_ms
    return None if target_ms is None else target_ms / 1e3
