"""``recompose doctor``: each fault is found, told, and answered with what to do."""

from __future__ import annotations

import json
import resource
import socket
import subprocess
from collections import namedtuple
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from service.cli import doctor, main
from service.cli.doctor import Finding, Place

Usage = namedtuple("Usage", "total used free")


def found(about: str, place: Place | None = None) -> Finding:
    by_name = {each.about: each for each in doctor.findings(place or Place(0, Path.cwd()))}
    return by_name[about]


def test_it_tells_all_and_ends_well_where_nothing_is_bad(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["doctor", "--state", str(tmp_path), "--json"])
    told = json.loads(done.stdout)
    assert done.exit_code == 0, told
    assert [each["about"] for each in told][:3] == ["Python", "libraries", "Ray"]
    assert all(each["do"] for each in told if each["grade"] != "good")
    assert "Recompose" in CliRunner().invoke(main, ["doctor", "--state", str(tmp_path)]).stdout


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        told = found("port", Place(port, tmp_path))
    assert (told.grade, told.found) == ("note", f"{port} cannot be had: Address already in use")


@pytest.mark.parametrize(
    ("about", "target", "name", "value", "grade", "text"),
    [
        ("cores", doctor, "available_cores", lambda: 1, "note", "one core"),
        ("cores", doctor.os, "getloadavg", lambda: (99.0, 0, 0), "note", "with a load of 99.0"),
        ("memory", doctor.psutil, "virtual_memory", lambda: SimpleNamespace(available=2**30), "note", "1.0 GiB free"),
        ("shared memory", doctor.shutil, "disk_usage", lambda _: Usage(1, 1, 2**26), "note", "64 MiB free"),
        ("disk", doctor.shutil, "disk_usage", lambda _: Usage(1, 1, 0), "note", "0.0 GiB free"),
        ("disk", doctor.os, "access", lambda *_: False, "bad", "cannot be written"),
        ("sockets", doctor.os, "access", lambda *_: False, "bad", "cannot be written"),
        ("Ray", doctor.os, "access", lambda *_: False, "bad", "cannot be run"),
        ("Ray", doctor, "find_spec", lambda _: None, "bad", "cannot be found"),
        ("Spark", doctor, "find_spec", lambda _: None, "note", "PySpark is not installed"),
        ("libraries", doctor, "requires", lambda _: ["no-such>=1", "ray==1"], "bad", "no-such is missing; ray is"),
        ("open files", resource, "getrlimit", lambda _: (256, 4096), "note", "256 at most"),
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


@pytest.mark.parametrize(
    ("said", "text"), [('openjdk version "11.0.2"', "Java is 11, not 17 or 21"), ("?", "not understood")]
)
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
