"""The observation of one tick: the snapshot, its assessment, the aim, and the backlog that excuses late items."""

from dataclasses import dataclass, replace

from control.assess import Assessment, assess
from control.decisions import Mode
from control.objectives.objective import Objective
from control.reading import waiting
from control.settings import Measuring
from profiler.slo import SloStatus
from profiler.snapshot import LatencyFrom, Snapshot

_CATCHING_UP = 1.1
"""More delivered than offered by this factor: the groups still empty themselves of what they had taken in."""
_LEAST_WINDOW_S = 0.75
"""Shortest window to compare the two on."""


class Backlog:
    """The backlog: items that waited when a composition took over (or while workers were missing). Then measuring
    starts anew, because the window still holds the late items."""

    def __init__(self) -> None:
        self._there = True
        """From the start: items arrive while the first workers are still being started."""
        self._empty_since_s: float | None = None

    def inherit(self) -> None:
        """A composition takes over: at least what arrived during the hand-over has waited for it."""
        self._there = True
        self._empty_since_s = None

    def reset_due(self, objective: Objective | None, snapshot: Snapshot, seen: Assessment) -> bool:
        """Return whether to measure anew: nothing waits any more and what had waited has had the time to pass through,
        or more still comes out than in. Only a latency is spoilt by late items.
        """
        if objective is None or not objective.spoilt_by_late_items:
            return False
        if seen.draining and seen.status is SloStatus.VIOLATED and seen.meets is not False:
            self._there = True
        if not self._there or waiting(snapshot):
            self._empty_since_s = None
            return False
        if self._empty_since_s is None:
            self._empty_since_s = snapshot.now_s
        inside = snapshot.inside
        if inside is None or snapshot.now_s - self._empty_since_s < inside.mean_s:
            return False
        if snapshot.window_start_s <= self._empty_since_s:
            return True
        return self._catches_up(snapshot, max(_LEAST_WINDOW_S, inside.mean_s))

    def _catches_up(self, snapshot: Snapshot, least_s: float) -> bool:
        """Judged on a window that began after the queue was empty; when it is even, the backlog is forgotten."""
        rate, throughput = snapshot.input_rate_per_s, snapshot.throughput_per_s
        if snapshot.now_s - snapshot.window_start_s < least_s or throughput is None:
            return False
        self._there = rate is not None and throughput > _CATCHING_UP * rate
        return self._there

    def excused(self, objective: Objective | None, snapshot: Snapshot, seen: Assessment) -> Assessment:
        """``seen``, with no answer instead of a miss while items that waited for an earlier composition come out."""
        if objective is None or not objective.spoilt_by_late_items or seen.meets is not False or not self._there:
            return seen
        if waiting(snapshot) and snapshot.backlog_change_per_s is not None:
            return seen
        return replace(seen, meets=None, reason=f"{seen.reason}, but items that waited before are still on their way")


@dataclass(frozen=True, slots=True)
class Aim:
    """The objective of the app, and the mode that says who may act."""

    objective: Objective | None
    mode: Mode

    @property
    def hands_off(self) -> bool:
        """There is nobody to decide for."""
        return self.mode is Mode.PINNED or self.objective is None


@dataclass(frozen=True, slots=True)
class Observation:
    """A snapshot, what it says, and of what objective."""

    now_s: float
    snapshot: Snapshot
    seen: Assessment
    aim: Aim


def observe(now_s: float, snapshot: Snapshot, aim: Aim, backlog: Backlog, measuring: Measuring) -> Observation:
    """``snapshot`` assessed by what is to be judged, late items of an earlier composition excused."""
    if measuring.latency_from is LatencyFrom.READ:
        snapshot = snapshot.as_read()
    seen = assess(aim.objective, snapshot, measuring)
    return Observation(now_s, snapshot, backlog.excused(aim.objective, snapshot, seen), aim)
