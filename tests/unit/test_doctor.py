"""Check that ``recompose doctor``, and a core without extras, name what is missing and how to install it."""

import json
import re
import socket
import subprocess
import sys
import tomllib
from collections import namedtuple
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from compositions.extras import EXTRAS
from runtime.placement.cluster import CpuReport
from runtime.pools.ray import checkup
from runtime.pools.ray.checkup import Report
from service.cli import doctor, main
from service.cli.doctor import Finding

Usage = namedtuple("Usage", "total used free")


def found(about: str, port: int = 0) -> Finding:
    return next(each for each in doctor.findings(port, Path.cwd()) if each.about == about)


def test_it_tells_all_and_ends_well_where_nothing_is_bad(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["doctor", "--state", str(tmp_path), "--json"])
    told = json.loads(done.stdout)
    assert done.exit_code == 0, told
    assert [each["about"] for each in told][:3] == ["Python", "libraries", "Ray"]
    assert all(each["do"] for each in told if each["grade"] != "good")
    assert "Recompose" in CliRunner().invoke(main, ["doctor", "--state", str(tmp_path)]).stdout


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        told = found("port", port)
    assert (told.grade, told.found) == ("note", f"{port} cannot be used: Address already in use")


@pytest.mark.parametrize(
    ("about", "target", "name", "value", "grade", "text"),
    [
        ("cores", doctor, "available_cores", lambda: 1, "note", "one core"),
        ("memory", doctor.psutil, "virtual_memory", lambda: SimpleNamespace(available=2**30), "note", "1.0 GiB free"),
        ("shared memory", doctor.shutil, "disk_usage", lambda _: Usage(1, 1, 2**26), "note", "64 MiB free"),
        ("Ray", doctor, "find_spec", lambda _: None, "bad", "cannot be found"),
        ("Spark", doctor, "find_spec", lambda _: None, "note", "PySpark is not installed"),
        ("libraries", doctor, "requires", lambda _: ["no-such>=1", "ray==1"], "bad", "no-such is missing; ray is"),
    ],
)  # fmt: skip
def test_each_fault_is_told_with_its_cure(
    monkeypatch: pytest.MonkeyPatch, about: str, target: Any, name: str, value: Any, grade: str, text: str
) -> None:
    monkeypatch.setattr(target, name, value)
    told = found(about)
    assert told.grade == grade
    assert text in told.found
    assert told.do


@pytest.mark.parametrize(("said", "text"), [('openjdk version "11.0.2"', "Java is 11, not"), ("?", "not understood")])
def test_a_java_that_spark_does_not_run_on(monkeypatch: pytest.MonkeyPatch, said: str, text: str) -> None:
    monkeypatch.setattr(doctor, "find_spec", lambda _: SimpleNamespace(origin="x"))
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: SimpleNamespace(stderr=said))
    assert text in found("Spark").found


def test_something_bad_is_exit_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "find_spec", lambda _: None)
    assert CliRunner().invoke(main, ["doctor"]).exit_code == 1


def test_a_long_folder_for_sockets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 50)
    folder.mkdir()
    monkeypatch.setenv("RAY_TMPDIR", str(folder))
    assert "too long for a socket" in found("sockets").found


SEEN = {**checkup.look(), "token": True, "TLS": True}


def cluster(monkeypatch: pytest.MonkeyPatch, *reports: Report) -> dict[str, Finding]:
    monkeypatch.setattr(checkup, "examine", lambda address: list(reports))
    return {each.about.removeprefix("cluster "): each for each in doctor.findings_of("10.0.0.1:6379")}


def test_a_cluster_without_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    told = cluster(monkeypatch, Report("10.0.0.1", 1, SEEN), Report("10.0.0.2", 1, SEEN))
    assert {each.grade for each in told.values()} == {"good"}
    assert list(told) == ["cluster", "network", "versions", "clocks", "CPUs", "token", "TLS"]


@pytest.mark.parametrize(
    ("about", "grade", "report", "sentence"),
    [
        ("network", "bad", Report("b", 1, {}), "b starts no process"),
        ("network", "bad", Report("b", 1, SEEN | {"reached": False}), "b cannot connect to this machine"),
        ("versions", "bad", Report("b", 1, SEEN | {"ray": "1.0"}), "b has ray 1.0, here it is "),
        ("CPUs", "note", Report("b", 64, SEEN | {"cpus": CpuReport(64, 64, 2.0)}), "b may use 2 CPUs, and Ray counts"),
        ("token", "note", Report("b", 1, SEEN | {"token": False}), "b accepts calls from anybody who reaches its Ray"),
        ("TLS", "note", Report("b", 1, SEEN | {"TLS": False}), "b sends code, arguments and status in clear"),
    ],
)
def test_a_fault_of_a_node_is_told(
    monkeypatch: pytest.MonkeyPatch, about: str, grade: str, report: Report, sentence: str
) -> None:
    found = cluster(monkeypatch, Report("a", 1, SEEN), Report("c", 1, SEEN), report)[about]
    assert (found.grade, found.found[: len(sentence)]) == (grade, sentence)
    assert found.do


def test_a_cluster_that_is_not_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (found,) = doctor.findings_of(f"127.0.0.1:{port}")
    assert found.grade == "bad"
    assert found.found.endswith("cannot be reached: [Errno 111] Connection refused")
    assert found.do == "is Ray started there, and does a firewall let its ports through?"


ROOT = Path(__file__).parents[2]
MODULES = [module for modules in EXTRAS.values() for module in modules]
WITHOUT = f"import sys\nsys.modules.update(dict.fromkeys({MODULES!r}))\n"


def ran(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", WITHOUT + code], capture_output=True, text=True, check=False)


SCRIPT = "from recompose import RecomposeError, pipeline, run\ndef double(value): return 2 * value\n"


def test_a_script_runs_in_threads_without_any_extra_and_loads_no_library_that_it_does_not_need() -> None:
    done = ran(
        f"{SCRIPT}print([each.value for each in run(pipeline(double), source=[1, 2], pool='local')])\n"
        "print([each for each in ('rich', 'structlog', 'yaml', 'fastapi') if sys.modules.get(each)])\n"
        "try:\n    run(pipeline(double), source=[1])\nexcept RecomposeError as error:\n    print(error)"
    )
    told = ["[2, 4]", "[]", "ray is not installed: pip install 'recompose[ray]'"]
    assert done.stdout.splitlines() == told, done.stderr


def test_the_first_line_of_a_script_that_logs_goes_to_stderr_as_a_warning() -> None:
    done = ran(
        "from compositions.logger import Logger, quiet\nquiet()\n"
        "Logger(app='words').info('all is well')\nLogger(app='words').warning('not all is well')"
    )
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert "not all is well" in line
    assert "words" in line


@pytest.mark.parametrize(("words", "extra"), [("status", "service"), ("serve", "service"), ("run synthetic", "ray")])
def test_a_command_names_the_extra_that_it_needs(words: str, extra: str) -> None:
    done = ran(f"sys.argv[1:] = {words.split()!r}\nfrom recompose.__main__ import main\nmain()")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.endswith(f"is not installed: pip install 'recompose[{extra}]'")


def test_the_help_needs_no_extra() -> None:
    assert "Usage" in ran("from service.cli.main import main\nmain(['run', '--help'])").stdout


def test_a_bundled_app_without_its_extra_is_no_fault_until_it_is_asked_for() -> None:
    done = ran(
        "from apps import registry\nfrom compositions.errors import RecomposeError\nprint(registry.scan().faults)\n"
        "for name in ('lane_detection', 'x'):\n"
        "    try:\n        registry.find(name)\n    except RecomposeError as error:\n        print(error)\n"
    )
    faults, needed, unknown = done.stdout.splitlines()
    assert faults == "()"
    assert needed == "app 'lane_detection': cv2 is not installed: pip install 'recompose[video]'"
    assert "synthetic" in unknown
    assert "cv2" not in unknown


def test_every_library_of_an_extra_leads_to_it_when_it_is_missing() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    called = {"opencv-contrib-python-headless": "cv2", "scikit-image": "skimage", "pyzmq": "zmq"}
    names = {re.split(r"[^\w-]", each)[0] for extra in EXTRAS for each in extras[extra]}
    assert {called.get(name, name.replace("-", "_")) for name in names} <= set(MODULES)


def test_the_demo_shows_the_gain_without_ray() -> None:
    """The first composition misses the objective under the load; the chosen one meets it."""
    done = ran(
        "from control.decisions import Mode\nfrom service.cli.demo import Plan, Scene, in_threads\n"
        "scenes = Scene(160.0, 2.0, Mode.OBSERVE, 'watched'), Scene(160.0, 15.0, Mode.AUTO, 'adapted')\n"
        "in_threads(Plan(scenes, 100.0))"
    )
    watched, _, adapted = done.stdout.partition("adapted: 160 items/s")
    assert watched.splitlines()[-2].endswith("ms, missed"), done.stderr
    assert "Seq(f1)-Seq(f2)-Seq(f3), 3 workers" in watched
    shown, _, summary = adapted.partition("Summary")
    assert re.search(r"switches +[1-9]", summary)  # two decisions between two looks show as the later one
    assert shown.splitlines()[-1].endswith("ms, met")
    assert "lost 0" in summary
