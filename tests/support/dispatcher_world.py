"""A world around the dispatcher: it plays all workers, and its items and states tell all that happened to them."""

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import replace
from itertools import compress
from typing import Any

from compositions.model import Composition, Loads, Stage, StageKind, loads_of
from lab.simulation.invariants import CheckedDispatcher
from runtime.dispatch.checkpoint import BEGINNING, Checkpoint
from runtime.dispatch.events import (
    NOTHING_KEYED,
    BundleAdmitted,
    Event,
    ItemFault,
    KeyedDone,
    SwitchCalledOff,
    SwitchRequested,
    TaskDone,
    TaskFailed,
    Tick,
    WorkerAnswered,
    WorkerJoined,
    WorkerLeaving,
    WorkerLost,
)
from runtime.dispatch.instructions import AskWorker, Instruction, KillWorker, SendTask, StartWorkers, StopWorker, Task
from runtime.dispatch.keys import Mosaic, Routes
from runtime.dispatch.outcomes import Delivered, Shed, SwitchEnded
from runtime.dispatch.settings import DispatcherSettings

STAGES = (Stage("a"), Stage("b"), Stage("c", StageKind.STATEFUL), Stage("d"))
WAITING = (replace(STAGES[0], concurrency=2), replace(STAGES[1], concurrency=5), *STAGES[2:])
"""A worker of a group with one of these and without a state has several tasks at once."""
AT_ONCE = {"a": 2, "b": 5}
KEYED = (STAGES[0], Stage("b", StageKind.PARTITIONED, partitions=3), *STAGES[2:])
KEYED_FIRST = (Stage("a", StageKind.PARTITIONED, partitions=4), *KEYED[1:])
HEAVY = (STAGES[0], replace(STAGES[1], setup="per-group"), replace(STAGES[2], setup="per-group"), STAGES[3])
HEAVY_KEYED = (STAGES[0], replace(KEYED[1], setup="per-group"), *STAGES[2:])
"""Only the workers of their groups load some of them."""
KEYS = 5
NAMES = tuple(stage.name for stage in STAGES)
History = tuple[object, ...]
"""All that happened to an item."""


def key_of(serial: int, stage: str) -> int:
    """Another one for each stage."""
    return (serial * (2 if stage == "a" else 3)) % KEYS


def size_bytes(payload: Mosaic | tuple[History | None, ...] | int) -> int:
    """Of a state, a number; of items, which grow from stage to stage."""
    if isinstance(payload, Mosaic):
        return sum(map(size_bytes, payload.parts))
    return 8 if isinstance(payload, int) else sum(1 + 10 * len(history) for history in payload if history is not None)


def copied(keyed: Any) -> Any:
    """States of stages by partition and key."""
    return {stage: {part: dict(states) for part, states in parts.items()} for stage, parts in keyed.items()}


class World:
    """Plays all workers: carries out instructions, and answers tasks when told to."""

    def __init__(
        self,
        composition: Composition,
        settings_: DispatcherSettings,
        stages: tuple[Stage, ...] = STAGES,
        begin: Checkpoint = BEGINNING,
    ) -> None:
        self.stages = stages
        self.dispatcher = CheckedDispatcher(stages, composition, settings_, size_of=size_bytes, begin=begin)
        self.began = begin.next_serial
        self.checkpoints: list[tuple[int, Checkpoint]] = []
        """After each event, with how many outcomes are before it."""
        self.whole = [begin.next_serial]
        """The serial numbers behind the bundles that came in."""
        self.kept = copied(begin.keyed)
        """Of partitioned stages, at the latest checkpoint."""
        self.now_s = 0.0
        self.tasks: dict[str, deque[Task]] = {}
        self.tables: dict[tuple[str, str, int], dict[int, int]] = {}
        """What a worker has of a stage's partition: a count for each key."""
        self.failed: dict[str, int] = {}
        """The latest task of a worker that came to nothing."""
        self.gone: list[tuple[str, Task]] = []
        self.leaving: set[str] = set()
        self.asked: list[AskWorker] = []
        self.to_start: deque[Loads] = deque()
        """The classes of those on their way."""
        self.loads: dict[str, Loads] = {}
        self.names = 0
        self.admitted = begin.next_serial
        self.out: list[Delivered | Shed] = []
        self.requested = self.ended = 0
        self.carry_out(self.dispatcher.start(0.0))

    def handle(self, event: Event) -> None:
        instructions, outcomes = self.dispatcher.handle(event)
        for outcome in outcomes:
            if isinstance(outcome, Delivered | Shed):
                self.out.append(outcome)
            self.ended += isinstance(outcome, SwitchEnded)
        left = self.out[-1].serials[-1] + 1 if self.out else self.began
        self.keep(self.dispatcher.checkpoint(left))
        told = self.checkpoints[-1][1].next_serial if self.checkpoints else self.began
        assert max(end for end in self.whole if end <= left) <= told, "all of a bundle are out, and it is not told"
        self.carry_out(instructions)

    def keep(self, point: Checkpoint | None) -> None:
        if point is None:
            return
        for stage, partitions in point.keyed.items():
            for partition, states in partitions.items():
                self.kept.setdefault(stage, {}).setdefault(partition, {}).update(states)
        before = sum(out.serials[-1] < point.next_serial for out in self.out)
        self.checkpoints.append((before, replace(point, keyed=copied(self.kept))))

    def carry_out(self, instructions: list[Instruction]) -> None:
        for instruction in instructions:
            if isinstance(instruction, SendTask):
                own = [stage for stage in self.stages if stage.name in instruction.task.stages]
                assert {*loads_of(own)} <= {*self.loads[instruction.worker]}, "the worker has not loaded the stage"
                tasks = self.tasks[instruction.worker]
                assert len(tasks) < max(2, *map(self.at_once, (*tasks, instruction.task))), "too many tasks"
                tasks.append(instruction.task)
            elif isinstance(instruction, StartWorkers):
                self.to_start += [instruction.loads] * instruction.count
            elif isinstance(instruction, AskWorker):
                self.asked.append(instruction)
            elif isinstance(instruction, StopWorker | KillWorker):
                self.forget(instruction.worker)

    def forget(self, worker: str) -> None:
        self.gone += [(worker, task) for task in self.tasks.pop(worker)]

    def at_once(self, task: Task) -> int:
        """How many such tasks a worker may run at once."""
        if self.stages is not WAITING or task.states:
            return 1
        return max(AT_ONCE.get(stage, 1) for stage in task.stages)

    def running(self, worker: str) -> list[Task]:
        tasks = self.tasks[worker]
        first = next((at for at, task in enumerate(tasks) if self.at_once(task) == 1), len(tasks))
        return list(tasks)[: first + 1]

    def admit(self, count: int = 1) -> None:
        """A payload is a tuple, for each item, of all that happened to it."""
        if self.dispatcher.has_room:
            payload = tuple((f"item {self.admitted + each}",) for each in range(count))
            times = tuple(self.now_s + each for each in range(count))
            self.whole.append(self.admitted + count)
            self.handle(BundleAdmitted(self.now_s, times, payload, None, self.routes(payload, 0)))
            self.admitted += count

    def join(self) -> None:
        if self.to_start:
            self.names += 1
            name = f"w{self.names}"
            self.tasks[name], self.loads[name] = deque(), self.to_start.popleft()
            self.handle(WorkerJoined(self.now_s, name, 0, f"node{self.names % 2}", self.loads[name]))

    def answer(self, pick: int, *, how: str = "done") -> None:
        """One that was asked whether it lives says so first, now and then."""
        if self.asked and pick % 2:
            asked = self.asked.pop(pick % len(self.asked))
            self.handle(WorkerAnswered(self.now_s, asked.worker, asked.losses))
        busy = [worker for worker, tasks in self.tasks.items() if tasks]
        if busy:
            worker = busy[pick % len(busy)]
            running = self.running(worker)
            task = running[pick // 2 % len(running)]
            self.tasks[worker].remove(task)
            self.reply(worker, task, how, pick)

    def reply(self, worker: str, task: Task, how: str = "done", pick: int = 0) -> None:
        values = self.values_of(task)
        at = pick % len(values)
        kept = {name for name in task.stages if self.stages[NAMES.index(name)].keeps_state}
        if task.keyed is not None:
            self.load(worker, task)
            if task.keyed.behind is not None and task.keyed.behind == self.failed.get(worker):
                how = "fail"
        if how == "fail" or (how == "partly" and kept):
            position = None if pick == 0 else at
            self.failed[worker] = task.task_id
            self.handle(TaskFailed(self.now_s, worker, task.task_id, task.stages[0], "told to fail", position))
            return
        states, payload = dict(task.states), []
        for history in values:
            states = {name: (state or 0) + 1 for name, state in states.items()}
            payload.append((*history, *task.stages, *states.values()))
        keyed = NOTHING_KEYED
        if how == "done":
            payload, keyed = self.count_keys(worker, task, payload)
        faults: tuple[ItemFault, ...] = ()
        if how == "partly" and task.items > 1:
            faults = tuple(ItemFault(each, task.stages[0], "told to fail") for each in sorted({at, task.items - 1}))
            payload = [None if each in (at, task.items - 1) else value for each, value in enumerate(payload)]
        if how == "partly":
            keyed = KeyedDone(self.routes(payload, NAMES.index(task.stages[-1]) + 1), {})
        self.handle(TaskDone(self.now_s, worker, task.task_id, tuple(payload), (), states, faults, keyed))

    def values_of(self, task: Task) -> list[History]:
        payload = task.payload
        if isinstance(payload, Mosaic):
            payload = payload.in_order(payload.parts)
        items = payload[task.start : task.start + task.items]
        picked = task.keyed.picked if task.keyed else None
        return list(items if picked is None else compress(items, picked))

    def routes(self, payload: Sequence[History | None], stage: int) -> Routes | None:
        """Every worker tells them, and who admits."""
        if stage >= len(self.stages) or self.stages[stage].kind is not StageKind.PARTITIONED:
            return None
        count, name = self.stages[stage].partitions, NAMES[stage]
        return Routes(bytes(key_of(serial_of(each), name) % count if each else 0 for each in payload))

    def load(self, worker: str, task: Task) -> None:
        """What is kept is what another worker wrote: text that is read here."""
        for name, kept in task.keyed.kept.items():
            for partition, states in kept.items():
                self.tables[worker, name, partition] = {key: int(state) for key, state in states.items()}

    def count_keys(self, worker: str, task: Task, payload: list[History]) -> tuple[list[History], KeyedDone]:
        """Each value gets, of each partitioned stage, the count of its key."""
        changes: dict[str, dict[int, dict[int, int]]] = {}
        for name in task.stages:
            stage = self.stages[NAMES.index(name)]
            if stage.kind is StageKind.PARTITIONED:
                made = changes[name] = {}
                for at, history in enumerate(payload):
                    key = key_of(serial_of(history), name)
                    partition = key % stage.partitions
                    table = self.tables.setdefault((worker, name, partition), {})
                    table[key] = table.get(key, 0) + 1
                    made.setdefault(partition, {})[key] = table[key]
                    payload[at] = (*history, (name, key, table[key]))
        assert task.keyed is not None or not changes
        told = {
            name: {partition: {key: str(new[key]) for key in new} for partition, new in made.items()}
            for name, made in changes.items()
        }
        return payload, KeyedDone(self.routes(payload, NAMES.index(task.stages[-1]) + 1), told)

    def resize(self, composition: Composition) -> None:
        """With the workers at hand it is over at once; nothing that runs is taken back, whatever there is."""
        view, ended = self.dispatcher.view(self.now_s), self.ended
        running = {worker: list(tasks) for worker, tasks in self.tasks.items()}
        self.requested += 1
        self.handle(SwitchRequested(self.now_s, composition))
        for worker, tasks in running.items():
            assert list(self.tasks[worker])[: len(tasks)] == tasks
        drains = view.switching and not view.preparing
        there = Counter(self.loads[worker] for worker in self.tasks.keys() - self.leaving)
        over = view.preparing + (drains or composition.crew(self.stages) <= there)
        assert self.ended == ended + over, "one that waits gives way, and while one drains no other begins"

    def call_off(self) -> None:
        """What waits for workers ends, what drains goes on; what runs is active as before."""
        self.handle(Tick(self.now_s))  # a drain that was held until now ends by itself
        before, ended = self.dispatcher.view(self.now_s), self.ended
        self.handle(SwitchCalledOff(self.now_s, "nobody wants it"))
        view = self.dispatcher.view(self.now_s)
        assert self.ended == ended + before.preparing
        assert view.switching == (before.switching and not before.preparing)
        assert view.composition == before.composition

    def late(self, pick: int) -> None:
        """A worker given up speaks again: nobody may listen."""
        if self.gone:
            self.reply(*self.gone[pick % len(self.gone)])

    def lose(self, pick: int) -> None:
        if self.tasks:
            worker = sorted(self.tasks)[pick % len(self.tasks)]
            self.forget(worker)
            self.handle(WorkerLost(self.now_s, worker))

    def leave(self, pick: int) -> None:
        """Its node is to go."""
        if self.tasks:
            worker = sorted(self.tasks)[pick % len(self.tasks)]
            self.leaving.add(worker)
            self.handle(WorkerLeaving(self.now_s, worker))

    def finish(self) -> None:
        for step in range(20_000):
            if self.dispatcher.idle and not self.dispatcher.view(self.now_s).switching:
                return
            self.now_s += 0.01
            self.join()
            self.answer(step)
            self.handle(Tick(self.now_s))
        raise AssertionError(f"stuck: {self.dispatcher.view(self.now_s)}")


def serial_of(history: History) -> int:
    return int(str(history[0]).removeprefix("item "))
