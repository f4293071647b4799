"""The demo as a newcomer sees it, shortened: real workers, every item delivered in order, nothing left behind."""

import re
import subprocess
import sys
from pathlib import Path

COMMAND = [sys.executable, "-m", "service.cli", "demo", "synthetic", "--steps", "3", "12", "8"]


def test_it_adapts_delivers_every_item_and_ends_by_itself() -> None:
    here = Path(__file__).parents[2]
    ended = subprocess.run(COMMAND, check=False, capture_output=True, text=True, timeout=120, cwd=here)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    rows = {line[:31].strip(): line[31:].strip() for line in ended.stdout.partition("Summary")[2].splitlines()}
    assert re.fullmatch(r"accepted ([\d,]+), delivered \1, failed 0, shed 0, lost 0, misordered 0", rows["items"]), rows
    assert rows["compositions used"].startswith("1, 7"), "three equal stages beyond their rate: all in parallel"
    assert re.fullmatch(r"1: [\d,]+ ms → 7: [\d,]+ ms", rows["latency at high input"])
    assert "A high load" in ended.stdout
    assert "Objective: mean latency" in ended.stdout
