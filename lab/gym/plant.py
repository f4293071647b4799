"""Simulate the workers and the machine in virtual time: the plant on which every policy is tested.

It shares no code with the capacity model, by which the product predicts. The stages of an item run one after the other
on the worker with its task; at each stage, the item waits for a server, computes, and then waits. All computing workers
share the cores evenly (processor sharing), and the memory bandwidth too.

A version never changes: results name it, and a plant with another behaviour gets the next number.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from compositions.model import Loads
from lab.gym.model import Machine, StageModel, Work
from profiler.snapshot import StageTiming
from runtime.dispatch.events import Event, TaskDone, WorkerAnswered, WorkerId, WorkerJoined, WorkerLost
from runtime.dispatch.instructions import Task

VERSION = 3


@dataclass(slots=True, eq=False)
class _Worker:
    name: WorkerId
    speed: float
    asked_s: float
    tasks: deque[Task] = field(default_factory=deque)
    stage: int = -1
    """Index of the present stage within its task."""
    entered_s: float = 0.0
    """Time when it came to that stage."""
    held_s: float = 0.0
    """The clock of ``_Sharing.held_s`` when it began to compute; afterwards the time on a core that this took."""
    timings: list[StageTiming] = field(default_factory=list)
    holds: deque[_Worker] | None = None
    """The queue of the stage whose server it holds."""
    computes: _Sharing | None = None
    step: int = 0
    """Counts begun and ended steps; events that were planned for an earlier step are void."""
    alive: bool = False


class _Sharing:
    """Share cores among computing workers, on a clock that counts the work that each of them has done so far."""

    def __init__(self) -> None:
        self.got_s = 0.0
        """Seconds of work so far."""
        self.held_s = 0.0
        """Seconds on a core; more than the work if the memory's bandwidth is short."""
        self.rate = self.core = 1.0
        """Speeds of the two clocks."""
        self.count = 0
        self._ends: list[tuple[float, int, _Worker, int]] = []
        self._order = itertools.count()

    def begin(self, worker: _Worker, cpu_s: float) -> None:
        worker.step += 1
        worker.computes = self
        worker.held_s = self.held_s
        self.count += 1
        end_s = self.got_s + cpu_s / worker.speed
        heapq.heappush(self._ends, (end_s, next(self._order), worker, worker.step))

    def next_in_s(self) -> float:
        """Return the time until the first worker is done, if no other worker begins."""
        ends = self._ends
        while ends and ends[0][2].step != ends[0][3]:
            heapq.heappop(ends)
        return max(0.0, ends[0][0] - self.got_s) / self.rate if ends and self.rate > 0 else math.inf

    def first_done(self) -> _Worker:
        return heapq.heappop(self._ends)[2]


class Plant:
    """A pool of workers (``runtime.pools.port``) whose clock moves in ``wait`` only."""

    def __init__(self, work: Work, stages: Sequence[StageModel], machine: Machine) -> None:
        self._machine = machine
        self._stages = {stage.name: (index, stage) for index, stage in enumerate(stages)}
        self._cpu_s, self._wait_s = work.cpu_s.tolist(), work.wait_s.tolist()
        self._free = {stage.name: stage.servers or 0 for stage in stages}
        self._queues: dict[str, deque[_Worker]] = {stage.name: deque() for stage in stages}
        self._cores = machine.cores
        self._plain, self._moving = _Sharing(), _Sharing()
        self._bandwidth = 0.0
        self._now_s = 0.0
        self._timers: list[tuple[float, int, Callable[[], Event | None]]] = []
        self._order, self._numbers = itertools.count(), itertools.count()
        self._workers: dict[WorkerId, _Worker] = {}
        self.lives_s: list[tuple[float, float]] = []
        """Request and end of each worker that has ended, in seconds."""
        for at_s, taken in machine.taken:
            self._at(at_s, lambda taken=taken: self._take(taken))  # type: ignore[misc]
        for at_s in machine.deaths_s:
            self._at(at_s, self._die)

    # --- the port ---------------------------------------------------------------------------------------------------

    def now_s(self) -> float:
        return self._now_s

    def start(self, count: int, loads: Loads = ()) -> None:
        for _ in range(count):
            number = next(self._numbers)
            worker = _Worker(f"w{number + 1}", self._machine.speeds[number % len(self._machine.speeds)], self._now_s)
            self._workers[worker.name] = worker
            self._at(self._now_s + self._machine.start_s, lambda worker=worker: self._join(worker))  # type: ignore[misc]

    def end(self, worker: WorkerId, *, kill: bool = False) -> None:
        gone = self._workers.pop(worker, None)
        if gone is not None:
            self._leave(gone)

    def send(self, worker: WorkerId, tasks: Sequence[Task]) -> None:
        state = self._workers.get(worker)
        if state is None:
            return
        idle = not state.tasks
        state.tasks.extend(tasks)
        if idle:
            step = state.step
            self._at(self._now_s + self._machine.hop_s, lambda: self._begin(state) if state.step == step else None)

    def ask(self, worker: WorkerId, losses: int) -> None:
        at_s = self._now_s + self._machine.hop_s
        self._at(at_s, lambda: WorkerAnswered(at_s, worker, losses) if worker in self._workers else None)

    def wait(self, until_s: float) -> Sequence[Event]:
        while True:
            plain_s, moving_s = self._plain.next_in_s(), self._moving.next_in_s()
            computed_s = self._now_s + min(plain_s, moving_s)
            timer_s = self._timers[0][0] if self._timers else math.inf
            at_s = min(computed_s, timer_s)
            if at_s > until_s:
                self._pass(until_s)
                return []
            self._pass(at_s)
            if computed_s < timer_s:
                event = self._computed(self._plain if plain_s <= moving_s else self._moving)
            else:
                event = heapq.heappop(self._timers)[2]()
            if event is not None:
                return [event]

    def wake(self) -> None:
        """Do nothing: ``wait`` never blocks."""

    def close(self) -> None:
        for worker in list(self._workers):
            self.end(worker)

    # --- time and cores ---------------------------------------------------------------------------------------------

    def alive_s(self, from_s: float, until_s: float) -> float:
        """Return the seconds of workers between two times, each counted from its request to its end."""
        lives = [*self.lives_s, *((worker.asked_s, math.inf) for worker in self._workers.values())]
        return sum(max(0.0, min(end_s, until_s) - max(begin_s, from_s)) for begin_s, end_s in lives)

    @property
    def alive(self) -> int:
        """Return the number of workers that were requested and have not ended."""
        return len(self._workers)

    def _at(self, at_s: float, action: Callable[[], Event | None]) -> None:
        heapq.heappush(self._timers, (at_s, next(self._order), action))

    def _pass(self, at_s: float) -> None:
        elapsed_s = at_s - self._now_s
        if elapsed_s > 0 and not math.isinf(at_s):
            for sharing in (self._plain, self._moving):
                sharing.got_s += elapsed_s * sharing.rate
                sharing.held_s += elapsed_s * sharing.core
            self._now_s = at_s

    def _share(self) -> None:
        """Set the speed of the computing workers."""
        busy = self._plain.count + self._moving.count
        core = min(1.0, self._cores / busy) if busy else 1.0
        self._plain.rate = self._plain.core = self._moving.core = core
        self._moving.rate = min(core, 1.0 / self._bandwidth) if self._bandwidth > 1 else core

    def _take(self, taken: int) -> None:
        self._cores = max(0, self._machine.cores - taken)
        self._share()

    # --- workers ----------------------------------------------------------------------------------------------------

    def _join(self, worker: _Worker) -> Event | None:
        if worker.name not in self._workers:
            return None
        worker.alive = True
        return WorkerJoined(self._now_s, worker.name, 0, "plant")

    def _die(self) -> Event | None:
        worker = next((each for each in self._workers.values() if each.alive), None)
        if worker is None:
            return None
        self.end(worker.name)
        return WorkerLost(self._now_s, worker.name, "it died")

    def _leave(self, worker: _Worker) -> None:
        self.lives_s.append((worker.asked_s, self._now_s))
        if worker.computes is not None:
            self._stop(worker)
        for queue in self._queues.values():
            if worker in queue:
                queue.remove(worker)
        self._release(worker)
        worker.step += 1
        worker.alive = False

    # --- a task: hop, then for each stage: server, compute, wait ----------------------------------------------------

    def _begin(self, worker: _Worker) -> Event | None:
        worker.stage = -1
        worker.timings = []
        return self._next_stage(worker)

    def _next_stage(self, worker: _Worker) -> Event | None:
        task = worker.tasks[0]
        worker.stage += 1
        if worker.stage == len(task.stages):
            worker.tasks.popleft()
            worker.step += 1
            if worker.tasks:
                step = worker.step
                self._at(self._now_s, lambda: self._begin(worker) if worker.step == step else None)
            return TaskDone(self._now_s, worker.name, task.task_id, task.payload, tuple(worker.timings))
        worker.entered_s = self._now_s
        name = task.stages[worker.stage]
        if self._stages[name][1].servers is not None:
            if not self._free[name]:
                self._queues[name].append(worker)
                worker.step += 1
                return None
            self._free[name] -= 1
            worker.holds = self._queues[name]
        return self._compute(worker)

    def _compute(self, worker: _Worker) -> Event | None:
        task = worker.tasks[0]
        index, stage = self._stages[task.stages[worker.stage]]
        cpu_s = _total(self._cpu_s, task, index)
        if not worker.stage:
            cpu_s += self._machine.hop_cpu_s
        (self._moving if stage.bandwidth else self._plain).begin(worker, cpu_s)
        self._bandwidth += stage.bandwidth
        self._share()
        return None

    def _stop(self, worker: _Worker) -> None:
        assert worker.computes is not None, "who stops computes"
        stage = self._stages[worker.tasks[0].stages[worker.stage]][1]
        worker.computes.count -= 1
        worker.held_s = worker.computes.held_s - worker.held_s
        worker.computes = None
        self._bandwidth = self._bandwidth - stage.bandwidth if self._moving.count else 0.0
        self._share()

    def _computed(self, sharing: _Sharing) -> Event | None:
        worker = sharing.first_done()
        self._stop(worker)
        task = worker.tasks[0]
        index = self._stages[task.stages[worker.stage]][0]
        wait_s = _total(self._wait_s, task, index)
        if not wait_s:
            return self._stage_done(worker)
        worker.step += 1
        step = worker.step
        self._at(self._now_s + wait_s, lambda: self._stage_done(worker) if worker.step == step else None)
        return None

    def _stage_done(self, worker: _Worker) -> Event | None:
        task = worker.tasks[0]
        name = task.stages[worker.stage]
        cpu_s = worker.held_s if worker.stage else max(0.0, worker.held_s - self._machine.hop_cpu_s / worker.speed)
        worker.timings.append(StageTiming(name, self._now_s - worker.entered_s, cpu_s))
        self._release(worker)
        return self._next_stage(worker)

    def _release(self, worker: _Worker) -> None:
        """Release the server that a worker holds; the longest-waiting worker gets it."""
        queue, worker.holds = worker.holds, None
        if queue is None:
            return
        name = next(name for name, each in self._queues.items() if each is queue)
        if queue:
            other = queue.popleft()
            other.holds = queue
            self._compute(other)
        else:
            self._free[name] += 1


def _total(costs_s: Sequence[Sequence[float]], task: Task, stage: int) -> float:
    """Return the time that a stage takes for all items of a task."""
    if task.items == 1:
        return costs_s[task.serial][stage]
    return sum(costs_s[serial][stage] for serial in range(task.serial, task.serial + task.items))
