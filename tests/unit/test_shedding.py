"""Overload: budgets in bytes, what is shed, fewer workers than groups. A switch is over when the dispatcher says so."""

import weakref
from itertools import pairwise

import pytest

from apps.contract import App
from compositions.errors import RecomposeError
from compositions.model import Composition, Group, Loads, Pattern, Stage, StageKind
from compositions.notation import parse
from compositions.settings import overridden
from control.choices import Choices
from control.decisions import Mode
from control.manager import Manager
from control.settings import Settings
from control.strategies import make_strategy
from lab.simulation.invariants import CheckedDispatcher
from lab.simulation.machine import Cost, Machine, constant_cost
from lab.simulation.pool import SimulatedPool
from profiler.monitor import Monitor, MonitorSettings
from profiler.snapshot import StageTiming
from recompose import run
from runtime.arena.reference import memory_bytes
from runtime.dispatch.dispatcher import Dispatcher
from runtime.dispatch.events import BundleAdmitted, TaskDone, WorkerJoined, WorkerStartFailed
from runtime.dispatch.instructions import SendTask, Task
from runtime.dispatch.outcomes import Delivered, Shed
from runtime.dispatch.settings import DispatcherSettings
from runtime.engine import Engine
from service.runner.loop import ControlLoop, LoopSettings
from service.runner.validation.resolution import for_machine
from service.runner.wiring.result_buffer import ResultBatch, ResultBuffer

STAGES = (Stage("a"),)


class Bench:
    """Two workers, the first of which hangs with its first task; items are texts that a stage makes longer."""

    def __init__(self, grows: int = 1, **budgets: int | str) -> None:
        settings = DispatcherSettings(prefetch_below_s=0.0, **budgets)  # type: ignore[arg-type]
        composition = parse("Par*2", STAGES, name="1")
        self.dispatcher = CheckedDispatcher(STAGES, composition, settings, size_of=len)
        self.grows = grows
        self.hung: tuple[str, Task] | None = None
        self.most = self.shed = self.out = 0
        for name in ("w1", "w2"):
            self.handle(WorkerJoined(0.0, name))

    def offer(self, *texts: str) -> bool:
        if not self.dispatcher.has_room:
            return False
        self.handle(BundleAdmitted(0.0, (0.0,) * len(texts), "".join(texts)))
        return True

    def handle(self, event: object) -> None:
        instructions, outcomes = self.dispatcher.handle(event)  # type: ignore[arg-type]
        for outcome in outcomes:
            self.shed += outcome.count if isinstance(outcome, Shed) else 0
            self.out += outcome.count if isinstance(outcome, Delivered) else 0
        view = self.dispatcher.view(0.0)
        self.most = max(self.most, view.started_bytes)
        for each in instructions:
            if isinstance(each, SendTask):
                if self.hung is None:
                    self.hung = each.worker, each.task
                else:
                    self.done(each.worker, each.task)

    def done(self, worker: str, task: Task) -> None:
        timings = (StageTiming("a", 1.0, 1.0),)
        self.handle(TaskDone(1.0, worker, task.task_id, task.payload * self.grows, timings))


def test_a_hung_item_holds_the_stream_back_before_the_budget_is_spent() -> None:
    bench = Bench(started_bytes=10_000, buffer_items=4)
    offered = sum(bench.offer("x" * 1000) for _ in range(100))
    assert bench.most <= 1.2 * 10_000
    assert offered < 20, "the source is held back"
    bench.done(*bench.hung)
    assert bench.dispatcher.idle
    assert bench.out == offered, "and the stream goes on when it is back"


def test_what_items_grow_to_is_learned_from_those_before() -> None:
    bench = Bench(grows=50, started_bytes=100_000, buffer_items=4)
    bench.offer("x" * 100)
    bench.done(*bench.hung)
    for _ in range(40):
        bench.offer("x" * 100)
    bench.hung = None
    for _ in range(1000):
        bench.offer("x" * 100)
    assert bench.most <= 1.2 * 100_000, "each comes to 5,000 bytes"


def test_an_item_above_the_budget_goes_alone() -> None:
    bench = Bench(started_bytes=10, buffer_bytes=10)
    bench.hung = ("nobody", Task(0, 0, ("a",), "", {}))
    for _ in range(5):
        assert bench.offer("x" * 1000)
    assert bench.dispatcher.idle


def test_admission_is_full_by_bytes_before_it_is_by_items() -> None:
    bench = Bench(started_bytes=1000, buffer_bytes=5000, buffer_items=1000)
    while bench.offer("x" * 1000):
        pass
    assert bench.dispatcher.view(0.0).queued_bytes == 5000


def test_shed_items_give_their_memory_back_at_once() -> None:
    bench = Bench(started_bytes=1000, buffer_bytes=5000, buffer_items=1000, overload="shed")
    for _ in range(100):
        assert bench.offer("x" * 1000)
        assert bench.dispatcher.view(0.0).queued_bytes <= 5000
    bench.done(*bench.hung)
    assert (bench.shed, bench.out) == (94, 6), "one was in work and five are kept"


def test_budgets_follow_the_memory_of_the_machine_unless_they_are_set() -> None:
    machine = for_machine(8 * 2**30)
    assert (machine.dispatcher.buffer_bytes, machine.dispatcher.started_bytes) == (256 * 2**20, 2**30)
    assert overridden(machine, {"started_bytes": 5}).dispatcher.started_bytes == 5
    assert memory_bytes() > 2**28


def test_results_that_are_kept_have_a_budget_too_and_the_newest_stays() -> None:
    kept = ResultBuffer(most=2000, most_bytes=100)
    for serial in range(10):
        kept.add(ResultBatch(serial, ["x"], None, 30))
    assert ([each.serial for each in kept], kept.size_bytes) == ([7, 8, 9], 90)
    kept.add(ResultBatch(10, ["large"], None, 1000))
    assert ([each.serial for each in kept], kept.size_bytes) == ([10], 1000)


EIGHT = Composition("eight", (Group(("a",), Pattern.PAR, 8),))
WARM_UP_S, MEASURED_S = 2.0, 20.0
FOUR = (Stage("a"), Stage("b"), Stage("c", StageKind.STATEFUL), Stage("d"))
ONE = Composition("one", (Group(("a",)),))
WIDE = Composition("wide", (Group(("a",), Pattern.PAR, 4),))
PREPARE_LIMIT_S = 300.0


def half_a_second(stage: str, serial: int) -> Cost:
    """On average: between 0 and 1 s, so that some items wait in the reorder buffer for others."""
    return Cost(0.0, (serial * 7919) % 101 / 100)


@pytest.mark.parametrize("offered_per_s", [200, 1000, 4000])
def test_eight_workers_deliver_sixteen_a_second_whatever_is_offered(offered_per_s: int):
    pool = SimulatedPool(half_a_second, Machine(cores=8))
    engine = Engine(Dispatcher(STAGES, EIGHT, DispatcherSettings(overload="shed")), pool)
    engine.start()
    delivered, left, due_s = 0, [], WARM_UP_S / 2
    while engine.now_s < WARM_UP_S + MEASURED_S:
        while due_s <= engine.now_s:
            engine.admit(None, (due_s,))
            due_s += 1 / offered_per_s
        for outcome in engine.advance(due_s):
            if isinstance(outcome, Delivered):
                delivered += outcome.count * (outcome.at_s > WARM_UP_S)
            if isinstance(outcome, Delivered | Shed):
                left.extend(outcome.serials)
    assert delivered / MEASURED_S >= 0.97 * 16
    assert left == list(range(len(left))), "those shed are reported in their place"


def test_what_was_shed_is_not_kept_while_an_older_item_is_in_work():
    dispatcher = CheckedDispatcher(STAGES, EIGHT, DispatcherSettings(overload="shed", buffer_items=4))
    dispatcher.start(0.0)
    dispatcher.handle(WorkerJoined(0.0, "w1"))
    (sent,) = dispatcher.handle(BundleAdmitted(0.0, (0.0,), "slow"))[0]
    payloads = []
    for number in range(50):
        payload = {number}
        payloads.append(weakref.ref(payload))
        assert dispatcher.handle(BundleAdmitted(1.0, (1.0 + number,), payload)) == ([], [])
        del payload
    assert [alive() is not None for alive in payloads] == [False] * 46 + [True] * 4
    _, outcomes = dispatcher.handle(TaskDone(2.0, "w1", sent.task.task_id, "done"))
    (shed,) = [each for each in outcomes if isinstance(each, Shed)]
    assert (shed.serials, shed.arrived_s) == (range(1, 47), tuple(1.0 + number for number in range(46)))


class FewWorkers(SimulatedPool):
    """Of all workers asked for, the first few come, and no others: it says so, or nothing where ``silent``."""

    def __init__(self, coming: int, *, silent: bool = False) -> None:
        super().__init__(constant_cost({stage.name: 0.1 for stage in FOUR}, wait=True), Machine(cores=8))
        self._coming, self._silent = coming, silent

    def start(self, count: int, loads: Loads = ()) -> None:
        super().start(min(count, self._coming), loads)
        for _ in range(0 if self._silent else max(0, count - self._coming)):
            self._time.at(self.now_s(), lambda: WorkerStartFailed(self.now_s(), "no room for more", loads=loads))
        self._coming -= min(count, self._coming)


def delivered_times(engine: Engine, pool: SimulatedPool, lose_at_s: list[float], until_s: float) -> list[float]:
    """When results came out, from a source that always has more; at ``lose_at_s`` the first worker dies."""
    times = []
    while engine.now_s < until_s:
        while engine.has_room:
            engine.admit(None, (engine.now_s,))
        if lose_at_s and engine.now_s >= lose_at_s[0]:
            lose_at_s.pop(0)
            pool.lose(engine.view().workers[0].worker)
        times += [each.at_s for each in engine.advance(engine.now_s + 0.5) if isinstance(each, Delivered)]
    return times


def longest_gap_s(times: list[float], from_s: float, until_s: float) -> float:
    return max(later - earlier for earlier, later in pairwise([from_s, *times, until_s]))


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_four_groups_go_on_with_fewer_workers(workers: int):
    pool = FewWorkers(workers)
    engine = Engine(CheckedDispatcher(FOUR, parse("Seq-Seq-Seq-Seq", FOUR, name="four")), pool)
    engine.start()
    times = delivered_times(engine, pool, [], until_s=40.0)
    assert engine.view().short_of_workers
    assert longest_gap_s(times, 1.0, 40.0) <= 2.0
    assert len(times) / 39 >= 0.8 * workers / (2 if workers == 3 else 1) / 0.4


def test_workers_that_die_leave_no_gap_and_the_view_says_what_it_is():
    pool = FewWorkers(7)
    settings = DispatcherSettings(spares=1)
    engine = Engine(CheckedDispatcher(FOUR, parse("Par*2-Par*2-Seq-Seq", FOUR, name="six"), settings), pool)
    engine.start()
    before = delivered_times(engine, pool, [], until_s=5.0)
    assert not engine.view().short_of_workers
    after = delivered_times(engine, pool, [5.0, 5.0, 5.5, 6.0], until_s=30.0)
    assert len(engine.view().workers) == 3
    assert engine.view().short_of_workers
    assert longest_gap_s(after, before[-1], 30.0) <= 2.0


def test_the_manager_waits_for_a_switch_as_long_as_the_dispatcher_does():
    settings = DispatcherSettings(prepare_limit_s=PREPARE_LIMIT_S)
    assert Settings().rhythm.switch_limit_s < PREPARE_LIMIT_S
    engine = Engine(CheckedDispatcher(STAGES, ONE, settings), FewWorkers(2, silent=True))
    manager = Manager(Settings(), make_strategy("static"), Choices(STAGES, (ONE, WIDE), ONE), Mode.AUTO, None)
    loop = ControlLoop(engine, Monitor(MonitorSettings(), ["a"], 2), manager, LoopSettings(lambda: 2))
    engine.start()
    manager.set_mode(Mode.PINNED, "wide")
    said: list[tuple[float, str]] = []
    while engine.now_s < PREPARE_LIMIT_S + 10:
        loop.step(engine.now_s + 1.0)
        reason = getattr(loop.result.decision, "reason", "") if loop.result else ""
        if reason and (not said or said[-1][1] != reason):
            said.append((engine.now_s, reason))
    (failed_s, failed) = next(each for each in said if "failed" in each[1])
    assert failed == "the switch to wide failed: its workers were not ready after 300 s"
    assert failed_s >= PREPARE_LIMIT_S
    assert [record.ended.error for record in loop.journal.switches] == ["its workers were not ready after 300 s"]


def test_each_class_gets_a_worker_before_another_gets_its_second():
    stages = (Stage("a"), Stage("b"), Stage("c", setup="per-group"), Stage("d"))
    pool = FewWorkers(2)
    engine = Engine(CheckedDispatcher(stages, parse("Seq-Seq-Seq-Seq", stages, name="four")), pool)
    engine.start()
    times = delivered_times(engine, pool, [], until_s=20.0)
    assert longest_gap_s(times, 2.0, 20.0) <= 2.0


def test_a_run_begins_with_the_workers_that_could_be_started():
    """The others are tried again and again, as where the nodes have no room for what they reserve."""
    licences = iter(range(2))

    class Licensed(App):
        name = "licensed"
        stages = (Stage("first"), Stage("second"), Stage("third"))

        def setup(self) -> None:
            next(licences)

        def first(self, value: int) -> int:
            return value

        second = third = first

    results = run(Licensed, source=range(20), pool="local", progress=False)
    assert [each.value for each in results] == [*range(20)]


@pytest.mark.logs_errors("workers cannot start")
def test_a_run_whose_stage_nobody_can_load_ends_with_the_reason():
    class Unloaded(App):
        name = "unloaded"
        stages = (Stage("first"), Stage("second", setup="per-group"))

        def setup(self, stages: tuple[str, ...]) -> None:
            if "second" in stages:
                raise OSError("there is no model")

        def first(self, value: int) -> int:
            return value

        second = first

    with pytest.raises(RecomposeError, match="workers cannot start: OSError: there is no model"):
        list(run(Unloaded, source=range(20), pool="local", progress=False))
