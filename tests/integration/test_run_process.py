"""``recompose run`` as a process of its own: what it says where, and how it ends when it is told to."""

import json
import re
import signal
import subprocess
import sys
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from service.daemon.supervision.ray_host import RayHost
from service.runner.rpc.requests import Start
from service.schemas.spec import RunSpec, SourceSpec
from tests.support.waiting import wait_until

PATIENCE_S = 120.0
APPS = """
import itertools, logging, threading
from apps.contract import App
from compositions.model import Stage

class Chatty(App):
    name = "chatty"
    description = "Says what it does."
    stages = (Stage("say"),)

    def items(self, path):
        return itertools.count()

    def say(self, number):
        print("item", number)
        logging.getLogger("chatty").warning("logged %d", number)
        return number

class HeldUp(Chatty):
    name = "held-up"
    description = "Takes one item, and never gives it back."

    def say(self, number):
        print("item", number)
        threading.Event().wait()
"""
RUN = [sys.executable, "-m", "service.cli", "run"]


@pytest.fixture
def apps(tmp_path: Path) -> list[str]:
    (tmp_path / "chatty.py").write_text(APPS)
    return ["--apps", str(tmp_path), "--json"]


def interrupted(command: list[str], line: str, *signals: signal.Signals) -> tuple[int, dict[str, Any], str]:
    """Exit code, items of the summary and stderr, but for ``line``, of a run that is told to end after it said that."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        said = list(takewhile(lambda each: not re.fullmatch(line, each.rstrip()), process.stderr))
        for each in signals:
            process.send_signal(each)
        stdout, stderr = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
        process.wait()
    return process.returncode, json.loads(stdout)["items"], "".join(said) + stderr


def test_prints_and_logs_of_ray_workers_come_to_stderr_by_worker(apps: list[str]) -> None:
    command = [*RUN, "chatty", *apps, "--items", "3"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["items"]["delivered"] == 3
    said = [re.fullmatch(r"\(w\d+ pid=\d+\) (.+)", line) for line in ran.stderr.splitlines()]
    assert all(said), ran.stderr
    expected = {f"{what} {number}" for number in range(3) for what in ("item", "logged")}
    assert {each[1] for each in said if each} == expected


def test_prints_of_an_app_of_a_daemon_are_in_its_log_with_the_runner_and_the_worker(apps: list[str]) -> None:
    spec = RunSpec(app="chatty", apps_dirs=(apps[1],), items=3, source=SourceSpec(loop=False))
    with capture_logs() as logs:
        host = RayHost()
        try:
            host.spawn("chatty-runner", spec).ask(Start())
            wait_until(lambda: sum(each["event"] == "printed" for each in logs) >= 6, PATIENCE_S)
        finally:
            host.close()
    printed = [each for each in logs if each["event"] == "printed"]
    assert {each["line"] for each in printed} >= {f"item {number}" for number in range(3)}
    assert all(re.fullmatch(r"chatty-runner w\d+ pid=\d+", each["by"]) for each in printed), printed


def test_sigterm_drains_reports_and_says_so(apps: list[str], tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    command = [*RUN, "chatty", *apps, "--pool", "local", "--rate", "50", "--duration", "600", "--out", str(out)]
    code, items, stderr = interrupted(command, r"\(w\d+\) item 5", signal.SIGTERM)
    assert code == 130, stderr
    assert items["accepted"] == items["delivered"] >= 6
    for said in (f"interrupted; {items['delivered']} items delivered", "logged 4"):
        assert said in stderr
    assert len(out.read_text().splitlines()) == items["delivered"]


def test_a_second_interruption_says_what_is_given_up(apps: list[str]) -> None:
    """Two signals of one kind, one soon after the other, are one for the kernel."""
    command = [*RUN, "held-up", *apps, "--pool", "local"]
    code, items, stderr = interrupted(command, r"\(w\d+\) item 0", signal.SIGTERM, signal.SIGINT)
    assert (code, items["delivered"]) == (130, 0), stderr
    assert f"interrupted; 0 items delivered, {items['accepted']} accepted items given up" in stderr
