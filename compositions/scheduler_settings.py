"""Settings of the schedulers. The paper publishes none of the values; what is here was found in virtual time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from compositions.settings import check, one_of, overridden, ranged


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """Raises: SettingsError when any is out of range."""

    slice_s: float = ranged(0.001, 1e-6, 60, "s")
    """A worker stays at an operator for about this long before it asks again (``s`` in the paper, section 6): longer
    asks less often, and hears later that another operator needs it."""
    window_s: float = ranged(0.1, 1e-5, 3600, "s")
    """``ct``: throughputs are those since the beginning of the window (section 6.4). A hundred slices: what one worker
    does in a turn is small against it."""
    capacity: int = ranged(1000, 1, 100_000_000, "tuples")
    """``qst``: ``C`` of equation 1, what may wait behind all operators together."""
    least_waiting: int = ranged(1, 1, 1_000_000, "tuples")
    """``lp``: an operator with fewer is passed over. The paper names the choice and takes 1 (section 6.2)."""
    selectivity: str = one_of("corrected", "printed")
    """``ct``: whether an operator's throughput is divided by the selectivities before it, or, as equation 3 is printed,
    by its own as well."""
    ahead: float = ranged(1.0, 0.01, 1000, "slices")
    """``kanban``: what may wait for each worker that the next operator can have."""
    half_life: int = ranged(1000, 1, 100_000_000, "tuples")
    """Costs and selectivities are estimated from what was measured; a tuple counts half after so many more."""

    def __post_init__(self) -> None:
        check(self)

    def overridden(self, values: Mapping[str, Any]) -> SchedulerSettings:
        """These settings with single fields replaced by their names. Raises: SettingsError naming every fault."""
        return overridden(self, values)
