"""What runs and what can be chosen by its name are one and the same composition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from compositions.document import loader
from service.api import create_app
from service.daemon.fakes.fake_daemon import fake_daemon
from service.daemon.storing.store import DaemonStore

LATENCY = {"app": "synthetic", "metric": "latency", "target": 400, "threshold": 0.2, "statistic": "mean"}
PUSHED = {"source": {"kind": "push"}, "input": {"rate_per_s": 10}}
WIDE = b'app: synthetic\ncompositions: [{name: wide, notation: "Par*4(f1,f2,f3)"}]\n'
YAML = {"content-type": "application/yaml"}


@pytest.fixture
def disk() -> Iterator[DaemonStore]:
    store = DaemonStore(None)
    yield store
    store.close()


@pytest.fixture
def client(disk: DaemonStore) -> Iterator[TestClient]:
    with TestClient(create_app(fake_daemon(disk)), base_url="http://127.0.0.1:8080") as client:
        yield client


@pytest.fixture
def running(client: TestClient) -> TestClient:
    assert client.post("/apps/synthetic/start", json=PUSHED).status_code == 200
    return client


def detail(response: Any, status: int) -> str:
    assert response.status_code == status, response.text
    return str(response.json()["detail"])


def known(client: TestClient) -> Any:
    status = client.get("/status/synthetic").json()
    told = {key: status[key] for key in ("state", "mode", "composition", "slo", "input_rate_per_s")}
    return told, client.get("/compositions/synthetic").json(), client.get("/slo").json()


@pytest.fixture
def pinned(running: TestClient) -> TestClient:
    running.put("/apps/synthetic/mode", json={"mode": "pinned", "composition": "7"})
    return running


def test_the_composition_that_runs_cannot_become_another_one(pinned: TestClient) -> None:
    before = known(pinned)
    other = WIDE.replace(b"}]", b'}, {name: "7", notation: "Seq(f1,f2,f3)"}]')
    expected = (
        "'7' is the active composition of synthetic; switch to another one first, or give the new one another name"
    )
    assert detail(pinned.post("/compositions", content=other, headers=YAML), 409) == expected
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
