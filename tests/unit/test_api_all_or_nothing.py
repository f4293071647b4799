"""Changes over HTTP take effect as a whole or not at all, and what runs is what can be chosen by its name."""

import re
from typing import Any

import pytest
from fastapi.testclient import TestClient
from full_disk import fill, free
from synthetic_daemon import LATENCY, PUSHED, WIDE, YAML, detail, known, runner_of

from compositions.document import loader
from service.daemon.store.store import DaemonStore

CHANGES: list[tuple[str, str, dict[str, Any]]] = [
    ("POST", "/slo", {"json": LATENCY | {"target": 100}}),
    ("DELETE", "/slo/synthetic", {}),
    ("PUT", "/apps/synthetic/mode", {"json": {"mode": "pinned", "composition": "7"}}),
    ("POST", "/compositions", {"content": WIDE, "headers": YAML}),
    ("DELETE", "/compositions/synthetic/5", {}),
    ("PUT", "/apps/synthetic/input", {"json": {"rate_per_s": 77}}),
    ("PUT", "/apps/synthetic/batching", {"json": {"items": 64}}),
    ("POST", "/apps/synthetic/stop", {}),
]


@pytest.mark.parametrize(("method", "path", "given"), CHANGES)
@pytest.mark.parametrize("left", [0, 1])
def test_a_full_disk_is_told_and_nothing_is_changed(
    running: TestClient, disk: DaemonStore, method: str, path: str, given: dict[str, Any], left: int
) -> None:
    """Also when it fills up between two writes of one request; a success then is one after a restart, too."""
    running.post("/slo", json=LATENCY)
    before = known(running), known_after_a_restart(disk)
    fill(disk, left)
    answer = running.request(method, path, **given)
    free(disk)
    after = known(running), known_after_a_restart(disk)
    if answer.is_error:
        assert re.search("the disk of memory is full: nothing was changed", detail(answer, 507))
        assert after == before
    else:
        assert after[0] != before[0]
        assert after[1] != before[1]


def known_after_a_restart(disk: DaemonStore) -> Any:
    return disk.started(), disk.slos(), disk.overlay("synthetic")


@pytest.mark.parametrize("left", [0, 1])
def test_an_app_that_cannot_be_stored_as_started_is_not_started_and_keeps_its_objective(
    client: TestClient, disk: DaemonStore, left: int
) -> None:
    client.post("/slo", json=LATENCY)
    before = known_after_a_restart(disk)
    fill(disk, left)
    assert "is full" in detail(client.post("/apps/synthetic/start", json=PUSHED | {"slo": "p95=50ms"}), 507)
    free(disk)
    assert known_after_a_restart(disk) == before
    assert client.get("/status/synthetic").json()["state"] == "stopped"
    assert client.post("/apps/synthetic/start", json=PUSHED).status_code == 200


def test_a_start_that_is_refused_changes_no_objective(running: TestClient) -> None:
    running.post("/slo", json=LATENCY)
    assert running.post("/apps/synthetic/start", json=PUSHED | {"slo": "p95=50ms"}).status_code == 409
    assert running.get("/slo/synthetic").json()["target"] == LATENCY["target"]


def test_what_a_silent_runner_was_not_told_is_not_in_force(running: TestClient, disk: DaemonStore) -> None:
    running.post("/slo", json=LATENCY)
    before = known_after_a_restart(disk)

    def silent(request: object, *, timeout_s: float = 0.0) -> None:
        raise TimeoutError

    runner_of(running).ask = silent  # type: ignore[method-assign, assignment]
    for method, path, given in CHANGES[:5]:
        assert "the runner of synthetic does not answer" in detail(running.request(method, path, **given), 503)
        assert known_after_a_restart(disk) == before


@pytest.fixture
def pinned(running: TestClient) -> TestClient:
    running.put("/apps/synthetic/mode", json={"mode": "pinned", "composition": "7"})
    return running


def test_the_composition_that_runs_cannot_become_another_one(pinned: TestClient) -> None:
    before = known(pinned)
    other = WIDE.replace(b"}]", b'}, {name: "7", notation: "Seq(f1,f2,f3)"}]')
    told = detail(pinned.post("/compositions", content=other, headers=YAML), 409)
    assert told.startswith("'7' is the active composition of synthetic; switch to another one first, or give the new")
    assert known(pinned) == before


def test_the_composition_that_runs_can_be_sent_again_as_it_is(pinned: TestClient) -> None:
    (seven,) = [each for each in pinned.get("/compositions/synthetic").json() if each["name"] == "7"]
    same = f'app: synthetic\ncompositions: [{{name: "7", notation: "{seven["notation"]}"}}]\n'
    assert pinned.post("/compositions", content=same, headers=YAML).status_code == 200


def test_the_active_composition_is_the_one_that_can_be_chosen_by_its_name(pinned: TestClient) -> None:
    """Also when its file says something else by now: that is for the next start."""
    compositions = pinned.app.state.daemon.compositions  # type: ignore[attr-defined]
    wide = loader.load(WIDE.replace(b"wide", b'"7"'), compositions.stages).compositions
    compositions.load_directory({"synthetic": wide})
    active = pinned.get("/status/synthetic").json()["composition"]
    (listed,) = [each for each in pinned.get("/compositions/synthetic").json() if each["active"]]
    assert {key: listed[key] for key in active} == active
    pinned.post("/apps/synthetic/stop")
    pinned.post("/apps/synthetic/start", json=PUSHED | {"composition": "7"})
    assert pinned.get("/status/synthetic").json()["composition"]["notation"] == "Par*4(f1,f2,f3)"
