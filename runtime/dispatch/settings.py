"""Settings of the dispatcher: what it buffers, how often it tries, and how long it waits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from compositions.settings import Checked, one_of, ranged


@dataclass(frozen=True, slots=True)
class DispatcherSettings(Checked):
    """Raises: SettingsError that names every value out of range."""

    buffer_items: int = ranged(32, 1, 1_000_000)
    """Admitted items that wait for a worker; more are refused (``block``) or replace the oldest (``shed``). Enough to
    bridge a stutter of the source; each adds a service time of the bottleneck to an overloaded stream's latency."""
    buffer_bytes: int = ranged(2**30, 1, 2**50, "bytes")
    """The same in bytes of payload; whichever is reached first."""
    overload: Literal["block", "shed"] = "block"
    attempts: int = ranged(3, 1, 100)
    """Runs of a task whose stage raises, before the item becomes a dead letter."""
    losses: int = ranged(3, 1, 100)
    """Workers that may die while running the same task, before the item counts as their killer."""
    spares: int = ranged(1, 0, 1000)
    """Warm workers beyond those of the active composition: a lost one is replaced at once."""
    idle_worker_s: float = ranged(300.0, 0, 86_400, "s")
    """After so long without a task, a worker beyond the spares is stopped. A load that is back within minutes finds it
    warm, which is a second less of late items; until then it takes memory, and no core."""
    prefetch_below_s: float = ranged(0.02, 0, 60, "s")
    """Mean task time below which a worker gets a second task: 20 ms is some 100 hops; above, a hop is lost in it."""
    scheduling: str = one_of("on-demand", "round-robin")
    """The replica of a group that takes the next item: the one with the fewest, or each in turn, though others may be
    free (SPar's default; Vogel et al. 2018, section 2). The order is kept with both."""
    reorder_items: int = ranged(1024, 1, 10_000_000)
    """Started items between the next one to deliver and the newest, at most; 64 bundles in any case."""
    started_bytes: int = ranged(2**31, 1, 2**50, "bytes")
    """Payloads of items that were started and have not left: no other is started while they weigh more, or will, as far
    as those before tell. Where nothing is started, one always may."""
    prepare_limit_s: float = ranged(300.0, 0.1, 3600, "s")
    """A switch whose workers are not there after so long fails and leaves the old composition running."""
    drain_limit_s: float = ranged(10.0, 0.01, 3600, "s")
    """A drain longer than this, and than 8 times its estimate, moves its remaining items to the new composition."""
    time_limit_s: float = ranged(60.0, 0.01, 1e9, "s")
    """Wall time after which a call of a stage without a limit of its own counts as hung."""
    restart_pause_s: float = ranged(1.0, 0, 3600, "s")
    """Pause after a worker could not be started."""

    @property
    def lean(self) -> DispatcherSettings:
        """Return the same without workers that are kept warm."""
        return replace(self, spares=0, idle_worker_s=0.0)
