"""Workers killed under load: no item is lost, and the order is kept. Machines: ``tests/hosts/test_two_hosts.py``."""

from pathlib import Path

from tests.support.kills import workers_killed


def test_killed_workers_cost_no_item_and_no_order(tmp_path: Path) -> None:
    seen = workers_killed(8.0, 2.0, str(tmp_path / "results.jsonl"))
    assert seen.kills >= 3
    assert seen.restarts >= 3
    assert seen.accepted == seen.delivered > 300
    assert (seen.failed, seen.lost, seen.doubled, seen.misordered, seen.wrong) == (0, 0, 0, 0, 0)
