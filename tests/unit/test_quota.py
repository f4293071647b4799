"""The cores of a control group's quota, from trees of both versions, and from a real group where one can be made."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime import housekeeping as quota
from runtime.housekeeping import available_cores, cpu_quota

ROOT = Path(__file__).parents[2]
V1 = Path("/sys/fs/cgroup/cpu")


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
        (
            "0::/a/b\n",
            {"cpu.max": "max 100000", "a/cpu.max": "150000 100000", "a/b/cpu.max": "400000 100000\n"},
            1.5,
        ),
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
    """A real control group with half a core."""
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
