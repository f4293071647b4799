"""How many items of a run travel together: what was asked for, and what holds now."""

from __future__ import annotations

from apps.input.source_thread import SourceThread
from compositions.batching import Batching
from control.grain import SINGLE, Grain, grain_of
from control.manager import Manager
from profiler.snapshot import Snapshot
from runtime.dispatch.views import DispatcherView


class Bundling:
    """Owned by the loop's thread."""

    def __init__(self, source: SourceThread, asked: Batching) -> None:
        self._source = source
        self.asked, self.grain = asked, SINGLE
        self.set(asked)

    def set(self, asked: Batching) -> None:
        """From the next bundle on."""
        self.asked = asked
        self._hold(self.grain if asked.items is None else Grain(asked.items, "as asked for"))

    def decide(self, snapshot: Snapshot, view: DispatcherView, manager: Manager) -> None:
        """Looks at what was measured, where the size was left open."""
        if self.asked.items is None:
            target_ms = None if manager.objective is None else manager.objective.item_target_ms
            target_s = None if target_ms is None else target_ms / 1e3
            self._hold(grain_of(snapshot.stages, view.composition, snapshot.hop_s, target_s))

    def _hold(self, grain: Grain) -> None:
        self.grain = grain
        self._source.set_batching(self.asked.limits(grain.items))
