"""A group whose calls wait: its workers have several tasks at once, answer in any order, and are lost with several."""

from dispatcher_bench import Bench

from compositions.model import Stage
from runtime.dispatch.events import BundleAdmitted
from runtime.dispatch.instructions import KillWorker
from runtime.dispatch.outcomes import Delivered

STAGES = (Stage("ask", concurrency=3, time_limit_s=5.0), Stage("use"))


def bench(**settings: object) -> Bench:
    return Bench("Seq(ask,use)", STAGES, workers=1, **settings)


def test_a_worker_has_as_many_items_as_may_wait():
    here = bench()
    here.admit(5)
    assert here.serials == [0, 1, 2]


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
