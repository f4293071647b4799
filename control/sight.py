"""What one tick of the manager is about."""

from __future__ import annotations

from dataclasses import dataclass

from control.assess import Assessment, assess
from control.backlog import Backlog
from control.decisions import Mode
from control.objectives.objective import Objective
from control.settings import Measuring
from profiler.snapshot import LatencyFrom, Snapshot


@dataclass(frozen=True, slots=True)
class Aim:
    """What is asked of the app, and who may act on it."""

    objective: Objective | None
    mode: Mode

    @property
    def hands_off(self) -> bool:
        """There is nobody to decide for."""
        return self.mode is Mode.PINNED or self.objective is None


@dataclass(frozen=True, slots=True)
class Sight:
    """A snapshot, what it says, and of what objective."""

    now_s: float
    snapshot: Snapshot
    seen: Assessment
    aim: Aim


def sight_of(now_s: float, snapshot: Snapshot, aim: Aim, backlog: Backlog, measuring: Measuring) -> Sight:
    """``snapshot`` assessed by what is to be judged, late items of an earlier composition excused."""
    if measuring.latency_from is LatencyFrom.READ:
        snapshot = snapshot.as_read()
    seen = assess(aim.objective, snapshot, measuring)
    return Sight(now_s, snapshot, backlog.excused(aim.objective, snapshot, seen), aim)
