"""Settings of the dispatcher: what it buffers, how often it tries, and how long it waits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class DispatcherSettings:
    buffer_items: int = 32
    """Admitted items that wait for a worker; more are refused (``block``) or replace the oldest (``shed``)."""
    overload: Literal["block", "shed"] = "block"
    attempts: int = 3
    """Runs of a task whose stage raises, before the item becomes a dead letter."""
    losses: int = 3
    """Workers that may die while running the same task, before the item counts as their killer."""
    spares: int = 1
    """Warm workers beyond those of the active composition: a lost one is replaced at once."""
    idle_worker_s: float = 60.0
    """After so long without a task, a worker beyond the spares is stopped."""
    prefetch_below_s: float = 0.02
    """Mean task time below which a worker gets a second task: 20 ms is some 100 hops; above, a hop is lost in it."""
    reorder_items: int = 1024
    """How far the newest started item may be ahead of the next one to deliver."""
    prepare_limit_s: float = 60.0
    """A switch whose workers are not there after so long fails and leaves the old composition running."""
    drain_limit_s: float = 10.0
    """A drain longer than this, and than 8 times its estimate, moves its remaining items to the new composition."""
    time_limit_s: float = 60.0
    """Wall time after which a call of a stage without a limit of its own counts as hung."""
    restart_pause_s: float = 1.0
    """Pause after a worker could not be started."""
