"""``recompose run`` as a process of its own: what it says where, and how it ends when it is told to."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

PATIENCE_S = 120.0
CHATTY = """
import itertools, logging
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
"""


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    (tmp_path / "chatty.py").write_text(CHATTY)
    return [sys.executable, "-m", "service.cli", "run", "chatty", "--apps", str(tmp_path), "--json"]


def test_prints_and_logs_of_ray_workers_come_to_stderr_by_worker(command: list[str]) -> None:
    ran = subprocess.run([*command, "--items", "3"], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["items"]["delivered"] == 3
    said = [re.fullmatch(r"\(w\d+ pid=\d+\) (.+)", line) for line in ran.stderr.splitlines()]
    assert all(said), ran.stderr
    expected = {f"{what} {number}" for number in range(3) for what in ("item", "logged")}
    assert {each[1] for each in said if each} == expected


def test_sigterm_drains_reports_and_says_so(command: list[str], tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    process = subprocess.Popen(
        [*command, "--pool", "local", "--rate", "50", "--duration", "600", "--out", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        assert any(line.startswith("(w1) item 5") for line in process.stderr)
        process.send_signal(signal.SIGTERM)
        stdout, stderr = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
        process.wait()
    summary = json.loads(stdout)
    items = summary["items"]
    assert process.returncode == 130, stderr
    assert items["accepted"] == items["delivered"] >= 6
    assert f"interrupted; {items['delivered']} items delivered" in stderr
    assert len(out.read_text().splitlines()) == items["delivered"]
