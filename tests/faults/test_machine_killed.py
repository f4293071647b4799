"""Kill machines under load, with most of the workers; lab.benchmarks.kills measures how long output stops."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_lost_machines_cost_no_item_and_no_order() -> None:
    """In a process of its own: whoever was connected to a cluster of several machines cannot start one of his own."""
    command = [sys.executable, "-m", "lab.benchmarks.kills", "--machines", "2", "--seconds", "6", "--json"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=170, check=False)
    assert ran.returncode == 0, ran.stderr[-4000:]
    (seen,) = json.loads(ran.stdout[ran.stdout.index("{") :])["tables"][0]["rows"]
    assert seen["workers_lost"] >= 1
    assert seen["restarts"] >= seen["workers_lost"]
    assert seen["accepted"] == seen["delivered"] > 100
    assert [seen[name] for name in ("failed", "lost", "doubled", "misordered", "wrong")] == [0, 0, 0, 0, 0]
