"""Settings of the regulators; defaults are those found best for ``spar`` (Vogel et al. 2018, section 5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from compositions.settings import check, overridden, ranged


@dataclass(frozen=True, slots=True)
class RegulatorSettings:
    """Raises: SettingsError when any is out of range."""

    target_ms: float = ranged(180.0, 1e-3, 3.6e6, "ms")
    """Latency that is not to be exceeded; 180 and 200 ms in the paper's figures."""
    scaling_factor: int = ranged(1, 1, 64)
    """Replicas added or removed at a step. 1 is the most stable, 2 follows faster (section 5)."""
    threshold: float = ranged(0.2, 0, 0.99)
    """Only a latency this far below the target, as a share of it, is a reason for more replicas: 20 % against 10 %
    makes fewer violations at about the same throughput (section 5)."""
    interval_s: float = ranged(1.0, 0.1, 3600, "s")
    """Control step (section 4)."""
    cores: int = ranged(4, 1, 100_000)
    """Of the machine; two of them are left to the first and the last stage."""

    def __post_init__(self) -> None:
        check(self)

    @property
    def most(self) -> int:
        """Replicas there may be: cores − 2, and never less than one."""
        return max(1, self.cores - 2)

    def overridden(self, values: Mapping[str, Any]) -> RegulatorSettings:
        """These settings with single fields replaced by their names. Raises: SettingsError naming every fault."""
        return overridden(self, values)
