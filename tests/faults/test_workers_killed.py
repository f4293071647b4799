"""Workers, and machines with most of them, killed under load: no item is lost, and output goes on within 2 s."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.kills import workers_killed

ROOT = Path(__file__).parents[2]


def test_killed_workers_cost_no_item_and_no_order(tmp_path: Path) -> None:
    seen = workers_killed(8.0, 2.0, str(tmp_path / "results.jsonl"))
    assert seen.kills >= 3
    assert seen.restarts >= 3
    assert seen.accepted == seen.delivered > 300
    assert (seen.failed, seen.lost, seen.doubled, seen.misordered, seen.wrong) == (0, 0, 0, 0, 0)


def test_lost_machines_cost_no_item_and_no_order() -> None:
    """In a process of its own: whoever was connected to a cluster of several machines cannot start one of his own."""
    with tempfile.TemporaryDirectory(prefix="rc") as folder:  # a short name: paths of sockets begin with it
        command = [sys.executable, "-m", "tests.support.kills", folder, "2", "6"]
        ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=170, check=False)
    assert ran.returncode == 0, ran.stderr[-4000:]
    seen = json.loads(ran.stdout.splitlines()[-1])
    assert seen["workers_lost"] >= 1
    assert seen["restarts"] >= seen["workers_lost"]
    assert seen["accepted"] == seen["delivered"] > 100
    assert [seen[name] for name in ("failed", "lost", "doubled", "misordered", "wrong")] == [0, 0, 0, 0, 0]
