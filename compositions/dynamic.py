"""Workers that choose their next stage: their number, scheduler and settings (Prasaad et al. 2017, section 6)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self, get_args

from compositions.batch_settings import SchedulerSettings
from compositions.settings import SettingsError, plain

SchedulerName = Literal["qst", "lp", "et", "ct", "kanban"]
SCHEDULER_NAMES: tuple[SchedulerName, ...] = get_args(SchedulerName)
DEFAULT_SCHEDULER: SchedulerName = "lp"
"""Of the published ones, the one with the lowest latency and nearly the best throughput (docs/research/ordered.md)."""
Value = int | float | str
_TAKES: Mapping[SchedulerName, tuple[str, ...]] = {
    "qst": ("slice_s", "capacity", "half_life"),
    "lp": ("slice_s", "least_waiting"),
    "et": ("slice_s", "half_life"),
    "ct": ("slice_s", "window_s", "selectivity", "half_life"),
    "kanban": ("slice_s", "ahead", "half_life"),
}
"""The settings that each scheduler uses."""


@dataclass(frozen=True, slots=True)
class Dyn:
    """A pool of workers that run all stages; the scheduler chooses the next stage of each worker."""

    workers: int
    scheduler: SchedulerName = DEFAULT_SCHEDULER
    settings: SchedulerSettings = field(default_factory=SchedulerSettings)

    @classmethod
    def asked(cls, workers: int, scheduler: SchedulerName, said: Mapping[str, Any]) -> Self:
        """Return the pool with the settings in ``said``, by name, and defaults for the others. Raises: SettingsError
        for settings that the scheduler does not use, and for values out of range."""
        takes = _TAKES[scheduler]
        if unknown := [name for name in said if name not in takes]:
            told = ", ".join(repr(name)[:60] for name in unknown)
            raise SettingsError(f"scheduler {scheduler} has no setting {told}; it has {', '.join(takes)}")
        return cls(workers, scheduler, SchedulerSettings().overridden(said))

    @property
    def in_force(self) -> dict[str, Value]:
        """All settings that the scheduler uses, by name."""
        every = plain(self.settings)
        return {name: every[name] for name in _TAKES[self.scheduler]}

    @property
    def said(self) -> dict[str, Value]:
        """The settings that differ from their defaults, by name."""
        usual = plain(SchedulerSettings())
        return {name: value for name, value in self.in_force.items() if value != usual[name]}
