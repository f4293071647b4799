"""The ``simulated`` pool: virtual time, workers that share a given number of cores.

A task is CPU work, which contends for cores, then waiting, which does not. While a task of stages that are an ``async
def`` waits, its worker is at the next one.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from apps.contract import App
from compositions.model import Loads
from lab.simulation.machine import Cores, Cost, CostFunction, Machine, PairedCores, VirtualTime
from profiler.snapshot import StageTiming
from runtime.dispatch.events import (
    Event,
    TaskDone,
    TaskFailed,
    WorkerAnswered,
    WorkerId,
    WorkerJoined,
    WorkerLost,
    WorkerStartFailed,
)
from runtime.dispatch.instructions import Task
from runtime.pools.calls import Calls
from runtime.pools.execute import run_now
from runtime.pools.local import run_task
from runtime.pools.set_up import set_up, tear_down


@dataclass(slots=True, eq=False)
class _Worker:
    worker: WorkerId
    loads: Loads = ()
    app: App | None = None
    calls: Calls | None = None
    tasks: deque[tuple[Task, float]] = field(default_factory=deque)
    began_s: float = 0.0
    costs: tuple[Cost, ...] = ()
    computing: bool = False
    steps: int = 0
    """Counts begun and ended computations; events that were planned for an earlier step are void."""

    def timings(self, task: Task, now_s: float, hop_cpu_s: float) -> tuple[StageTiming, ...]:
        """Return each stage's time: its CPU work stretched by the contention, plus its waiting."""
        wait_s = sum(cost.wait_s for cost in self.costs)
        cpu_s = sum(cost.cpu_s for cost in self.costs) + hop_cpu_s
        stretch = (now_s - self.began_s - wait_s) / cpu_s if cpu_s else 1.0
        return tuple(
            StageTiming(stage, cost.cpu_s * stretch + cost.wait_s, cost.cpu_s)
            for stage, cost in zip(task.stages, self.costs, strict=True)
        )


class SimulatedPool:
    """Virtual time moves in ``wait`` only. Without an app, tasks carry their payload through unchanged."""

    def __init__(self, cost: CostFunction, machine: Machine | None = None, make_app: Callable[[], App] | None = None):
        self._cost = cost
        self._machine = machine or Machine()
        self._make_app = make_app
        self._workers: dict[WorkerId, _Worker] = {}
        self._numbers = itertools.count(1)
        self._time = VirtualTime[Event | None]()
        self.cores = cores_of(self._machine)
        self._loop = asyncio.Runner()

    def now_s(self) -> float:
        return self._time.now_s

    def start(self, count: int, loads: Loads = ()) -> None:
        for _ in range(count):
            worker = _Worker(f"w{next(self._numbers)}", loads)
            start_s = self._machine.start_s + sum(self._machine.load_s.get(stage, 0.0) for stage in loads)
            self._time.at(self._time.now_s + start_s, lambda worker=worker: self._join(worker))  # type: ignore[misc]

    def end(self, worker: WorkerId, *, kill: bool = False) -> None:
        gone = self._workers.pop(worker, None)
        if gone is not None:
            self.cores.stop(gone)
            if gone.app is not None and not kill:
                tear_down(gone.app, gone.loads)

    def send(self, worker: WorkerId, tasks: Sequence[Task]) -> None:
        state = self._workers.get(worker)
        if state is None:
            return
        idle = not state.tasks
        state.tasks.extend((task, self._time.now_s) for task in tasks)
        if idle:
            self._begin(state, self._time.now_s + self._machine.hop_s)

    def ask(self, worker: WorkerId, losses: int) -> None:
        at_s = self._time.now_s + self._machine.hop_s
        self._time.at(at_s, lambda: WorkerAnswered(at_s, worker, losses) if worker in self._workers else None)

    def wait(self, until_s: float) -> Sequence[Event]:
        while True:
            at_s, compute = self._next()
            if at_s > until_s:
                self._pass(until_s)
                return []
            self._pass(at_s)
            event = self._computed() if compute else self._time.do_next()
            if event is not None:
                return [event]

    def wake(self) -> None:
        """Do nothing: ``wait`` never blocks."""

    def close(self) -> None:
        self._workers.clear()
        self._loop.close()

    def lose(self, worker: WorkerId) -> None:
        """Kill a worker now, for scenarios of worker loss."""
        if worker in self._workers:
            self.end(worker, kill=True)
            self._time.at(self._time.now_s, lambda: WorkerLost(self._time.now_s, worker, "lost in the simulation"))

    def set_cores(self, cores: float) -> None:
        """Set the cores of the workers from now on, for scenarios of noisy neighbours."""
        self.cores.share(cores)

    # --- time -------------------------------------------------------------------------------------------------------

    def _next(self) -> tuple[float, bool]:
        """Return the time of the next event, and whether it is the end of a computation."""
        compute_s = self._time.now_s + self.cores.next_in_s()
        timer_s = self._time.next_s
        return (compute_s, True) if compute_s < timer_s else (timer_s, False)

    def _pass(self, at_s: float) -> None:
        if at_s > self._time.now_s and not math.isinf(at_s):
            self.cores.pass_s(at_s - self._time.now_s)
            self._time.now_s = at_s

    # --- a task: [hop] -> compute -> wait -> done --------------------------------------------------------------------

    def _join(self, worker: _Worker) -> Event:
        if self._make_app is not None:
            try:
                worker.app = set_up(self._make_app, worker.loads)
                worker.calls = Calls(worker.app)
            except Exception as error:
                return WorkerStartFailed(self._time.now_s, f"{type(error).__name__}: {error}", loads=worker.loads)
        self._workers[worker.worker] = worker
        return WorkerJoined(self._time.now_s, worker.worker, 0, "simulated", worker.loads)

    def _begin(self, worker: _Worker, at_s: float) -> None:
        expected = worker.steps
        self._time.at(at_s, lambda: self._compute(worker, expected))

    def _compute(self, worker: _Worker, step: int) -> None:
        if worker.steps != step or worker.worker not in self._workers:
            return
        task = worker.tasks[0][0]
        worker.began_s = self._time.now_s
        worker.costs = tuple(_cost_of(self._cost, stage, task) for stage in task.stages)
        self.cores.begin(worker, self._machine.hop_cpu_s + sum(cost.cpu_s for cost in worker.costs))

    def _computed(self) -> Event | None:
        worker = self.cores.first_done()
        wait_s = sum(cost.wait_s for cost in worker.costs)
        if not wait_s:
            return self._done(worker)
        task, calls = worker.tasks[0][0], worker.calls
        at_once = 1 if calls is None else calls.at_once(task.stages)
        if calls is not None and not calls.alone(task.stages):
            self._wait_aside(worker, wait_s, at_once)
        else:  # its items may wait together; the next task begins only after it, because it may need its state
            at_s = self._time.now_s + wait_s / min(task.items, at_once)
            self._time.at(at_s, lambda: self._done(worker) if worker.worker in self._workers else None)
        return None

    def _wait_aside(self, worker: _Worker, wait_s: float, at_once: int) -> None:
        """Let its items wait, ``at_once`` at a time, while the worker continues with the next task."""
        task, _ = worker.tasks.popleft()
        timings = worker.timings(task, self._time.now_s + wait_s, self._machine.hop_cpu_s)
        at_s = self._time.now_s + wait_s / min(task.items, at_once)
        self._time.at(at_s, lambda: self._result(worker, task, timings) if worker.worker in self._workers else None)
        if worker.tasks:
            self._begin(worker, self._time.now_s)

    def _done(self, worker: _Worker) -> Event:
        task, _ = worker.tasks.popleft()
        event = self._result(worker, task, worker.timings(task, self._time.now_s, self._machine.hop_cpu_s))
        if worker.tasks:
            self._begin(worker, self._time.now_s)
        return event

    def _result(self, worker: _Worker, task: Task, timings: tuple[StageTiming, ...]) -> TaskDone | TaskFailed:
        if worker.calls is None:
            return TaskDone(self._time.now_s, worker.worker, task.task_id, task.payload, timings)
        work = run_task(worker.calls, worker.worker, task, self.now_s)
        result = self._loop.run(work) if worker.calls.wait else run_now(work)
        if isinstance(result, TaskFailed):
            return result
        return result._replace(timings=timings)


def cores_of(machine: Machine) -> Cores[_Worker]:
    """Return the cores on which its workers compute."""
    return Cores(machine.cores) if machine.threads is None else PairedCores(machine.cores, machine.threads)


def _cost_of(cost_of: CostFunction, stage: str, task: Task) -> Cost:
    """Return the cost of all its items; for a part of an item, its share by number of values."""
    costs = [cost_of(stage, serial) for serial in range(task.serial, task.serial + task.items)]
    picked = task.keyed.picked if task.keyed else None
    share = 1.0 if picked is None else picked.count(1) / len(picked)
    return Cost(share * sum(cost.cpu_s for cost in costs), share * sum(cost.wait_s for cost in costs))
