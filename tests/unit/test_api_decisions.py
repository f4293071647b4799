"""``/decisions``: of one kind, page by page, and one by its id."""

from typing import Any

from fastapi.testclient import TestClient
from synthetic_daemon import detail

from control.decisions import Trigger
from service.schemas.decisions import history_of
from tests.support.fakes import decision, quiet_run


def test_decisions_of_one_kind_page_by_page_and_one_by_its_id(running: TestClient) -> None:
    for name in ("7", "1", "7"):
        running.put("/apps/synthetic/mode", json={"mode": "pinned", "composition": name})
    path = "/decisions/synthetic"
    seen: list[int] = []
    asked: dict[str, Any] = {"kind": "decision", "limit": 2}
    while page := running.get(path, params=asked).json():
        seen += [entry["id"] for entry in page]
        asked["before"] = page[-1]["at"]
    assert seen == [4, 3, 2, 1]
    assert {entry["kind"] for entry in running.get(path, params={"kind": ["no_change", "batching"]}).json()} == {
        "no_change"
    }
    assert running.get(f"{path}/2").json() == running.get(path, params={"kind": "decision"}).json()[2]
    assert "1 to 4 are kept" in detail(running.get(f"{path}/5"), 404)
    assert "2026-11-20T10:00:00Z" in str(detail(running.get(path, params={"before": "0.5"}), 422))


def test_a_page_does_not_end_within_an_instant() -> None:
    at = ["2026-11-20T10:00:02.000Z", "2026-11-20T10:00:01.000Z"]
    decisions = [decision(number, Trigger.MANUAL, "1", "7", None) for number in (2, 1)]
    decisions = [each.model_copy(update={"at": time}) for each, time in zip(decisions, at, strict=True)]
    runs = [quiet_run(at[1], None)]
    assert len(history_of(decisions, runs, [], 3)) == 3
    assert [entry.at for entry in history_of(decisions, runs, [], 2)] == at[:1]
    assert len(history_of(decisions[1:], runs, [], 1)) == 1
