"""Over a network: two machines with addresses of their own, 1 ms apart. See ``hosts.py`` for how they are made."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hosts import DELAY_S, ROOT, SEEN, outside, why_not

REASON = why_not()
pytestmark = pytest.mark.skipif(REASON is not None, reason=REASON or "")


def on_two_hosts(*command: str, patience_s: float) -> str:
    """What the command printed, with the bytes that went through the cable at the end."""
    line = outside(sys.executable, *command)
    ran = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=patience_s, check=False)
    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-2000:]
    return ran.stdout


def scene(name: str) -> dict[str, Any]:
    printed = on_two_hosts("tests/hosts/scenes.py", name, patience_s=300)
    (figures,) = re.findall(r"^\{.*\}$", printed, re.MULTILINE)
    seen: dict[str, Any] = json.loads(figures)
    return seen


@pytest.mark.slow
@pytest.mark.timeout(900)  # minutes: Ray starts the workers of forty tests
def test_the_contract_holds_over_the_network(tmp_path: Path) -> None:
    """Switches, resizes, kills and bundles of several sizes are in it. Files that its tests share with workers are
    where both machines find them."""
    suite = ("-m", "pytest", "-q", "-k", "ray", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'shared'}")
    printed = on_two_hosts(*suite, "tests/contract", patience_s=880)
    assert re.search(r"\d\d passed", printed), printed[-2000:]
    assert int(printed.rpartition(SEEN)[2]) > 1_000_000


def test_a_machine_that_goes_with_most_of_the_workers_costs_nothing() -> None:
    seen = scene("killed")
    assert seen["workers_lost"] > seen["workers"] / 2
    assert seen["accepted"] == seen["delivered"] > 100
    assert [seen[name] for name in ("failed", "lost", "doubled", "misordered", "wrong")] == [0, 0, 0, 0, 0]
    assert seen["longest_gap_s"] <= 2.0  # what the stream is held to while a worker lives


def test_what_is_measured_of_a_hop_has_the_way_between_machines_in_it() -> None:
    seen = scene("hops")
    for size in (1, 64, 512):
        assert seen[f"far {size}"]["hop_ms"] >= 2 * DELAY_S * 1e3
        assert seen[f"far {size}"]["items_per_s"] > 0
