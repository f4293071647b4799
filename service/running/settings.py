"""All settings of a run, each by its plain name in ``RunSpec.settings``."""

from __future__ import annotations

from dataclasses import dataclass, field

from control.settings import Settings
from profiler.monitor import MonitorSettings
from runtime.pools.ray_settings import RayPoolSettings


@dataclass(frozen=True, slots=True)
class RunSettings:
    """No two fields share a name."""

    manager: Settings = field(default_factory=Settings)
    monitor: MonitorSettings = field(default_factory=MonitorSettings)
    pool: RayPoolSettings = field(default_factory=RayPoolSettings)
