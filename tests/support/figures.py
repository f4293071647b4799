"""Figures as the profiler gives them; a test names those that it is about."""

from typing import Any

from profiler.snapshot import LatencyStats, Snapshot, StageProfile

NOTHING_SEEN = Snapshot(0.0, "1", False, 0.0, 0.0, None, None, 0, None, None, 0, None, 0, (), 4, 1, 3e-4)


def profile(name: str, each_s: float, cpu_s: float | None = None, **more: Any) -> StageProfile:
    """A stage that takes ``each_s`` for an item, all of it on a core unless ``cpu_s`` says otherwise."""
    known = {"cv": 0.1, "p50_s": each_s, "p95_s": each_s, "samples": 100, **more}
    return StageProfile(name, each_s, each_s if cpu_s is None else cpu_s, **known)


def latency(each_s: float, samples: int = 50) -> LatencyStats:
    """All items took as long."""
    return LatencyStats(each_s, each_s, each_s, each_s, samples)
