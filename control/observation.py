"""The observation of one tick; items that are late because of an earlier composition do not count against this one."""

from dataclasses import dataclass, replace

from control.assess import Assessment, assess
from control.decisions import Mode
from control.objectives.objective import Objective
from control.reading import waiting
from control.settings import Measuring
from profiler.slo import SloStatus
from profiler.snapshot import LatencyFrom, Snapshot

_CATCHING_UP = 1.1
"""Ratio of throughput to input rate above which the groups still work off items of the backlog."""
_LEAST_WINDOW_S = 0.75
"""Shortest window over which the two rates are compared, in seconds."""


class Backlog:
    """Items that waited when a composition took over, or while workers were missing. Once they are processed, measuring
    starts anew, because the window still contains them as late items."""

    def __init__(self) -> None:
        self._there = True
        """True from the start: items arrive while the first workers are still starting."""
        self._empty_since_s: float | None = None

    def inherit(self) -> None:
        """Expect a backlog because a composition takes over: at least the items of the hand-over waited for it."""
        self._there = True
        self._empty_since_s = None

    def reset_due(self, objective: Objective | None, snapshot: Snapshot, seen: Assessment) -> bool:
        """Return True if measuring should start anew: nothing waits any more, and the backlog has had the time to pass
        through the groups, or throughput still exceeds the input rate. Only latency objectives need this."""
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
        """Return True if throughput exceeds the input rate since the queue was empty; if not, the backlog is over."""
        rate, throughput = snapshot.input_rate_per_s, snapshot.throughput_per_s
        if snapshot.now_s - snapshot.window_start_s < least_s or throughput is None:
            return False
        self._there = rate is not None and throughput > _CATCHING_UP * rate
        return self._there

    def excused(self, objective: Objective | None, snapshot: Snapshot, seen: Assessment) -> Assessment:
        """Return ``seen``, with an unknown result instead of a miss while items of a backlog are being delivered."""
        if objective is None or not objective.spoilt_by_late_items or seen.meets is not False or not self._there:
            return seen
        if waiting(snapshot) and snapshot.backlog_change_per_s is not None:
            return seen
        return replace(seen, meets=None, reason=f"{seen.reason}, but items of the backlog are still being delivered")


@dataclass(frozen=True, slots=True)
class Aim:
    """The app's objective, and the mode: whether the manager decides, advises, or leaves the choice to the user."""

    objective: Objective | None
    mode: Mode

    @property
    def hands_off(self) -> bool:
        """True if the manager decides nothing: the mode is pinned or there is no objective."""
        return self.mode is Mode.PINNED or self.objective is None


@dataclass(frozen=True, slots=True)
class Observation:
    """A snapshot with its assessment against the aim."""

    now_s: float
    snapshot: Snapshot
    seen: Assessment
    aim: Aim


def observe(now_s: float, snapshot: Snapshot, aim: Aim, backlog: Backlog, measuring: Measuring) -> Observation:
    """Return the observation of ``snapshot``; late items of an earlier composition are excused."""
    if measuring.latency_from is LatencyFrom.READ:
        snapshot = snapshot.as_read()
    seen = assess(aim.objective, snapshot, measuring)
    return Observation(now_s, snapshot, backlog.excused(aim.objective, snapshot, seen), aim)
