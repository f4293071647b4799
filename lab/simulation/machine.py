"""The simulated machine: what work costs on it, cores shared as an operating system does it, and virtual time.

With more busy workers than cores all run at the same reduced speed (processor sharing); or, on cores of two hardware
threads, who shares a core with another runs at a reduced speed.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one item in one stage: seconds of CPU, and seconds of waiting for something else."""

    cpu_s: float
    wait_s: float = 0.0


CostFunction = Callable[[str, int], Cost]
"""(stage, serial) -> cost; deterministic, so that every composition meets the same work."""


@dataclass(frozen=True, slots=True)
class Threads:
    """Simultaneous multithreading: each core has two hardware threads."""

    pair_speed: float
    """Speed of each of two threads that compute on one core; 1 is the speed of a single one."""
    beside: int = 0
    """Threads of the app besides its workers, its source and its sink, that compute all the time."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The simulated machine. A hop delays a task if its worker was idle, and always takes CPU time."""

    cores: int = 2
    hop_s: float = 0.0001
    hop_cpu_s: float = 0.0001
    start_s: float = 1.0
    load_s: Mapping[str, float] = field(default_factory=dict)
    """Time to load a stage, for stages that not all workers load."""
    threads: Threads | None = None
    """None: all computing workers share the cores evenly."""


def constant_cost(service_s: Mapping[str, float], *, wait: bool = False) -> CostFunction:
    """Return the same cost for every item; ``wait`` makes the stages sleep instead of compute."""
    costs = {stage: Cost(0.0, s) if wait else Cost(s) for stage, s in service_s.items()}
    return lambda stage, serial: costs[stage]


class Computing(Protocol):
    """A worker that may compute."""

    computing: bool
    steps: int
    """Counts begun and ended computations; events that were planned for an earlier step are void."""


W = TypeVar("W", bound=Computing)
R = TypeVar("R")


class Cores(Generic[W]):
    """Processor sharing: all computing workers share the cores evenly, on a clock of each one's CPU seconds."""

    def __init__(self, cores: float) -> None:
        self._cores = cores
        self._busy = 0
        self._got_s = 0.0
        self._order = itertools.count()
        self._ends: list[tuple[float, int, W, int]] = []

    @property
    def busy(self) -> int:
        """Return the number of workers that compute."""
        return self._busy

    def share(self, cores: float) -> None:
        """Set the number of cores from now on."""
        self._cores = cores

    def begin(self, worker: W, cpu_s: float) -> None:
        worker.computing = True
        worker.steps += 1
        self._busy += 1
        heapq.heappush(self._ends, (self._got_s + cpu_s, next(self._order), worker, worker.steps))

    def stop(self, worker: W) -> None:
        if worker.computing:
            worker.computing = False
            worker.steps += 1
            self._busy -= 1

    def first_done(self) -> W:
        """Return the worker that has just received the CPU time it needs."""
        worker = heapq.heappop(self._ends)[2]
        self.stop(worker)
        return worker

    def next_in_s(self) -> float:
        """Return the time until the first worker is done, if no other begins."""
        while self._ends and self._ends[0][2].steps != self._ends[0][3]:
            heapq.heappop(self._ends)
        return max(0.0, self._ends[0][0] - self._got_s) / self._speed() if self._ends else math.inf

    def pass_s(self, elapsed_s: float) -> None:
        self._got_s += elapsed_s * self._speed()

    def _speed(self) -> float:
        return min(1.0, self._cores / self._busy) if self._busy else 1.0


class PairedCores(Cores[W]):
    """Cores with two hardware threads. A worker begins on the core with the fewest workers and stays there, so two
    workers may have different speeds at the same time. More than two on a core share its two threads."""

    def __init__(self, cores: int, threads: Threads) -> None:
        super().__init__(cores)
        self._pair_speed = threads.pair_speed
        self._loads = [sum(core == each % cores for each in range(threads.beside)) for core in range(cores)]
        self._place: dict[int, int] = {}
        self._left_s: dict[int, tuple[float, W]] = {}

    def share(self, cores: float) -> None:
        """Refuse the call. Raises: ValueError, because the number of such cores is fixed."""
        raise ValueError("cores of two hardware threads cannot be shared with others")

    def begin(self, worker: W, cpu_s: float) -> None:
        core = min(range(len(self._loads)), key=self._loads.__getitem__)
        self._loads[core] += 1
        self._place[id(worker)], self._left_s[id(worker)] = core, (cpu_s, worker)
        worker.computing = True
        worker.steps += 1
        self._busy += 1

    def stop(self, worker: W) -> None:
        if worker.computing:
            self._loads[self._place.pop(id(worker))] -= 1
            del self._left_s[id(worker)]
        super().stop(worker)

    def first_done(self) -> W:
        worker = min(self._left_s.values(), key=lambda each: each[0] / self._speed_of(each[1]))[1]
        self.stop(worker)
        return worker

    def next_in_s(self) -> float:
        return min(
            (max(0.0, left_s) / self._speed_of(each) for left_s, each in self._left_s.values()), default=math.inf
        )

    def pass_s(self, elapsed_s: float) -> None:
        for key, (left_s, worker) in self._left_s.items():
            self._left_s[key] = left_s - elapsed_s * self._speed_of(worker), worker

    def _speed_of(self, worker: W) -> float:
        load = self._loads[self._place[id(worker)]]
        return 1.0 if load == 1 else 2 * self._pair_speed / load


class VirtualTime(Generic[R]):
    """A clock that is advanced explicitly, with actions at planned times."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._order = itertools.count()
        self._timers: list[tuple[float, int, Callable[[], R]]] = []

    def at(self, at_s: float, action: Callable[[], R]) -> None:
        """Plan ``action`` for this time; of equal times, the first planned comes first."""
        heapq.heappush(self._timers, (at_s, next(self._order), action))

    @property
    def next_s(self) -> float:
        """Return the time of the next action; infinite if there is none."""
        return self._timers[0][0] if self._timers else math.inf

    def do_next(self) -> R:
        return heapq.heappop(self._timers)[2]()
