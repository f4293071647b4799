"""Settings of the dispatcher: buffers, retries and time limits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from compositions.settings import Checked, one_of, ranged


@dataclass(frozen=True, slots=True)
class DispatcherSettings(Checked):
    """The settings. Raises: SettingsError that names every value out of range."""

    buffer_items: int = ranged(32, 1, 1_000_000)
    """Maximum number of admitted items that wait for a worker; more are refused (``block``) or replace the oldest
    (``shed``). The default bridges short gaps of the source. Under overload, each adds a service time of the bottleneck
    to the latency."""
    buffer_bytes: int = ranged(2**30, 1, 2**50, "bytes")
    """Maximum payload bytes of these items; the limit that is reached first applies."""
    overload: Literal["block", "shed"] = "block"
    attempts: int = ranged(3, 1, 100)
    """Runs of a task whose stage raises, before the item becomes a dead letter."""
    losses: int = ranged(3, 1, 100)
    """Workers that may die while running the same item, before it becomes a dead letter."""
    spares: int = ranged(1, 0, 1000)
    """Warm workers beyond those of the active composition: a lost one is replaced at once."""
    idle_worker_s: float = ranged(300.0, 0, 86_400, "s")
    """Idle time after which a worker beyond the spares is stopped. If the load returns earlier, the worker is warm,
    which saves a second of late items; until then it takes memory but no core."""
    prefetch_below_s: float = ranged(0.02, 0, 60, "s")
    """Mean task time below which a worker gets a second task: 20 ms is about 100 hops; beyond, a hop is negligible."""
    scheduling: str = one_of("on-demand", "round-robin")
    """Choice of the worker for a group's next item: the one with the fewest items, or each in turn even if others are
    idle (SPar's default; Vogel et al. 2018, section 2). Both keep the order of items."""
    reorder_items: int = ranged(1024, 1, 10_000_000)
    """Maximum number of started items from the next to deliver to the newest; 64 bundles are always allowed."""
    started_bytes: int = ranged(2**31, 1, 2**50, "bytes")
    """Maximum payload bytes, now or as predicted, of items that were started and have not left; above it no item is
    started. A single item may always start."""
    prepare_limit_s: float = ranged(300.0, 0.1, 3600, "s")
    """Maximum wait for a switch's workers; after it the switch fails and the old composition keeps running."""
    drain_limit_s: float = ranged(10.0, 0.01, 3600, "s")
    """A drain longer than this and than 8 times its estimate moves its remaining items to the new composition."""
    time_limit_s: float = ranged(60.0, 0.01, 1e9, "s")
    """Wall time after which a call of a stage without a limit of its own counts as hung."""
    restart_pause_s: float = ranged(1.0, 0, 3600, "s")
    """Pause after a worker could not be started."""

    @property
    def lean(self) -> DispatcherSettings:
        """The same settings without warm spare workers."""
        return replace(self, spares=0, idle_worker_s=0.0)
