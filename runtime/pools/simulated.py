"""The ``simulated`` pool: virtual time, workers that share a given number of cores.

Cores are shared as an operating system does it: with more busy workers than cores all run at the same reduced speed
(processor sharing). A task is CPU work, which contends for cores, then waiting, which does not.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from apps.contract import App
from profiler.snapshot import StageTiming
from runtime.dispatch.events import (
    Event,
    Task,
    TaskDone,
    TaskFailed,
    WorkerId,
    WorkerJoined,
    WorkerLost,
    WorkerStartFailed,
)
from runtime.pools.local import run_task


@dataclass(frozen=True, slots=True)
class Cost:
    """What one stage takes for one item: seconds of CPU, and seconds of waiting for something else."""

    cpu_s: float
    wait_s: float = 0.0


CostFunction = Callable[[str, int], Cost]
"""(stage, serial) -> cost; deterministic, so that every composition meets the same work."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The simulated machine. A hop delays a task that its worker was idle for, and always takes CPU."""

    cores: int = 2
    hop_s: float = 0.0001
    hop_cpu_s: float = 0.0001
    start_s: float = 1.0


@dataclass(slots=True, eq=False)
class _Worker:
    worker: WorkerId
    app: App | None = None
    tasks: deque[tuple[Task, float]] = field(default_factory=deque)
    began_s: float = 0.0
    costs: tuple[Cost, ...] = ()
    version: int = 0
    """Counts up with each phase: an older entry in a heap is void."""


class SimulatedPool:
    """Virtual time moves in ``wait`` only. Without an app, tasks carry their payload through unchanged."""

    def __init__(self, cost: CostFunction, machine: Machine | None = None, make_app: Callable[[], App] | None = None):
        self._cost = cost
        self._machine = machine or Machine()
        self._make_app = make_app
        self._now_s = 0.0
        self._workers: dict[WorkerId, _Worker] = {}
        self._numbers = itertools.count(1)
        self._order = itertools.count()
        self._timers: list[tuple[float, int, Callable[[], Event | None]]] = []
        self._computing: list[tuple[float, int, _Worker, int]] = []
        self._busy = 0
        self._work_done_s = 0.0
        """CPU seconds that each computing worker has got so far: the clock of processor sharing."""

    def now_s(self) -> float:
        return self._now_s

    def start(self, count: int) -> None:
        for _ in range(count):
            worker = _Worker(f"w{next(self._numbers)}")
            self._at(self._now_s + self._machine.start_s, lambda worker=worker: self._join(worker))  # type: ignore[misc]

    def end(self, worker: WorkerId, *, kill: bool = False) -> None:
        gone = self._workers.pop(worker, None)
        if gone is not None and gone.version % 2:
            self._stop_computing(gone)

    def send(self, worker: WorkerId, task: Task) -> None:
        state = self._workers.get(worker)
        if state is None:
            return
        state.tasks.append((task, self._now_s))
        if len(state.tasks) == 1:
            self._begin(state, self._now_s + self._machine.hop_s)

    def wait(self, until_s: float) -> Sequence[Event]:
        while True:
            at_s, compute = self._next()
            if at_s > until_s:
                self._pass(until_s)
                return []
            self._pass(at_s)
            event = self._finish_computing() if compute else heapq.heappop(self._timers)[2]()
            if event is not None:
                return [event]

    def wake(self) -> None:
        """Nothing to wake: ``wait`` never blocks."""

    def close(self) -> None:
        self._workers.clear()

    def lose(self, worker: WorkerId) -> None:
        """For scenarios of worker loss: it dies now."""
        if worker in self._workers:
            self.end(worker)
            self._at(self._now_s, lambda: WorkerLost(self._now_s, worker, "lost in the simulation"))

    # --- time -------------------------------------------------------------------------------------------------------

    def _at(self, at_s: float, action: Callable[[], Event | None]) -> None:
        heapq.heappush(self._timers, (at_s, next(self._order), action))

    def _speed(self) -> float:
        return min(1.0, self._machine.cores / self._busy) if self._busy else 1.0

    def _next(self) -> tuple[float, bool]:
        """When the next thing happens, and whether it is the end of a computation."""
        while self._computing and self._computing[0][2].version != self._computing[0][3]:
            heapq.heappop(self._computing)
        compute_s = math.inf
        if self._computing:
            compute_s = self._now_s + max(0.0, self._computing[0][0] - self._work_done_s) / self._speed()
        timer_s = self._timers[0][0] if self._timers else math.inf
        return (compute_s, True) if compute_s < timer_s else (timer_s, False)

    def _pass(self, at_s: float) -> None:
        if at_s > self._now_s and not math.isinf(at_s):
            self._work_done_s += (at_s - self._now_s) * self._speed()
            self._now_s = at_s

    # --- a task: [hop] -> compute (odd version) -> wait (even version) -> done ----------------------------------------

    def _join(self, worker: _Worker) -> Event:
        if self._make_app is not None:
            try:
                worker.app = self._make_app()
                worker.app.setup()
            except Exception as error:
                return WorkerStartFailed(self._now_s, f"{type(error).__name__}: {error}")
        self._workers[worker.worker] = worker
        return WorkerJoined(self._now_s, worker.worker, 0, "simulated")

    def _begin(self, worker: _Worker, at_s: float) -> None:
        expected = worker.version
        self._at(at_s, lambda: self._compute(worker, expected))

    def _compute(self, worker: _Worker, version: int) -> None:
        if worker.version != version or worker.worker not in self._workers:
            return
        task = worker.tasks[0][0]
        worker.began_s = self._now_s
        worker.costs = tuple(self._cost(stage, task.serial) for stage in task.stages)
        worker.version += 1
        self._busy += 1
        cpu_s = self._machine.hop_cpu_s + sum(cost.cpu_s for cost in worker.costs)
        entry = (self._work_done_s + cpu_s, next(self._order), worker, worker.version)
        heapq.heappush(self._computing, entry)

    def _stop_computing(self, worker: _Worker) -> None:
        worker.version += 1
        self._busy -= 1

    def _finish_computing(self) -> Event | None:
        worker = heapq.heappop(self._computing)[2]
        self._stop_computing(worker)
        wait_s = sum(cost.wait_s for cost in worker.costs)
        if not wait_s:
            return self._done(worker)
        self._at(self._now_s + wait_s, lambda: self._done(worker) if worker.worker in self._workers else None)
        return None

    def _done(self, worker: _Worker) -> Event:
        task, _ = worker.tasks.popleft()
        event = self._result(worker, task)
        if worker.tasks:
            self._begin(worker, self._now_s)
        return event

    def _result(self, worker: _Worker, task: Task) -> TaskDone | TaskFailed:
        timings = self._timings(worker, task)
        if worker.app is None:
            return TaskDone(self._now_s, worker.worker, task.task_id, task.payload, timings)
        result = run_task(worker.app, worker.worker, task, self.now_s)
        if isinstance(result, TaskFailed):
            return result
        return TaskDone(self._now_s, worker.worker, task.task_id, result.payload, timings, result.states)

    def _timings(self, worker: _Worker, task: Task) -> tuple[StageTiming, ...]:
        """Each stage's share of the time it took: its CPU work stretched by the contention, plus its waiting."""
        wait_s = sum(cost.wait_s for cost in worker.costs)
        cpu_s = sum(cost.cpu_s for cost in worker.costs) + self._machine.hop_cpu_s
        stretch = (self._now_s - worker.began_s - wait_s) / cpu_s if cpu_s else 1.0
        return tuple(
            StageTiming(stage, cost.cpu_s * stretch + cost.wait_s, cost.cpu_s)
            for stage, cost in zip(task.stages, worker.costs, strict=True)
        )


def constant_cost(service_s: Mapping[str, float], *, wait: bool = False) -> CostFunction:
    """Every item costs the same; ``wait`` makes the stages sleep instead of compute."""
    costs = {stage: Cost(0.0, s) if wait else Cost(s) for stage, s in service_s.items()}
    return lambda stage, serial: costs[stage]
