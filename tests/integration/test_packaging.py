"""Check that what is installed is ours, complete and pinned; nothing of it hides a library."""

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from importlib.metadata import distribution, packages_distributions
from pathlib import Path
from typing import Any

import pytest
from image_steps import ROOT, build_wheel

from recompose import names

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
WHEEL: dict[str, Any] = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
ROOMS: list[str] = WHEEL["hooks"]["custom"]["rooms"]
PACKAGES: list[str] = ["recompose", *ROOMS]
IN_THE_IMAGE = ("ray", "service", "arrow", "report", "video", "apps", "samples")
LOCKS = ["requirements.lock", "requirements-run.lock", "requirements-build.lock"]


@pytest.fixture
def opened(wheel: Path) -> Iterator[zipfile.ZipFile]:
    with zipfile.ZipFile(wheel) as archive:
        yield archive


def test_the_laboratory_is_a_wheel_of_its_own(opened: zipfile.ZipFile, tmp_path: Path) -> None:
    build_wheel(ROOT / "lab", tmp_path)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as lab:
        packed = [name for name in lab.namelist() if "dist-info" not in name]
        entries = next(lab.read(name).decode() for name in lab.namelist() if name.endswith("entry_points.txt"))
        program = lab.read("recompose/lab/commands/gym.py").decode()
    assert packed
    assert all(name.startswith("recompose/lab/") for name in packed)
    assert not any(name.startswith("recompose/lab/") for name in opened.namelist())
    assert "gym = recompose.lab.commands.gym:gym" in entries
    assert "from recompose.lab.gym.contest import Contest" in program


@pytest.mark.long
def test_the_source_archive_makes_the_same_wheel(opened: zipfile.ZipFile, tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "--target", "sdist", "--directory", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = (each for each in tmp_path.iterdir() if each.is_dir())
    build_wheel(source, tmp_path)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as again:
        made, known = ({each.filename: each.CRC for each in wheel.infolist()} for wheel in (again, opened))
    assert made == known


SCRIPT = """
from recompose import pipeline, run
def double(value): return 2 * value
print([each.value for each in run(pipeline(double), source=[1, 2], pool="local")])
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("release", "end"), [("3.11", "lowest"), ("3.11", "highest"), ("3.12", "highest"), ("3.13", "highest")]
)
def test_the_core_runs_with_oldest_and_newest_libraries(wheel: Path, release: str, end: str, tmp_path: Path) -> None:
    """It needs a registry, and the release of Python. At most 15 libraries come along."""
    python, uv = tmp_path / "bin" / "python", Path(sys.executable).with_name("uv")
    found = subprocess.run([uv, "python", "find", "--no-python-downloads", release], check=False, capture_output=True)
    if found.returncode:
        pytest.skip(f"there is no Python {release}")
    subprocess.run([uv, "venv", "--quiet", "--allow-existing", "--python", release, str(tmp_path)], check=True)
    install = [uv, "pip", "install", "--python", python, "--resolution", end, str(wheel)]
    subprocess.run(install, check=True, capture_output=True)
    ran = subprocess.run([python, "-c", SCRIPT], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.stdout == "[2, 4]\n", ran.stderr
    listed = subprocess.run([uv, "pip", "list", "--python", python], capture_output=True, text=True, check=True)
    assert len(listed.stdout.splitlines()) - 2 <= 16  # two lines of head


# --- installed --------------------------------------------------------------------------------------------------------


def test_each_package_is_ours_from_anywhere() -> None:
    code = f"import {', '.join(PACKAGES)}; print(*(each.__file__ for each in ({', '.join(PACKAGES)})))"
    ran = subprocess.run([sys.executable, "-c", code], cwd="/", capture_output=True, text=True, check=True)
    assert ran.stdout.split() == [str(ROOT / name / "__init__.py") for name in PACKAGES]


def test_no_package_or_folder_hides_a_library() -> None:
    ours = {"recompose", "recompose-lab"}
    others = {name for name, owners in packages_distributions().items() if set(owners) - ours}
    libraries = others | sys.stdlib_module_names
    folders = {folder.name for folder in ROOT.iterdir() if folder.is_dir() and folder.name.isidentifier()}
    assert (folders | set(PACKAGES)) & libraries == set()
    assert folders & {"ray", "spark", "pyspark", "data", "types"} == set()


def test_entry_points_load() -> None:
    entries = distribution("recompose").entry_points
    found = {(entry.group, entry.name): entry.load() for entry in entries}
    assert {name for group, name in found if group == "recompose.apps"} >= {"ferret", "synthetic", "person_recognition"}
    assert callable(found["console_scripts", "recompose"])
    for (group, name), value in found.items():
        assert group != "recompose.apps" or value.name == name


def test_there_is_one_version() -> None:
    version = PROJECT["project"]["version"]
    assert distribution("recompose").version == version
    command = [Path(sys.executable).with_name("recompose"), "--version"]
    assert version in subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert f"## {version}\n" in (ROOT / "CHANGELOG.md").read_text()


# --- the wheel --------------------------------------------------------------------------------------------------------


def test_the_wheel_holds_every_file_of_the_packages(opened: zipfile.ZipFile) -> None:
    """The rooms in the one package that is installed."""
    assert {*ROOMS, "lab"} == names.ROOMS
    tracked = subprocess.run(["git", "ls-files", *PACKAGES], cwd=ROOT, capture_output=True, text=True, check=True)
    expected = {name if name.startswith("recompose/") else f"recompose/{name}" for name in tracked.stdout.split()}
    inside = {name for name in opened.namelist() if ".dist-info/" not in name}
    assert expected - inside == set()
    assert {name.partition("/")[0] for name in inside} == {"recompose"}
    assert {"recompose/compositions/ferret.yaml", "recompose/py.typed"} <= inside


def test_the_wheel_may_not_be_uploaded_and_carries_its_licence(opened: zipfile.ZipFile) -> None:
    (metadata,) = (name for name in opened.namelist() if name.endswith("/METADATA"))
    assert "Classifier: Private :: Do Not Upload" in opened.read(metadata).decode()
    assert any(name.endswith("/LICENSE") for name in opened.namelist())


# --- the locks --------------------------------------------------------------------------------------------------------


def pins(name: str) -> dict[str, str]:
    text = (ROOT / name).read_text()
    return {normal(each): version for each, version in re.findall(r"^([\w.-]+)==([^\s;\\]+)", text, re.MULTILINE)}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def wanted(requirements: list[str]) -> set[str]:
    return {normal(re.split(r"[\s<>=!~;\[]", each)[0]) for each in requirements}


def test_locks_are_complete_and_agree() -> None:
    everything, run, build = map(pins, LOCKS)
    project = PROJECT["project"]
    extras = project["optional-dependencies"]
    served = [each for name in IN_THE_IMAGE for each in extras[name]]
    assert wanted([*project["dependencies"], *served]) <= run.keys()
    assert wanted([*project["dependencies"], *served, *extras["dev"]]) <= everything.keys()
    assert wanted(PROJECT["build-system"]["requires"]) <= build.keys()
    assert run.items() | build.items() <= everything.items()
    assert "pytest" not in run


@pytest.mark.parametrize("name", [*LOCKS, "requirements-uv.lock", "requirements-sbom.lock"])
def test_locks_pin_by_hash_and_name_no_registry(name: str) -> None:
    text = (ROOT / name).read_text()
    assert pins(name)
    entries = re.split(r"\n(?=\S)", text)
    assert [entry for entry in entries if "==" in entry and "--hash=sha256:" not in entry and entry[0] != "#"] == []
    assert re.findall(r"://|--index|--find-links|--trusted", text) == []
