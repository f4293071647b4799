"""A drain goes on whatever happens in it: a lost worker, an item without values, no worker to spare; and a
worker whose calls wait is lost with several tasks."""

import pytest
from dispatcher_bench import Bench

from compositions.model import Stage, StageKind
from runtime.dispatch.events import BundleAdmitted, KeyedDone, SwitchRequested, TaskDone, WorkerAnswered
from runtime.dispatch.instructions import KillWorker, StartWorkers
from runtime.dispatch.keys import Routes
from runtime.dispatch.outcomes import Delivered, SwitchEnded

KEYED = StageKind.PARTITIONED


def keyed(notation: str, workers: int, partitions: int = 4, **settings: object) -> Bench:
    """A stage ``k`` with partitions, and ``d`` after it."""
    stages = Stage("k", KEYED, partitions=partitions), Stage("d")
    return Bench(notation, stages, workers, **settings)


def admit(bench: Bench, *partitions: int) -> None:
    times = (bench.now_s,) * len(partitions)
    bench.handle(BundleAdmitted(bench.now_s, times, "items", None, Routes(bytes(partitions))))


def lose(bench: Bench, stage: str) -> None:
    """The worker that runs a task of this stage."""
    bench.lose(next(name for name, task in bench.tasks.values() if stage in task.stages))


@pytest.mark.parametrize("kind", [StageKind.STATELESS, KEYED])
@pytest.mark.parametrize("spares", [0, 1])
def test_a_group_that_drains_borrows_a_worker_where_none_is_free(kind: StageKind, spares: int):
    bench = Bench("Par*2(k)-Seq(d)", (Stage("k", kind, partitions=4), Stage("d")), 3 + spares, spares=spares)
    admit(bench, 1)
    bench.switch("Par*2(k,d)", drain_mean_s=0.1, drain_estimate_s=0.1)
    lose(bench, "k")
    assert [task.stages for _, task in bench.tasks.values()] == [("k",)], "and no worker has joined"
    bench.finish()
    (ended,) = bench.of(SwitchEnded)
    assert (ended.error, ended.migrated) == (None, 0)
    admit(bench, 2)
    bench.finish()
    assert bench.delivered == [0, 1]
    assert len(bench.view.workers) == 2 + spares


def test_a_drain_has_workers_started_as_long_as_it_lasts():
    bench = keyed("Par*3(k)-Seq(d)", workers=4, spares=0)
    bench.instructions.clear()
    admit(bench, 0, 1, 2, 3)
    bench.switch("Seq(k,d)", drain_mean_s=0.1, drain_estimate_s=0.1)
    lose(bench, "k")
    assert bench.of(StartWorkers) == [StartWorkers(1)]
    bench.finish()
    bench.lose(bench.view.workers[0].worker)
    assert bench.of(StartWorkers) == [StartWorkers(1)], "what is there is enough for the new composition"


def test_the_last_worker_of_all_goes_from_the_drain_to_what_follows():
    bench = keyed("Seq(k)-Par*2(d)", workers=3, spares=0)
    admit(bench, 1)
    bench.switch("Seq(k,d)")
    lose(bench, "k")
    bench.lose(bench.view.workers[0].worker)
    for _ in range(3):
        admit(bench, 1)
    bench.tick(0.1)
    bench.finish()
    assert bench.delivered == [0, 1, 2, 3]


def test_beyond_its_limit_what_has_entered_gets_the_workers_that_wait_for_it():
    bench = keyed("Par*3(k)-Seq(d)", workers=4, partitions=6, spares=2, drain_limit_s=1.0)
    for _ in range(3):
        admit(bench, *range(6))
    bench.switch("Par*4(k,d)")
    assert not bench.of(SwitchEnded)
    bench.join("w5", "w6")
    lose(bench, "k")
    lose(bench, "k")
    bench.tick(0.5)
    assert len({name for name, task in bench.tasks.values()}) == 1
    bench.tick(1.5)
    assert len({name for name, task in bench.tasks.values() if task.stages == ("k",)}) == 2, "one for each bundle"
    admit(bench, 0)
    bench.finish()
    assert bench.delivered == [0, 6, 12, 18]


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_a_drain_whose_last_item_has_no_value_left_ends_at_once_and_is_no_sample(workers: int):
    bench = Bench("Seq(a)-Seq(k)", (Stage("a"), Stage("k", KEYED, partitions=4)), workers)
    bench.admit()
    bench.switch("Seq(a,k)")
    bench.now_s = 0.3
    ((number, (worker, _)),) = bench.tasks.items()
    del bench.tasks[number]
    bench.handle(TaskDone(0.3, worker, number, "none", keyed=KeyedDone(Routes(b"", (0,)), {})))
    (ended,) = bench.of(SwitchEnded)
    assert (ended.at_s, ended.error) == (0.3, None)
    assert workers > 1 or ended.drain_actual_s is None


@pytest.mark.parametrize("pinned", [False, True])
def test_a_switch_in_a_drain_is_refused_and_taken_when_it_is_over(pinned: bool):
    bench = keyed("Seq(k)-Seq(d)", workers=3)
    admit(bench, 0)
    bench.switch("Seq(k,d)")
    if pinned:
        lose(bench, "k")
    bench.handle(SwitchRequested(bench.now_s, bench.view.composition))
    assert bench.of(SwitchEnded)[0].error == "a switch to Seq(k,d) is under way"
    bench.finish()
    bench.switch("Seq(k)-Seq(d)")
    assert [each.error for each in bench.of(SwitchEnded)][1:] == [None, None]


def killed_at(bench: Bench, deadly: int) -> bool:
    """The worker that has begun the deadly item dies; the others answer."""
    for number, (worker, task) in sorted(bench.tasks.items()):
        if task.serial <= deadly < task.serial + task.items:
            bench.lose(worker, "SIGSEGV")
            return True
        bench.done(number)
    return False


@pytest.mark.parametrize("notation", ["Seq(a)-Seq(b)", "Seq(a,b)", "Par*2(a)-Seq(b)"])
@pytest.mark.parametrize(("kind", "count"), [(StageKind.STATELESS, 1), (StageKind.STATELESS, 8), (KEYED, 1)])
def test_what_kills_workers_runs_beside_the_stream_until_it_is_given_up(notation: str, kind: StageKind, count: int):
    """Workers come a second after they are asked for: meanwhile what is behind goes on."""
    bench = Bench(notation, (Stage("a", kind, partitions=4), Stage("b")), workers=3 + (notation[:3] == "Par"))
    names = iter(f"w{number}" for number in range(5, 100))
    bench.instructions.clear()
    admit(bench, *[0] * count)
    deaths = 0
    for second in range(1, 40):
        bench.now_s = float(second)
        admit(bench, 1)
        for _ in range(4):
            bench.now_s += 0.1
            deaths += killed_at(bench, deadly=0)
            left = [worker.worker for worker in bench.view.workers]
            assert left or notation == "Seq(a,b)", "the stream has a worker"
            for worker in left:
                bench.handle(WorkerAnswered(bench.now_s, worker, deaths))
        bench.tick(bench.now_s)
        for _ in range(sum(each.count for each in bench.of(StartWorkers))):
            bench.join(next(names))
        bench.instructions.clear()
    outs = bench.of(Delivered)
    assert [out.serial for out in outs if out.error] == [0]
    assert outs[0].error == f"worker {outs[0].error.split()[1]} was lost: SIGSEGV"
    assert deaths == 3 + (count > 1) * 3 or (kind is KEYED and deaths == 4)
    bench.finish()
    assert sum(out.count for out in bench.of(Delivered)) == count + 39


STAGES = (Stage("ask", concurrency=3, time_limit_s=5.0), Stage("use"))


def bench(**settings: object) -> Bench:
    return Bench("Seq(ask,use)", STAGES, workers=1, **settings)


def test_only_the_task_that_is_late_counts_a_loss():
    here = bench(losses=1)
    here.admit(1)
    here.now_s = 4.0
    here.admit(2)
    here.join("w2")
    here.tick(66.0)  # use has the limit of the settings, 60 s
    (killed,) = here.of(KillWorker)
    assert (killed.worker, "within its time limit of 65 s" in killed.reason) == ("w1", True)
    (dead,) = here.of(Delivered)
    assert dead.serial == 0
    assert [serial for worker, serial, _ in here.running() if worker == "w2"] == [1, 2]


def test_of_several_in_a_lost_worker_each_runs_alone_before_one_counts_a_loss():
    here = bench(losses=1)
    here.admit(3)
    here.lose("w1", at_s=0.01)
    here.join("w2")
    here.admit(2)
    assert here.serials == [0]
    here.done(3)
    assert here.serials == [1]
    here.lose("w2", at_s=0.01)
    here.join("w3")
    assert [(out.serial, out.error is None) for out in here.of(Delivered)] == [(0, True), (1, False)]
    assert here.serials == [2]
    here.done(5)
    assert here.serials == [3, 4]


def test_a_suspect_of_several_items_is_halved_when_it_kills_alone():
    here = bench(losses=1)
    here.handle(BundleAdmitted(0.0, (0.0, 0.0), "items"))
    here.admit(1)
    here.lose("w1", at_s=0.01)
    here.join("w2")
    assert [(task.serial, task.items) for _, task in here.tasks.values()] == [(0, 2)]
    here.lose("w2", at_s=0.01)
    here.join("w3")
    assert here.serials == [2], "what killed twice runs in no group's last worker"
    here.join("w4")
    here.done(3)
    assert [(task.serial, task.items) for _, task in here.tasks.values()] == [(0, 1)]
