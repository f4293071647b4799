"""What is asked for while an app starts is shown at once, though its runner is told when its start is over."""

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient
from synthetic_daemon import detail

from apps import registry
from control.decisions import Mode, State
from service.api import create_app
from service.daemon.daemon import Daemon
from service.daemon.store.store import DaemonStore
from service.daemon.supervision.runner_slot import LocalHost
from service.schemas.spec import RunSpec
from tests.support.fakes import FakeRunner, PromptTicker

PUSHED = {"source": {"kind": "push"}}
LATENCY = {"app": "synthetic", "metric": "latency", "target": 400}


class Slow(FakeRunner):
    """Its workers do not come."""

    def start(self) -> None:
        super().start()
        self.state = State.STARTING


@pytest.fixture
def runners() -> list[FakeRunner]:
    return []


@pytest.fixture
def starting(disk: DaemonStore, runners: list[FakeRunner]) -> Iterator[TestClient]:
    def make(spec: RunSpec) -> FakeRunner:
        runners.append(Slow(spec))
        return runners[-1]

    apps = {"synthetic": registry.find("synthetic")}
    daemon = Daemon(apps, LocalHost(make), disk, make_ticker=PromptTicker)
    with TestClient(create_app(daemon), base_url="http://127.0.0.1:8080") as client:
        assert client.post("/apps/synthetic/start", json=PUSHED).json()["state"] == "starting"
        yield client


def test_an_objective(starting: TestClient, runners: list[FakeRunner]) -> None:
    stored = starting.post("/slo", json=LATENCY).json()
    status = starting.get("/status/synthetic").json()
    assert runners[0].spec.slo is None, "it is told after its start"
    assert (status["state"], status["slo_status"]) == ("starting", "unknown")
    assert (status["slo"]["target"], status["slo"]["bound"]) == (400, stored["bound"])
    starting.delete("/slo/synthetic")
    assert starting.get("/status/synthetic").json()["slo"] is None


def test_an_objective_in_the_start_body(client: TestClient) -> None:
    asked = {"slo": ["p95<=400ms", "throughput=10/s"], "threshold": 0.5, "budget": {"workers": 4}}
    status = client.post("/apps/synthetic/start", json=PUSHED | asked).json()
    assert [each["target"] for each in status["slo"]["objectives"]] == [400, 10]
    assert (status["slo"]["bound"], status["slo"]["budget"]["workers"]) == (600, 4)
    assert client.get("/slo/synthetic").json()["objectives"] == status["slo"]["objectives"]


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"slo": "p95=fast"}, "'fast' is not a number with a unit"),
        ({"slo": ["p95=1s", "p95=2s"]}, "p95 latency is asked for twice"),
        ({"slo": 400}, "must be a text such as p95=400ms, or a list of them"),
        (
            {"sink": {"kind": "sql", "path": "sql://u:SECRET@h"}, "budget": {"workers": 4}},
            "a budget is for an objective; say which with slo",
        ),
    ],
)
def test_an_objective_that_is_none_in_the_start_body(client: TestClient, asked: Any, sentence: str) -> None:
    told = detail(client.post("/apps/synthetic/start", json=PUSHED | asked), 422)
    assert sentence in told
    assert "SECRET" not in told
    assert client.get("/status/synthetic").json()["state"] == "stopped"


def test_a_mode(starting: TestClient, runners: list[FakeRunner]) -> None:
    assert starting.put("/apps/synthetic/mode", json={"mode": "observe"}).json()["mode"] == "observe"
    assert runners[0].spec.mode is Mode.AUTO
