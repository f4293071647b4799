"""A run of a random app on the dispatcher alone, with the workers' own code and everything that may happen to a stream:
bundles of any size, switches, resizes, compositions whose workers choose, workers that are lost, that come late or not
at all, items that kill them, late reports of lost workers, tasks that fail once, items that are shed or refused, and
crashes after which another dispatcher continues. A seed decides everything. The results are compared with those of a
plain loop.

    python -m lab.benchmarks.mixed.played [--runs 5000] [--seed 0] [--json]

plays many runs, one after the other; a faulty one is repeated with ``--seed NUMBER --runs 1``.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from random import Random
from typing import Annotated, Any

from compositions.dynamic import SCHEDULER_NAMES, Dyn
from compositions.model import Composition
from compositions.rules import groups_of_dyn
from lab.benchmarks.harness import Rows, main, progress
from lab.benchmarks.mixed.apps.shaped import MAY_FAIL, Shape, Shaped, stages_of
from lab.benchmarks.mixed.drawn import Out, drawn_composition, drawn_kinds, plain_loop, resized
from lab.simulation.invariants import CheckedDispatcher
from runtime.dispatch.checkpoint import BEGINNING, Checkpoint
from runtime.dispatch.events import (
    BundleAdmitted,
    Event,
    ItemFault,
    SwitchCalledOff,
    SwitchRequested,
    SwitchStyle,
    TaskDone,
    TaskFailed,
    Tick,
    WorkerAnswered,
    WorkerJoined,
    WorkerLost,
    WorkerStartFailed,
)
from runtime.dispatch.instructions import AskWorker, Instruction, KillWorker, SendTask, StartWorkers, StopWorker, Task
from runtime.dispatch.keys import Routed
from runtime.dispatch.outcomes import Delivered, Shed, SwitchEnded
from runtime.dispatch.settings import DispatcherSettings
from runtime.pools.calls import Calls
from runtime.pools.keyed import routing
from runtime.pools.local import CODEC, run_task

ALWAYS = 3600.0
"""A drain limit that no run reaches; a drain that would need it is stuck."""
ROUNDS = 4_000


@dataclass
class Hand:
    """A worker: tasks that it received and has not begun, and events that it has not reported."""

    calls: Calls
    tasks: deque[Task] = field(default_factory=deque)
    done: deque[Event] = field(default_factory=deque)
    speed: float = 1.0
    """Speed relative to the other workers."""


@dataclass
class Counts:
    """Counts of a run."""

    items: int = 0
    losses: int = 0
    changes: int = 0
    crashes: int = 0


class PlayedError(AssertionError):
    """The output differs from that of a plain loop, or the run is stuck."""


class Played:
    """One random run; call ``play`` once."""

    def __init__(self, seed: int) -> None:
        self.chance = chance = Random(seed)
        self.kinds = drawn_kinds(chance)
        self.stages = stages_of(self.kinds)
        self.app = Shaped(Shape(kinds=self.kinds))
        self.fails_once = chance.random() < 0.5 and not set(MAY_FAIL) & set(self.kinds)
        self.deadly = set(chance.sample(range(23), 1)) if chance.random() < 0.2 else set()
        """Items with these numbers, modulo 23, kill the worker that runs the first stage on them."""
        self.durable = chance.random() < 0.5
        self.barren = chance.random() < 0.2 and not self.deadly
        """True if no worker that is started during the run comes up."""
        self.uneven = chance.random() < 0.2
        """True if some workers are slow; the run then continues until that is detected."""
        self.settings = DispatcherSettings(
            buffer_items=chance.choice((4, 100)),
            overload=chance.choice(("block", "block", "block", "shed")),
            attempts=100 if self.fails_once else 3,
            losses=3 if self.deadly else 100,  # only the app may make dead letters
            spares=chance.choice((0, 0, 1, 2)),
            idle_worker_s=chance.choice((0.0, 300.0)),
            prefetch_below_s=chance.choice((0.0, 60.0)),
            reorder_items=chance.choice((4, 1024)),
            started_bytes=chance.choice((1, 2000, 2**31)),
            drain_limit_s=chance.choice((0.05, ALWAYS, ALWAYS)),
            time_limit_s=1e9,
            restart_pause_s=0.1,
        )
        self.refused = set(chance.sample(range(19), chance.choice((0, 0, 0, 1, 6))))
        """Numbers, modulo 19, of the items that the app refuses."""
        self.encode = routing(self.app, CODEC.encode)
        self.loop = asyncio.Runner()
        self.now_s, self.names = 0.0, 0
        self.out: list[Out | Shed] = []
        """Results of all items; ``Shed`` for a dropped one."""
        self.counts = Counts()
        self._begin(BEGINNING)

    def _begin(self, begin: Checkpoint) -> None:
        """Create a dispatcher that continues from a checkpoint."""
        del self.out[begin.next_serial :]
        self.admitted = begin.next_serial
        self.latest = begin
        self.keyed = {
            stage: {partition: dict(states) for partition, states in partitions.items()}
            for stage, partitions in begin.keyed.items()
        }
        self.hands: dict[str, Hand] = {}
        self.to_start = 0
        self.late: list[Event] = []
        self.asked: list[AskWorker] = []
        self.dispatcher = CheckedDispatcher(
            *(self.stages, self._composition(), self.settings, CODEC.size_bytes), begin=begin if self.durable else None
        )
        self._carry_out(self.dispatcher.start(self.now_s))

    def _handle(self, event: Event) -> None:
        instructions, outcomes = self.dispatcher.handle(event)
        for outcome in outcomes:
            if isinstance(outcome, Shed):
                self.out += [outcome] * outcome.count
            elif isinstance(outcome, Delivered):
                self._take(outcome)
            elif isinstance(outcome, SwitchEnded):
                self.counts.changes += outcome.error is None
        self._carry_out(instructions)
        if self.durable and self.chance.random() < 0.3:
            self._keep(self.dispatcher.checkpoint(len(self.out)))

    def _take(self, out: Delivered) -> None:
        if out.serial != len(self.out):
            raise PlayedError(f"item {out.serial} came out; it was the turn of {len(self.out)}")
        whole = [None] if out.error is not None else CODEC.decode(out.payload, out.start, out.start + out.count)
        self.out += whole

    def _keep(self, point: Checkpoint | None) -> None:
        if point is None:
            return
        for stage, partitions in point.keyed.items():
            for partition, states in partitions.items():
                self.keyed.setdefault(stage, {}).setdefault(partition, {}).update(states)
        whole = {
            stage: {partition: dict(states) for partition, states in partitions.items()}
            for stage, partitions in self.keyed.items()
        }
        self.latest = replace(point, keyed=whole)

    def _carry_out(self, instructions: list[Instruction]) -> None:
        for each in instructions:
            if isinstance(each, SendTask):
                self.hands[each.worker].tasks.append(each.task)
            elif isinstance(each, StartWorkers):
                self.to_start += each.count
            elif isinstance(each, AskWorker):
                self.asked.append(each)
            elif isinstance(each, StopWorker | KillWorker):
                self.late += self.hands.pop(each.worker).done

    def _admit(self) -> None:
        if not self.dispatcher.has_room:
            return
        if self.admitted % 19 in self.refused:
            self.admitted += 1
            self._handle(BundleAdmitted(self.now_s, (self.now_s,), None, error="told to"))
            return
        most = self.chance.choice((1, 1, 2, 5, 17))
        numbers = list(range(self.admitted, self.admitted + most))
        ends = (at for at, number in enumerate(numbers) if number % 19 in self.refused)
        numbers = numbers[: next(ends, most)]
        payload, times = self.encode(numbers), (self.now_s,) * len(numbers)
        routes = None
        if type(payload) is Routed:
            payload, routes = payload
        self.admitted += len(numbers)
        self._handle(BundleAdmitted(self.now_s, times, payload, None, routes))

    def _join(self) -> None:
        if not self.to_start:
            return
        self.to_start -= 1
        if self.barren and self.hands:
            self._handle(WorkerStartFailed(self.now_s, "told to"))
            return
        self.names += 1
        name = f"w{self.names}"
        speed = self.chance.choice((1.0, 1.0, 0.25)) if self.uneven else 1.0
        self.hands[name] = Hand(Calls(Shaped(Shape(kinds=self.kinds))), speed=speed)
        self._handle(WorkerJoined(self.now_s, name))

    def _work(self) -> None:
        """Let a worker run a task; it reports later."""
        busy = {name: hand.speed for name, hand in self.hands.items() if hand.tasks}
        if busy:
            (name,) = self.chance.choices(list(busy), list(busy.values()))
            self._run(name, self.hands[name])

    def _run(self, name: str, hand: Hand) -> None:
        alone = (at for at, task in enumerate(hand.tasks) if hand.calls.alone(task.stages))
        at = self.chance.randint(0, next(alone, len(hand.tasks) - 1))
        task = hand.tasks[at]
        if self.deadly and task.stages[0] == self.stages[0].name and self._kills(task):
            while hand.done:  # its earlier reports still arrive
                self._handle(_at(hand.done.popleft(), self.now_s))
            self.now_s += 0.001
            if name in self.hands:
                self._lost(name)
            return
        del hand.tasks[at]
        event = self.loop.run(run_task(hand.calls, name, task, lambda: self.now_s))
        if self.fails_once and isinstance(event, TaskDone) and self.chance.random() < 0.1:
            event = self._failed(name, task, event, hand)
        hand.done.append(event)

    def _kills(self, task: Task) -> bool:
        picked = task.keyed.picked if task.keyed else None
        items = (at for at in range(task.items) if picked is None or picked[at])
        return any((task.serial + at) % 23 in self.deadly for at in items)

    def _failed(self, name: str, task: Task, done: TaskDone, hand: Hand) -> Event:
        at = self.chance.randrange(task.items)
        if task.items > 1 and not hand.calls.stateful & set(task.stages) and self.chance.random() < 0.5:
            return done._replace(faults=(ItemFault(at, task.stages[0], "told to"),))
        hand.calls.keyed.undo(task.task_id, task.stages)
        values = task.keyed.picked.count(1) if task.keyed and task.keyed.picked else task.items
        position = self.chance.choice((None, self.chance.randrange(values)))
        return TaskFailed(self.now_s, name, task.task_id, task.stages[0], "told to", position)

    def _say(self) -> None:
        told = [hand for hand in self.hands.values() if hand.done]
        if told:
            self._handle(_at(self.chance.choice(told).done.popleft(), self.now_s))

    def _say_late(self) -> None:
        """Let a worker report that was already considered lost."""
        if self.late:
            self._handle(_at(self.late.pop(), self.now_s))

    def _answer(self) -> None:
        if self.asked:
            asked = self.asked.pop(0)
            self._handle(WorkerAnswered(self.now_s, asked.worker, asked.losses))

    def _lose(self) -> None:
        if self.hands and not self.deadly and not (self.barren and len(self.hands) == 1):
            self._lost(self.chance.choice(list(self.hands)))

    def _lost(self, name: str) -> None:
        self.late += self.hands.pop(name).done
        self.counts.losses += 1
        self._handle(WorkerLost(self.now_s, name, "told to"))

    def _switch(self) -> None:
        estimate_s = self.chance.choice((0.0, 0.05))
        style = self.chance.choice(list(SwitchStyle))
        self._handle(SwitchRequested(self.now_s, self._composition(), style, estimate_s, estimate_s))

    def _resize(self) -> None:
        active = self.dispatcher.view(self.now_s).composition
        if active.dyn is None:
            self._handle(SwitchRequested(self.now_s, resized(self.chance, active, self.stages)))

    def _call_off(self) -> None:
        self._handle(SwitchCalledOff(self.now_s, "told to"))

    def _tick(self) -> None:
        self.now_s += self.chance.choice((0.0, 0.25))
        self._handle(Tick(self.now_s))

    def _crash(self) -> None:
        if self.durable and self.chance.random() < 0.3:
            self.counts.crashes += 1
            self._begin(self.latest)

    def _composition(self) -> Composition:
        if self.chance.random() < 0.2:
            workers, scheduler = self.chance.randint(1, 4), self.chance.choice(SCHEDULER_NAMES)
            return Composition(f"Dyn{workers}", groups_of_dyn(self.stages, workers), dyn=Dyn(workers, scheduler))
        return drawn_composition(self.chance, self.stages)

    def play(self) -> Counts:
        """Play the run. Raises: PlayedError, and DispatcherError for an inconsistent state between events."""
        rarely = 0.05 if self.uneven else 1.0
        actions: tuple[tuple[float, Callable[[], Any]], ...] = (
            *((8, self._admit), (6, self._join), (16, self._work), (16, self._say), (1, self._say_late)),
            *((2, self._answer), (2, self._tick), (3 * rarely, self._lose), (2 * rarely, self._switch)),
            *((2 * rarely, self._resize), (rarely, self._call_off), (rarely, self._crash)),
        )
        weights = [weight for weight, _ in actions]
        try:
            for _ in range(self.chance.randint(300, 2000) if self.uneven else self.chance.randint(20, 300)):
                self.now_s += self.chance.choice((0.0, 0.001, 0.02))
                self.chance.choices(actions, weights)[0][1]()
            self._finish()
        finally:
            self.loop.close()
        self._check()
        self.counts.items = self.admitted
        return self.counts

    def _finish(self) -> None:
        """Close the input and let all remaining work finish."""
        for number in range(ROUNDS):
            if self.dispatcher.idle and not self.dispatcher.view(self.now_s).switching:
                return
            self.now_s += 0.01
            if number % 25 == 0:
                self._handle(Tick(self.now_s))
            self._join()
            self._answer()
            self._work()
            self._say()
        raise PlayedError(f"it stands still: {self.dispatcher.view(self.now_s)}")

    def _check(self) -> None:
        kept = [number for number, out in enumerate(self.out) if not isinstance(out, Shed)]
        good = [number for number in kept if number % 19 not in self.refused and number % 23 not in self.deadly]
        expected = dict(zip(good, plain_loop(self.kinds, good), strict=True))
        if len(self.out) != self.admitted:
            raise PlayedError(f"{self.admitted} items went in and {len(self.out)} came out")
        for number in kept:
            is_so, must_be = self.out[number], expected.get(number)
            if is_so != must_be or type(is_so) is not type(must_be):
                raise PlayedError(f"item {number} came out as {is_so!r}; a plain loop gives {must_be!r}")


def _at(event: Event, now_s: float) -> Event:
    """Return the event with the current time."""
    return event._replace(at_s=now_s) if isinstance(event, TaskDone | BundleAdmitted) else replace(event, at_s=now_s)


def measure(runs: int = 5000, seed: Annotated[int, "number of the first run; the others follow"] = 0) -> Iterator[Rows]:
    sums, faults = Counter[str](), dict[str, bool]()
    for number in range(seed, seed + runs):
        try:
            sums.update(asdict(Played(number).play()))
        except Exception as error:
            fault = f"run {number}: {type(error).__name__}: {error}".splitlines()[0]
            faults[fault] = False
            progress(fault)
    yield Rows("random streams", [{"runs": runs, "faults": len(faults), **sums}], faults)


if __name__ == "__main__":
    main(measure)
