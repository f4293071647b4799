"""A pipeline of operators, with any scheduler, worklists and number of workers; a core a worker.

An idle worker asks the scheduler, stays at the operator for its allotment, and asks again. Nothing here is left to
chance: in virtual time same arguments give the same trace.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Literal, NamedTuple

from compositions.batch_settings import SchedulerSettings
from lab.papers.prasaad.operators import Operator
from lab.papers.prasaad.station import Given, Sending, Station, Work
from lab.papers.prasaad.worklists import QueueName
from runtime.scheduling import make_scheduler
from runtime.scheduling.port import Book, Queue, Visit


@dataclass(frozen=True, slots=True)
class Setup:
    """The way to run the pipeline, and its costs in addition to the operators."""

    scheduler: str = "ct"
    queue: QueueName = "hybrid"
    workers: int = 16
    settings: SchedulerSettings = field(default_factory=SchedulerSettings)
    sending: Sending = "non-blocking"
    ring_slots: int = 1024
    ask_s: float = 0.0
    """Time of a question to the scheduler, which answers one at a time (section 2.2: it is central)."""
    send_s: float = 0.0
    """Time to send one output, for the worker that has the flag or the lock."""
    ingress: float = inf
    """Maximum number of inputs that wait before the first operator; while so many wait, the source waits."""
    move_s: float = 0.0
    """Time to bring the state of a partition to another worker; 0 in shared memory."""
    crowding: float = 0.0
    """Share that each further worker at an operator adds to its time for a tuple: they share its worklist, its
    ring and its memory. The paper names it (section 7.1) and gives no figure."""


_Step = Literal["arrive", "done", "sent"]


class _Happening(NamedTuple):
    step: _Step
    worker: int | None
    """Number of the worker whose step it is; None: an input arrives."""


class _VirtualTime:
    """The time of one run. Everything takes as long as planned; simultaneous steps occur in the planned order."""

    def __init__(self) -> None:
        self.now_s = 0.0
        """Time of the last step."""
        self._planned: list[tuple[float, int, _Happening]] = []
        self._order = itertools.count()

    def plan(self, at_s: float, step: _Step, worker: int | None) -> None:
        heapq.heappush(self._planned, (at_s, next(self._order), _Happening(step, worker)))

    def next(self, until_s: float) -> _Happening | None:
        """Return the earliest planned step and set ``now_s`` to its time; None: no step is planned."""
        if not self._planned or self._planned[0][0] > until_s:
            return None
        self.now_s, _, happening = heapq.heappop(self._planned)
        return happening


@dataclass(slots=True)
class _Worker:
    number: int
    at: int | None = None
    """Operator at which the worker is; None: idle."""
    began_s: float = 0.0
    budget: int = 0
    """Number of tuples left in its turn."""
    tuples: int = 0
    outputs: int = 0
    busy_s: float = 0.0
    work: Work | None = None
    given: Given | None = None

    @property
    def turn(self) -> tuple[int, Work]:
        """Return the operator, and the tuple that the worker has taken there."""
        if self.at is None or self.work is None:
            raise AssertionError(f"worker {self.number} is idle")
        return self.at, self.work


@dataclass(slots=True)
class Trace:
    """The events of a run."""

    begun_s: list[float]
    """Times when workers took the inputs."""
    outputs: list[tuple[float, int, int]] = field(default_factory=list)
    """Outputs: time, input, and value."""
    busy_s: list[float] = field(default_factory=list)
    """Time that workers spent on tuples, by operator."""
    most_waiting: list[int] = field(default_factory=list)
    """Longest worklist of each operator."""
    fronts: list[tuple[float, int]] = field(default_factory=list)
    """Times when everything that came from the first n inputs had passed the last operator, or had ended before it."""

    @property
    def front(self) -> int:
        return self.fronts[-1][1] if self.fronts else 0


class Plant:
    """One run. Raises: SchedulerError; RecomposeError if ``setup`` names something unknown."""

    def __init__(self, operators: Sequence[Operator], setup: Setup) -> None:
        self._setup = setup
        self._time = _VirtualTime()
        self.stations = [
            Station(operator, setup.queue, setup.ring_slots, setup.workers, setup.move_s) for operator in operators
        ]
        self._most = [operator.most_workers(setup.workers) for operator in operators]
        self._at = [0] * len(operators)
        """Number of workers at each operator."""
        self._scheduler = make_scheduler(setup.scheduler, setup.settings)
        self._book = Book(len(operators), setup.settings)
        self._workers = [_Worker(number) for number in range(setup.workers)]
        self._idle = list(reversed(self._workers))
        self._arrived = 0
        self._answered_s = 0.0
        """Time when the scheduler, one data structure for all workers, has answered the latest question."""

    def run(self, inputs: Sequence[int], rate_per_s: float | None = None, until_s: float = float("inf")) -> Trace:
        """Run ``inputs``, which arrive evenly or are all there, to the end or until ``until_s``."""
        self.trace = Trace([0.0] * len(inputs))
        self.trace.busy_s = [0.0] * len(self.stations)
        self.trace.most_waiting = [0] * len(self.stations)
        arriving, slots = iter(enumerate(inputs)), itertools.count(1)
        if rate_per_s is None:
            for origin, value in arriving:
                self._put(0, origin, value)
        else:
            self._time.plan(0.0, "arrive", None)
        self._employ()
        while (happening := self._time.next(until_s)) is not None:
            if happening.worker is not None:
                worker = self._workers[happening.worker]
                self._done(worker) if happening.step == "done" else self._sent(worker)
            elif rate_per_s is not None:
                if self.stations[0].worklist.waiting < self._setup.ingress:
                    if (following := next(arriving, None)) is None:
                        continue
                    self._put(0, *following)
                self._time.plan(next(slots) / rate_per_s, "arrive", None)
            if self._idle:
                self._employ()
        return self.trace

    def _put(self, at: int, origin: int, value: int) -> None:
        station = self.stations[at]
        station.put(origin, value)
        if at == 0:
            self._arrived += 1
        if station.worklist.waiting > self.trace.most_waiting[at]:
            self.trace.most_waiting[at] = station.worklist.waiting

    # --- turns ------------------------------------------------------------------------------------------------------

    def _employ(self) -> None:
        """Let idle workers ask, one after the other, until there is nothing to do for one of them."""
        queues = [self._queue(at) for at in range(len(self.stations))]
        while self._idle and any(queue.ready for queue in queues):
            looks = self._book.looks(self._time.now_s, queues)
            at = self._scheduler.choose(looks)
            if at is None:
                return
            if self._begin(at, self._scheduler.allotment(looks[at])):
                queues = [self._queue(at) for at in range(len(self.stations))]
            else:
                queues[at] = queues[at]._replace(ready=False)

    def _begin(self, at: int, budget: int) -> bool:
        """Let the first idle worker begin a turn that finds something there; only owners of partitions may not."""
        self._at[at] += 1
        for worker in reversed(self._idle):
            worker.at, worker.began_s, worker.budget = at, self._time.now_s, budget
            worker.tuples, worker.outputs, worker.busy_s = 0, 0, 0.0
            answered_s = max(self._answered_s, self._time.now_s) + self._setup.ask_s
            if self._take(worker, answered_s - self._time.now_s):
                self._answered_s = answered_s
                self._idle.remove(worker)
                return True
            worker.at = None
        self._at[at] -= 1
        return False

    def _queue(self, at: int) -> Queue:
        station = self.stations[at]
        return Queue(station.worklist.waiting, station.ready(), self._at[at], self._most[at])

    def _take(self, worker: _Worker, before_s: float = 0.0) -> bool:
        """Take the next tuple of its turn, if there is one."""
        assert worker.at is not None, "an idle worker has no turn"
        station = self.stations[worker.at]
        work = station.take(worker.number)
        if work is None:
            return False
        if worker.at == 0:
            self.trace.begun_s[work.entry.origin] = self._time.now_s
        others = self._at[worker.at] - 1
        work.seconds *= 1 + self._setup.crowding * others
        worker.work = work
        self._time.plan(self._time.now_s + before_s + work.seconds, "done", worker.number)
        return True

    def _done(self, worker: _Worker) -> None:
        """Handle a tuple that was run: its outputs are to be sent."""
        at, work = worker.turn
        station = self.stations[at]
        worker.given = station.run(work)
        worker.tuples += 1
        worker.budget -= 1
        worker.outputs += len(worker.given.values)
        worker.busy_s += work.seconds
        self.trace.busy_s[at] += work.seconds
        if self._setup.sending == "lock" and station.held:
            station.in_line.append(worker.number)
            return
        self._keep(worker, station)

    def _go_on(self, worker: _Worker) -> None:
        """Continue with the next tuples of its turn, or with another turn."""
        at, work = worker.turn
        station = self.stations[at]
        bound = station.worklist.done(worker.number, work.entry.partition)
        if (bound or worker.budget > 0) and self._take(worker):
            return
        station.worklist.left(worker.number)
        visit = Visit(worker.began_s, self._time.now_s, worker.tuples, worker.outputs, worker.busy_s)
        self._at[at] -= 1
        self._book.note(at, visit)
        worker.at = worker.work = None
        self._idle.append(worker)

    # --- sending ----------------------------------------------------------------------------------------------------

    def _keep(self, worker: _Worker, station: Station) -> None:
        """Put outputs into the ring, and send what is ready unless another worker does."""
        assert worker.given is not None, "it has run what it took"
        station.keep(worker.turn[1].entry, worker.given)
        if station.held:
            self._go_on(worker)
        else:
            station.held = True
            self._send(worker, station)

    def _send(self, worker: _Worker, station: Station) -> None:
        """Send all that is ready; a slot that is filled meanwhile is seen, because each is looked at again."""
        while station.ring.ready:
            if seconds := self._setup.send_s * len(station.ring.peek().values):
                self._time.plan(self._time.now_s + seconds, "sent", worker.number)
                return
            self._hand_on(station)
        station.held = False
        self._go_on(worker)
        if station.in_line:
            following = self._workers[station.in_line.popleft()]
            self._keep(following, station)

    def _sent(self, worker: _Worker) -> None:
        station = self.stations[worker.turn[0]]
        self._hand_on(station)
        self._send(worker, station)

    def _hand_on(self, station: Station) -> None:
        """Hand the next unit of the ring to the next operator, or out."""
        origin, values = station.leave()
        following = self.stations.index(station) + 1
        for value in values:
            if following < len(self.stations):
                self._put(following, origin, value)
            else:
                self.trace.outputs.append((self._time.now_s, origin, value))
        self._note_front()

    def _note_front(self) -> None:
        oldest = (station.oldest for station in self.stations)
        front = min((origin for origin in oldest if origin is not None), default=self._arrived)
        if front > self.trace.front:
            self.trace.fronts.append((self._time.now_s, front))
