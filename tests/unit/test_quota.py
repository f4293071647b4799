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


def tree(folder: Path, proc: str, **files: str) -> tuple[Path, Path]:
    """``files``: by their paths, ``/`` written as ``__``, the name of the file behind the last."""
    (folder / "proc").write_text(proc)
    for name, text in files.items():
        *place, file = name.split("__")
        (made := folder.joinpath("fs", *place)).mkdir(parents=True, exist_ok=True)
        (made / file.replace("_DOT_", ".")).write_text(text)
    return folder / "proc", folder / "fs"


def test_a_quota_of_version_2_counts_and_the_least_of_those_above_it(tmp_path: Path) -> None:
    files = {"cpu_DOT_max": "max 100000", "a__cpu_DOT_max": "150000 100000", "a__b__cpu_DOT_max": "400000 100000\n"}
    assert cpu_quota(*tree(tmp_path, "0::/a/b\n", **files)) == 1.5


def test_a_quota_of_version_1_counts(tmp_path: Path) -> None:
    at = "cpu,cpuacct__pod__"
    files = {f"{at}cpu_DOT_cfs_quota_us": "50000\n", f"{at}cpu_DOT_cfs_period_us": "100000\n"}
    assert cpu_quota(*tree(tmp_path, "5:memory:/x\n4:cpu,cpuacct:/pod\n", **files)) == 0.5


def test_in_a_container_that_has_the_hosts_path_what_is_mounted_counts(tmp_path: Path) -> None:
    assert cpu_quota(*tree(tmp_path, "0::/docker/0123abcd\n", cpu_DOT_max="200000 100000")) == 2.0


@pytest.mark.parametrize("text", ["max 100000", "", "many", "100000 0"])
def test_where_there_is_none_all_cores_are_there(tmp_path: Path, text: str) -> None:
    assert cpu_quota(*tree(tmp_path, "0::/\n", cpu_DOT_max=text)) is None
    assert cpu_quota(tmp_path / "nothing", tmp_path) is None
    files = {"cpu__cpu_DOT_cfs_quota_us": "-1", "cpu__cpu_DOT_cfs_period_us": "100000"}
    assert cpu_quota(*tree(tmp_path, "1:cpu:/\n", **files)) is None


@pytest.mark.parametrize(("told", "cores"), [(0.5, 0.5), (1.0, 1), (1e9, len(os.sched_getaffinity(0))), (None, None)])
def test_cores_are_those_of_the_quota_where_it_is_less(
    monkeypatch: pytest.MonkeyPatch, told: float | None, cores: float | None
) -> None:
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
