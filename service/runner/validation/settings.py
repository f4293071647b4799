"""All settings of a run, each by its plain name in ``RunSpec.settings``."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from compositions.settings import check, ranged
from control.settings import Settings
from profiler.drain_samples import DrainSettings
from profiler.monitor import MonitorSettings
from runtime.arena.reference import memory_bytes
from runtime.dispatch.settings import DispatcherSettings
from runtime.pools.ray.settings import RayPoolSettings


@dataclass(frozen=True, slots=True)
class InputSettings:
    """The settings of a source that was held back. Raises: SettingsError when one is out of range."""

    catch_up_s: float = ranged(10.0, 0, 3600, "s")
    """What was due in this time is still read, as fast as there is room; what is older is missed. One check interval:
    a source that is behind by more is not late, it is overloaded."""

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, slots=True)
class RunSettings:
    """No two fields share a name."""

    input: InputSettings = field(default_factory=InputSettings)
    manager: Settings = field(default_factory=Settings)
    monitor: MonitorSettings = field(default_factory=MonitorSettings)
    drain: DrainSettings = field(default_factory=DrainSettings)
    pool: RayPoolSettings = field(default_factory=RayPoolSettings)
    dispatcher: DispatcherSettings = field(default_factory=DispatcherSettings)

    def of_pool(self, followed: bool) -> RayPoolSettings:
        """Workers wait for the next runner where one goes on with the run."""
        return self.pool if followed else replace(self.pool, orphan_s=0.0)


def for_machine(memory: int) -> RunSettings:
    """Defaults on a machine with so many bytes of memory: a 32nd for items that wait to be started, an eighth for those
    that were; the rest is for the workers and for other apps."""
    return RunSettings(
        dispatcher=DispatcherSettings(buffer_bytes=max(1, memory // 32), started_bytes=max(1, memory // 8))
    )


def for_this_machine() -> RunSettings:
    return for_machine(memory_bytes())
