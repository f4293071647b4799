"""What of a stage's measured time is other workers on its core: taken off before other cores are asked about."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from profiler.service_time import crowding, free_service_s
from profiler.snapshot import Snapshot, StageProfile


@dataclass(frozen=True, slots=True)
class StageTime:
    """What is known of a stage's time an item, seconds: as measured, without other workers on its core, of the CPU."""

    name: str
    measured_s: float
    free_s: float
    cpu_s: float


def crowd_of(snapshot: Snapshot) -> float:
    """Busy workers that share a core; 1 where the cores are not the limit."""
    return crowding(snapshot.stages, snapshot.cores)


def stage_times(snapshot: Snapshot) -> tuple[StageTime, ...]:
    crowd = crowd_of(snapshot)
    return tuple(StageTime(p.name, p.service_time_s, free_service_s(p, crowd), p.cpu_time_s) for p in snapshot.stages)


def on_cores(snapshot: Snapshot, cores: int) -> Snapshot:
    """Workers share the cores that there are: that is taken off the measured times first, and what they would share on
    ``cores`` the model adds."""
    return replace(snapshot, cores=cores, cores_left=None, stages=uncrowded(snapshot.stages, crowd_of(snapshot)))


def uncrowded(stages: Iterable[StageProfile], crowd: float) -> tuple[StageProfile, ...]:
    """What each would take without others on its core; how busy it is now says nothing of other cores. A ``crowd`` of
    1 leaves the times as they are."""
    return tuple(replace(p, service_time_s=free_service_s(p, crowd), busy=0.0) for p in stages)
