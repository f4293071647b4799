"""Measure what a run takes of the machine, and the cores of a quota, from trees of both versions and a real group."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from structlog.testing import capture_logs

from compositions.model import Stage, held_by
from compositions.resources import Need, need_of, with_resources
from profiler.snapshot import StageProfile
from runtime import housekeeping as quota
from runtime.dispatch.views import WorkerView
from runtime.housekeeping import available_cores, cpu_quota
from service.runner.telemetry.accounts import Usage
from service.schemas.figures import ClassMemory, Worker

ROOT = Path(__file__).parents[2]
V1 = Path("/sys/fs/cgroup/cpu")


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
    assert line["event"].startswith("worker uses more memory than its stages declare; raise memory=")
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


def tree(folder: Path, proc: str, files: dict[str, str]) -> tuple[Path, Path]:
    (folder / "proc").write_text(proc)
    for name, text in files.items():
        file = folder / "fs" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder / "proc", folder / "fs"


@pytest.mark.parametrize(
    ("proc", "files", "cores"),
    [
        ("0::/a/b\n", {"cpu.max": "max 100000", "a/cpu.max": "150000 100000", "a/b/cpu.max": "400000 100000\n"}, 1.5),
        (
            "5:memory:/x\n4:cpu,cpuacct:/pod\n",
            {"cpu,cpuacct/pod/cpu.cfs_quota_us": "50000\n", "cpu,cpuacct/pod/cpu.cfs_period_us": "100000\n"},
            0.5,
        ),
        ("0::/docker/0123abcd\n", {"cpu.max": "200000 100000"}, 2.0),
        ("1:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        *[("0::/\n", {"cpu.max": text}, None) for text in ("max 100000", "", "many", "100000 0")],
    ],
    ids=["the least above", "version 1", "mounted in a container", "none", "max", "empty", "many", "0"],
)
def test_the_quota_of_a_tree(tmp_path: Path, proc: str, files: dict[str, str], cores: float | None) -> None:
    assert cpu_quota(*tree(tmp_path, proc, files)) == cores
    assert cpu_quota(tmp_path / "nothing", tmp_path) is None


@pytest.mark.parametrize(("told", "cores"), [(0.5, 0.5), (1.0, 1), (1e9, len(os.sched_getaffinity(0))), (None, None)])
def test_cores_are_those_of_a_quota(monkeypatch: pytest.MonkeyPatch, told: float | None, cores: float | None) -> None:
    monkeypatch.setattr(quota, "cpu_quota", lambda: told)
    expected = len(os.sched_getaffinity(0)) if cores is None else cores
    assert (available_cores(), type(available_cores())) == (expected, type(expected))


@pytest.fixture
def group() -> Iterator[Path]:
    made = V1 / f"recompose-test-{os.getpid()}"
    try:
        made.mkdir()
        (made / "cpu.cfs_quota_us").write_text("50000")
    except OSError as error:
        pytest.skip(f"no control group of version 1 can be made here: {error}")
    yield made
    made.rmdir()


def test_a_process_of_a_real_group_knows_its_quota(group: Path) -> None:
    told = "from runtime.housekeeping import available_cores; print(available_cores())"
    line = f"echo $$ > {group}/cgroup.procs && exec {sys.executable} -c '{told}'"
    done = subprocess.run(["sh", "-c", line], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0.5"
