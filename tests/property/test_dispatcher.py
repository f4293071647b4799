"""Whatever happens to workers, tasks and switches, in whatever order: every item leaves once, in order, complete.

The dispatcher checks its invariants after each event, and its log, played again, tells the same story. A log from the
field becomes a test by being put into ``logs/``.
"""

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import compress, pairwise
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compositions.dynamic import SCHEDULER_NAMES, Dyn, SchedulerName
from compositions.model import Composition, Group, Loads, Pattern, Stage, StageKind, loads_of
from compositions.rules import groups_of_dyn, most_replicas
from lab.simulation.invariants import CheckedDispatcher
from runtime.dispatch import event_log
from runtime.dispatch.checkpoint import BEGINNING, Checkpoint
from runtime.dispatch.events import (
    NOTHING_KEYED,
    BundleAdmitted,
    Event,
    ItemFault,
    KeyedDone,
    SwitchCalledOff,
    SwitchRequested,
    SwitchStyle,
    TaskDone,
    TaskFailed,
    Tick,
    WorkerAnswered,
    WorkerJoined,
    WorkerLeaving,
    WorkerLost,
)
from runtime.dispatch.instructions import AskWorker, Instruction, KillWorker, SendTask, StartWorkers, StopWorker, Task
from runtime.dispatch.keyed import partitions as keyed_partitions
from runtime.dispatch.keys import Mosaic, Routes
from runtime.dispatch.outcomes import Delivered, Shed, SwitchEnded
from runtime.dispatch.settings import DispatcherSettings
from tests.support.examples import examples
from tests.support.replay import replay

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
LIMITS = DispatcherSettings(buffer_items=4, losses=2, time_limit_s=1e9, drain_limit_s=0.5)
NAMES = tuple(stage.name for stage in STAGES)
History = tuple[object, ...]
"""All that happened to an item."""
Outs = Sequence[Delivered | Shed]
ACTIONS = ["leave", "join", "fail", "partly", "lose", "switch", "resize", "tick", "late", "call off"]
ACTIONS += ["admit"] * 3 + ["done"] * 4

WIDE_END = Group(NAMES[3:], Pattern.PAR, 3)
FLAKY = (
    Composition("together", (Group(NAMES[:3], Pattern.SEQ, 1), WIDE_END)),
    Composition("apart", (*(Group((name,), Pattern.SEQ, 1) for name in NAMES[:3]), WIDE_END)),
)


def key_of(serial: int, stage: str) -> int:
    """Another one for each stage."""
    return (serial * (2 if stage == "a" else 3)) % KEYS


@st.composite
def compositions(draw: st.DrawFn, stages: tuple[Stage, ...] = STAGES) -> Composition:
    if draw(st.integers(0, 3)) == 0:
        return dynamic(draw(st.integers(1, 4)), draw(st.sampled_from(SCHEDULER_NAMES)), stages)
    cuts = [0, *(place for place in (1, 2, 3) if draw(st.booleans())), 4]
    built = tuple(draw(groups_of(NAMES[begin:end], stages)) for begin, end in pairwise(cuts))
    return Composition("/".join("".join(group.stages) + str(group.replicas) for group in built), built)


@st.composite
def groups_of(draw: st.DrawFn, names: tuple[str, ...], stages: tuple[Stage, ...]) -> Group:
    most = min(3, most_replicas([stage for stage in stages if stage.name in names]))
    replicas = draw(st.integers(1, most))
    return Group(names, Pattern.PAR if replicas > 1 else Pattern.SEQ, replicas)


def dynamic(workers: int, scheduler: SchedulerName, stages: tuple[Stage, ...]) -> Composition:
    return Composition(f"Dyn{workers}{scheduler}", groups_of_dyn(stages, workers), dyn=Dyn(workers, scheduler))


@st.composite
def resized(draw: st.DrawFn, composition: Composition, stages: tuple[Stage, ...] = STAGES) -> Composition:
    """The same groups with other numbers of replicas, or only another name."""
    if composition.dyn is not None:
        return dynamic(draw(st.integers(1, 4)), composition.dyn.scheduler, stages)
    built = tuple(draw(groups_of(group.stages, stages)) for group in composition.groups)
    return Composition(draw(st.sampled_from(["this", "that"])), built)


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


@pytest.mark.parametrize(
    "stages",
    [STAGES, WAITING, KEYED, KEYED_FIRST, HEAVY, HEAVY_KEYED],
    ids=["one at a time", "at once", "by key", "by two keys", "loaded", "by key, loaded"],
)
@examples(300)
@given(data=st.data())
def test_every_item_leaves_once_in_order_and_complete(stages: tuple[Stage, ...], data: st.DataObject) -> None:
    drawn = {
        "overload": ["block", "shed"],
        "scheduling": ["on-demand", "round-robin"],
        "started_bytes": [1, 100, 2**31],
        "buffer_bytes": [50, 2**30],
    }
    limits = replace(LIMITS, **{name: data.draw(st.sampled_from(values)) for name, values in drawn.items()})
    with (
        patch.object(event_log, "PART_CELLS", data.draw(st.sampled_from([60, 50_000]))),
        patch.object(keyed_partitions, "COUNTED", data.draw(st.sampled_from([1, 64]))),
    ):
        world = World(data.draw(compositions(stages)), limits, stages)
        play(world, data)
    world.finish()
    check(world)
    check_replay(world)


def play(world: World, data: st.DataObject) -> None:
    for action in data.draw(st.lists(st.sampled_from(ACTIONS), max_size=120)):
        world.now_s += data.draw(st.sampled_from([0.0, 0.001, 0.2]))
        if action == "admit":
            world.admit(data.draw(st.sampled_from([1, 1, 2, 3, 7])))
        elif action == "join":
            world.join()
        elif action == "switch":
            world.requested += 1
            style = data.draw(st.sampled_from(list(SwitchStyle)))
            estimate_s = data.draw(st.sampled_from([0.0, 0.05]))
            wait_s = data.draw(st.sampled_from([0.0, estimate_s]))
            target = data.draw(compositions(world.stages))
            world.handle(SwitchRequested(world.now_s, target, style, estimate_s, estimate_s, wait_s=wait_s))
        elif action == "resize":
            active = world.dispatcher.view(world.now_s).composition
            asked = data.draw(resized(active, world.stages))
            if active.dyn is None:
                world.resize(asked)
            else:  # its workers have no group that could be resized
                world.requested += 1
                world.handle(SwitchRequested(world.now_s, asked))
        elif action == "call off":
            world.call_off()
        elif action == "tick":
            world.handle(Tick(world.now_s))
        elif action in ("lose", "late", "leave"):
            getattr(world, action)(data.draw(st.integers(0, 5)))
        else:
            world.answer(data.draw(st.integers(0, 5)), how=action)


def play_flaky(world: World, chance: Random) -> None:
    """Most bundles have an item that is tried again after a state has seen them together."""
    for _ in range(6):
        world.join()
    for _ in range(70):
        if chance.random() < 0.2:
            world.admit(chance.choice([2, 3, 7]))
        else:
            world.answer(chance.randrange(12), how=chance.choice(["done", "done", "done", "partly", "fail"]))


def check(world: World) -> None:
    assert [serial for out in world.out for serial in out.serials] == list(range(world.admitted))
    whole, counts = whole_items(world.out), seen_by_state(world.out)
    done = [out for out in world.out if isinstance(out, Delivered) and out.error is None]
    assert [serial_of(history) for history in whole] == [serial for out in done for serial in out.serials]
    assert [tuple(entry for entry in history if entry in NAMES) for history in whole] == [NAMES] * len(whole)
    assert counts == sorted(set(counts)), "the stateful stage saw its items out of order or twice"
    check_keys(world, whole)
    view = world.dispatcher.view(world.now_s)
    assert view.accepted == view.delivered + view.failed + view.shed == world.admitted
    assert (view.queued, view.in_flight, view.positions) == (0, 0, {})
    assert world.ended == world.requested


def whole_items(outs: Outs) -> list[History]:
    """The history of each item that came out whole."""
    done = [out for out in outs if isinstance(out, Delivered) and out.error is None]
    return [history for out in done for history in out.payload[out.start : out.start + out.count]]


def seen_by_state(outs: Outs) -> list[int]:
    """What the stateful stage counted at each of them."""
    return [next(entry for entry in history if isinstance(entry, int)) for history in whole_items(outs)]


@pytest.mark.parametrize("stages", [STAGES, KEYED_FIRST], ids=["one state", "states by key"])
@examples(150)
@given(data=st.data())
def test_a_checkpoint_has_what_left_and_the_state_of_just_that(stages: tuple[Stage, ...], data: st.DataObject) -> None:
    flaky = data.draw(st.sampled_from([None, None, *FLAKY]))
    first = World(flaky or data.draw(compositions(stages)), LIMITS, stages)
    if flaky:
        play_flaky(first, Random(data.draw(st.integers(0, 10_000))))
    else:
        play(first, data)
    for outcomes, checkpoint in first.checkpoints:
        before, behind = seen_by_state(first.out[:outcomes]), seen_by_state(first.out[outcomes:])
        state = checkpoint.states.get("c") or 0
        assert max(before, default=0) <= state < min(behind, default=state + 1)
        assert checkpoint.next_serial == sum(out.count for out in first.out[:outcomes])
        check_kept(first.stages, first.out[:outcomes], first.out[outcomes:], checkpoint)
    outcomes, begin = data.draw(st.sampled_from(first.checkpoints)) if first.checkpoints else (0, BEGINNING)
    del first.out[outcomes:]
    second = World(data.draw(compositions(stages)), LIMITS, stages, begin=begin)
    play(second, data)
    second.finish()
    check_kept(stages, first.out, second.out, begin)
    assert [serial for out in second.out for serial in out.serials] == list(range(begin.next_serial, second.admitted))
    counts = seen_by_state([*first.out, *second.out])
    assert counts == sorted(set(counts)), "the second one began with another state than the first one left"


def counted_by_key(outs: Outs, stage: str) -> Iterator[tuple[int, int]]:
    """Keys and their counts, of the items that came out whole."""
    for history in whole_items(outs):
        yield from ((entry[1], entry[2]) for entry in history if isinstance(entry, tuple) and entry[0] == stage)


def check_kept(stages: tuple[Stage, ...], before: Outs, behind: Outs, checkpoint: Checkpoint) -> None:
    """What is kept of each key is not behind what left, and before what leaves next."""
    for stage in (stage.name for stage in stages if stage.kind is StageKind.PARTITIONED):
        kept = {key: int(count) for states in checkpoint.keyed.get(stage, {}).values() for key, count in states.items()}
        for key, count in counted_by_key(before, stage):
            assert count <= kept.get(key, 0), f"{stage} has less of key {key} than left"
        for key, count in counted_by_key(behind, stage):
            assert kept.get(key, 0) < count, f"{stage} has more of key {key} than left"


def check_keys(world: World, whole: list[History]) -> None:
    """The count of each key went up by one with each of its items; those missing are no more than died on their way."""
    for stage in (stage for stage in world.stages if stage.kind is StageKind.PARTITIONED):
        counts: dict[int, list[int]] = {}
        for history in whole:
            [(_, key, count)] = [each for each in history if isinstance(each, tuple) and each[0] == stage.name]
            assert key == key_of(serial_of(history), stage.name)
            counts.setdefault(key, []).append(count)
        dead = sum(out.error is not None for out in world.out if isinstance(out, Delivered))
        missing = 0
        for each in counts.values():
            assert each == sorted(set(each)), f"{stage.name} saw items of a key out of order or twice, or lost a state"
            missing += each[-1] - len(each)
        assert missing <= dead, f"{stage.name} counted {missing} items too many, and {dead} died"


def check_replay(world: World) -> None:
    """The log, from its opening on, ends where the run ended, and says the same on the way."""
    lines = list(world.dispatcher.log.lines())
    replayed = replay(lines)
    assert replayed.dispatcher.view(world.now_s) == world.dispatcher.view(world.now_s)
    left = [each.serials for each in replayed.outcomes if isinstance(each, Delivered | Shed)]
    assert left == [out.serials for out in world.out][-len(left) :] if left else True


LOGS = sorted((Path(__file__).parent / "logs").glob("*.jsonl"))


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_a_log_from_the_field_plays_without_a_fault(path: Path) -> None:
    replayed = replay(path.read_text().splitlines())
    assert replayed.dispatcher.accepted > 0
    assert replayed.instructions
