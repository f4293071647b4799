"""The demo as a newcomer sees it, shortened: a real daemon, real workers, every result checked, nothing left behind."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

COMMAND = [sys.executable, "-m", "service.cli", "demo", "synthetic", "--steps", "3", "12", "8"]


def test_it_adapts_checks_every_result_and_ends_by_itself() -> None:
    here = Path(__file__).parents[2]
    ended = subprocess.run(COMMAND, check=False, capture_output=True, text=True, timeout=120, cwd=here)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    rows = {line[:33].strip(): line[33:].strip() for line in ended.stdout.partition("Summary")[2].splitlines()}
    assert rows["items lost, doubled, misordered"] == "0, 0, 0"
    accepted, delivered = rows["items accepted, delivered"].split(", ")
    assert accepted == delivered
    assert rows["compositions used"].startswith("1 → 7"), "three equal stages beyond their rate: all in parallel"
    assert re.fullmatch(r"1: [\d,]+ ms → 7: [\d,]+ ms", rows["latency at high input"])
    assert "input rises to" in ended.stdout
    assert "SLO: mean latency" in ended.stdout
