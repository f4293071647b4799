"""What a run takes of the machine."""

import os
from types import SimpleNamespace

import psutil
import pytest
from structlog.testing import capture_logs

from compositions.model import Stage, held_by
from compositions.resources import Need, need_of, with_resources
from profiler.snapshot import StageProfile
from runtime.dispatch.views import WorkerView
from service.runner.telemetry.accounts import Usage
from service.schemas.figures import ClassMemory, Worker


def view(pid: int, node: str = "127.0.0.1", group: int | None = 0) -> WorkerView:
    return WorkerView(f"w{pid}", pid, node, group, 0, 0)


def test_worker_seconds_are_of_those_in_use_and_cpu_of_those_on_this_host() -> None:
    usage, here, spare = Usage(), view(os.getpid()), view(os.getpid(), group=None)
    elsewhere = view(1, node="203.0.113.7")
    for now_s in (0.0, 0.5, 1.0, 2.5):
        usage.record(now_s, (here, spare, elsewhere))
    cost = usage.cost((here, spare, elsewhere), cores=4)
    assert (cost.cores, cost.workers, cost.spares, cost.worker_s) == (4, 2, 1, 5.0)
    assert 0 <= cost.cpu_s < 60
    assert (usage.of(Worker.model_validate(here)).memory_bytes or 0) > 1_000_000
    assert usage.of(Worker.model_validate(elsewhere)).memory_bytes is None


def test_seconds_of_gpus_are_of_those_reserved_at_the_time() -> None:
    usage, worker = Usage(), view(os.getpid())
    for now_s, gpus in ((0.0, 0.5), (2.0, 0.5), (4.0, 0.25), (8.0, 0.0)):
        usage.record(now_s, (worker,), [((), Need(gpus=gpus))])
    cost = usage.cost((worker,), cores=2)
    assert (cost.gpus, cost.gpu_s) == (0.0, 2 * 0.5 + 2 * 0.5 + 4 * 0.25)


def test_the_memory_of_a_class_is_kept_and_told_once_where_it_is_more_than_declared(monkeypatch) -> None:
    memory = iter([(mb * 10**6 + 50 * 10**6, mb * 10**6) for mb in (900, 2_500, 2_600, 1_000)])
    monkeypatch.setattr("service.runner.telemetry.accounts._memory", lambda process: next(memory))
    usage, worker, held = Usage(), view(os.getpid()), [(("detect",), Need(memory_bytes=2 * 10**9))]
    with capture_logs() as lines:
        for now_s in range(4):
            usage.record(now_s, (worker,), held)
    (kept,) = usage.memory.values()
    assert (kept.stages, kept.peak_bytes, kept.declared_bytes) == (["detect"], 2_600 * 10**6, 2 * 10**9)
    (line,) = lines
    assert line["event"].startswith("worker uses more memory than its stages ask for; raise memory=")
    assert (line["stages"], line["memory"], line["declared"]) == (["detect"], "2.5 GB of memory", "2 GB of memory")


def test_workers_without_a_group_or_a_declared_memory_are_no_reason_to_warn() -> None:
    usage, spare, light = Usage(), view(os.getpid(), group=None), view(os.getpid())
    with capture_logs() as lines:
        usage.record(0.0, (spare,), [((), Need(memory_bytes=1))])
        assert usage.memory == {}
        usage.record(1.0, (light,), [((), Need())])
    assert usage.memory[()].peak_bytes > 1_000_000
    assert not lines


def test_what_is_proposed_is_what_was_used_and_a_start_may_ask_for_it() -> None:
    stages = (Stage("decode"), Stage("detect", setup="per-group"), Stage("tell"), Stage("ask", "wait", concurrency=8))
    usage = Usage()
    for loads, mb in (((), 100), (("detect",), 2_400)):
        usage.memory[loads] = ClassMemory(stages=list(loads), peak_bytes=mb * 10**6, declared_bytes=0)
    cores = {"decode": (0.93, 1), "detect": (3.25, 1), "ask": (0.02, 8)}
    profiles = [StageProfile(name, 1.0, cpu_s, 0, 1, 1, 9, at_once=n) for name, (cpu_s, n) in cores.items()]
    profiles.append(StageProfile("tell", 0, 0, 0, 0, 0, 0))
    proposed = usage.proposed(stages, SimpleNamespace(stages=profiles, cores=4, cores_left=None))
    assert proposed == {
        "decode": {"cpus": 1.0, "memory": "110MB"},
        "detect": {"cpus": 3.3, "memory": "2420MB"},
        "ask": {"cpus": 0.2},
    }
    need = need_of(held_by(with_resources(stages, proposed), ("detect",)))
    assert (need.cpus, need.memory_bytes) == (3.3, 2_530 * 10**6)


def test_what_others_keep_busy_is_the_rest_of_what_the_cores_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three cores, of which this process may use two: 1.6 s of them in two seconds, a guest's time counted once."""
    kinds = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest")
    idle, own = SimpleNamespace(**dict.fromkeys(kinds, 0.0)), 0.0
    busy = SimpleNamespace(**dict(zip(kinds, (0.6, 0.1, 0.1, 9.0, 9.0, 0.1, 0.1, 0.6, 0.5), strict=True)))
    looks = iter([[idle, idle, idle], [busy, idle, busy]])
    monkeypatch.setattr(psutil, "cpu_times", lambda percpu: next(looks))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr("service.runner.telemetry.accounts._cpu_s", lambda process: own)
    usage, worker = Usage(), view(os.getpid())
    usage.record(0.0, (worker,))
    assert usage.cost((worker,), cores=2).others_cores is None, "one look tells nothing"
    own = 0.6
    usage.record(2.0, (worker,))
    assert usage.cost((worker,), cores=2).others_cores == pytest.approx(0.5), "1.6 s less 0.6 of the worker, in 2 s"
    usage.record(4.0, ())
    assert usage.cost((), cores=2).others_cores is None


def test_workers_that_are_elsewhere_or_gone_have_no_cpu() -> None:
    usage = Usage()
    for now_s in (0.0, 1.0):
        usage.record(now_s, (view(2**30), view(os.getpid(), node="203.0.113.7")))
    cost = usage.cost((view(2**30),), cores=1)
    assert (cost.worker_s, cost.cpu_s, cost.cpu_cores) == (2.0, None, None)
