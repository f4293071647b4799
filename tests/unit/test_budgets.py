"""Budgets in bytes: what a hung item holds back, it does not pile up."""

from compositions.model import Stage
from compositions.notation import parse
from compositions.settings import overridden
from lab.simulation.invariants import CheckedDispatcher
from profiler.snapshot import StageTiming
from runtime.arena.reference import memory_bytes
from runtime.dispatch.events import BundleAdmitted, TaskDone, WorkerJoined
from runtime.dispatch.instructions import SendTask, Task
from runtime.dispatch.outcomes import Delivered, Shed
from runtime.dispatch.settings import DispatcherSettings
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
