"""Sources of a simulated run's items; a full buffer holds the source back, as with overload ``block``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from apps.rates import Rate, rate_now
from datapipe.sources.schedule import Schedule
from lab.simulation.gathering import SimulatedDoor, SimulatedGathering
from profiler.monitor import Monitor
from profiler.snapshot import Demand

_GAP_STEP_S, _LONGEST_GAP_S = 0.25, 3600.0
_CATCH_UP_S = 10.0
"""The same time as of a runner (:mod:`service.runner.validation.resolution`)."""
_COUNT_EVERY_S = 0.25
_LOOK_S = 0.05
"""Maximum time between two checks of a rate that may change, in seconds."""


class SimulatedSource(Protocol):
    def feed(self) -> float:
        """Admit items that are due; return the time of the next check: infinite while the buffer is full."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Items at a rate: evenly spaced, or (not ``paced``) at random times of independent users, by ``seed``."""

    rate: Rate
    paced: bool
    seed: int

    def source(self, door: SimulatedDoor, monitor: Monitor, *, from_due: bool) -> SimulatedSource:
        """Return the source. ``from_due``: late items count as late; otherwise latency is as in the papers."""
        if not from_due:
            return _ReadSource(self, door, monitor)
        return _PacedSource(self, door, monitor) if self.paced else _VisitedSource(self, door, monitor)


class _ReadSource:
    """A source that continues where it was blocked; missed items are not counted."""

    def __init__(self, arrivals: Arrivals, door: SimulatedDoor, monitor: Monitor) -> None:
        self._rate, self._paced = arrivals.rate, arrivals.paced
        self._engine, self._gathering = door.engine, SimulatedGathering(door)
        self._monitor = monitor
        self._random = np.random.default_rng(arrivals.seed)
        self._due_s, self._read = 0.0, 0

    def feed(self) -> float:
        now_s = self._engine.now_s
        if self._paced:
            self._monitor.set_offered_rate(now_s, self._rate_at(now_s))
        self._gathering.settle()
        while self._due_s <= now_s and self._gathering.has_room:
            self._monitor.record_arrivals((now_s,))
            self._gathering.put(self._due_s, self._due_s)
            self._read += 1
            self._due_s = max(self._due_s, now_s - self._gap_s(now_s)) + self._gap_s(now_s)
        return min(self._gathering.settle(), math.inf if self._due_s <= now_s else self._due_s)

    def _gap_s(self, now_s: float) -> float:
        if not self._paced:
            return float(self._random.exponential(1 / max(self._rate_at(now_s), 1e-6)))
        waited_s, part = 0.0, 1.0
        while waited_s < _LONGEST_GAP_S:  # in steps: a slow rate may be fast before its next item is due
            rate = self._rate_at(now_s + waited_s)
            if rate * _GAP_STEP_S >= part:
                return waited_s + part / rate
            part -= rate * _GAP_STEP_S
            waited_s += _GAP_STEP_S
        return waited_s

    def _rate_at(self, at_s: float) -> float:
        return rate_now(self._rate, at_s, self._read)


class _PacedSource:
    """A source that reads by a schedule, as a paced runner does, and may be behind it."""

    def __init__(self, arrivals: Arrivals, door: SimulatedDoor, monitor: Monitor) -> None:
        self._schedule = Schedule(arrivals.rate, door.engine.now_s, catch_up_items=1.0, catch_up_s=_CATCH_UP_S)
        self._engine, self._monitor, self._tell = door.engine, monitor, door.tell
        self._gathering = SimulatedGathering(door)
        door.inlet.behind = lambda: int(self._schedule.due)
        self._admitted = 0
        self._counted_s = -math.inf

    def feed(self) -> float:
        schedule, gathering, now_s = self._schedule, self._gathering, self._engine.now_s
        self._monitor.set_offered_rate(now_s, schedule.rate_per_s(now_s))
        self._count(now_s)
        gathering.settle()
        while gathering.has_room:
            due_s = schedule.take(now_s)
            if due_s is None:
                next_s = min(max(schedule.next_due_s(now_s), now_s + 1e-6), now_s + _LOOK_S)
                return min(gathering.settle(), next_s)
            self._monitor.record_arrivals((now_s,))
            gathering.put(now_s, due_s)
            self._admitted += 1
        return gathering.settle()

    def _count(self, now_s: float) -> None:
        if now_s - self._counted_s < _COUNT_EVERY_S:
            return
        self._counted_s, lag_s = now_s, self._schedule.lag_s(now_s)
        offered = self._admitted + self._schedule.missed + int(self._schedule.due)
        demand = Demand(offered, self._admitted, self._schedule.missed, lag_s)
        self._monitor.record_demand(now_s, self._tell(demand))


class _VisitedSource:
    """Independent users; those that come without room wait outside."""

    def __init__(self, arrivals: Arrivals, door: SimulatedDoor, monitor: Monitor) -> None:
        self._rate, self._random = arrivals.rate, np.random.default_rng(arrivals.seed)
        self._engine, self._monitor, self._tell = door.engine, monitor, door.tell
        self._gathering = SimulatedGathering(door)
        self._waiting: list[float] = []
        door.inlet.behind = lambda: len(self._waiting)
        self._next_s = 0.0
        self._offered = 0

    def feed(self) -> float:
        gathering, now_s = self._gathering, self._engine.now_s
        gathering.settle()
        while self._next_s <= now_s:
            self._waiting.append(self._next_s)
            self._monitor.record_arrivals((self._next_s,))
            self._offered += 1
            self._next_s += float(
                self._random.exponential(1 / max(rate_now(self._rate, self._next_s, self._offered), 1e-6))
            )
        while self._waiting and gathering.has_room:
            due_s = self._waiting.pop(0)
            gathering.put(due_s, due_s)
        lag_s = now_s - self._waiting[0] if self._waiting else 0.0
        demand = Demand(self._offered, self._offered - len(self._waiting), 0, lag_s)
        self._monitor.record_demand(now_s, self._tell(demand))
        return min(gathering.settle(), self._next_s)
