"""``GET /results`` tells a reader what it cannot have any more: after a restart, out of the window, of an ended run."""

from typing import Any

import pytest
from fastapi.testclient import TestClient
from synthetic_daemon import LATENCY, PUSHED, detail, runner_of

from control.decisions import Trigger
from service.cli.http import Client, ServiceError
from service.daemon.supervision.restart_policy import Up
from service.schemas.decisions import history_of
from tests.support.fakes import FakeRunner, decision, quiet_run


class Service:
    """With one app, into which items are pushed."""

    def __init__(self, http: TestClient) -> None:
        self.http = http
        self.begin()

    def begin(self) -> None:
        assert self.http.post("/apps/synthetic/start", json=PUSHED).status_code == 200

    def push(self, *values: Any) -> None:
        for value in values:
            assert self.http.post("/apps/synthetic/items", json=value).status_code == 202

    def results(self, *, status: int = 200, **cursor: Any) -> Any:
        answer = self.http.get("/results/synthetic", params=cursor)
        assert answer.status_code == status, answer.text
        return answer.json()

    def gone(self, **cursor: Any) -> Any:
        return self.results(status=410, **cursor)

    @property
    def status(self) -> Any:
        return self.http.get("/status/synthetic").json()

    def kill_runner(self) -> None:
        """Until there is another one."""
        runner_of(self.http).killed = True
        watchdog = self.http.app.state.daemon._runs.last("synthetic")  # type: ignore[attr-defined]
        for _ in range(3):
            watchdog.step()
        assert isinstance(watchdog.condition, Up)


@pytest.fixture
def service(client: TestClient) -> Service:
    return Service(client)


def test_a_reader_that_comes_too_late_is_told_what_is_kept(service: Service) -> None:
    service.push("a", "b", "c", "d")
    del runner_of(service.http).delivered[:2]
    told = service.gone(after=0)
    assert (told["run"], told["from"], told["to"]) == (service.status["run"], 2, 3)
    assert told["detail"].startswith("results 1 to 1 are gone; kept of run ")
    assert [each["serial"] for each in service.results()] == [2, 3], "without a cursor: from the oldest kept"


@pytest.mark.parametrize("after", [{}, {"after": 0}, {"after": 1}])
def test_a_cursor_over_a_killed_runner_is_told_of_the_other_run(service: Service, after: dict[str, int]) -> None:
    service.push("a", "b")
    before = service.status["run"]
    service.kill_runner()
    service.push("x", "y", "z")
    told = service.gone(run=before, **after)
    assert (told["run"], told["from"], told["to"]) == (service.status["run"], 0, 2)
    assert told["run"] != before


def test_an_ended_run_can_be_read_to_its_end_and_no_other(service: Service) -> None:
    service.push("a", "b")
    run = service.status["run"]
    service.http.post("/apps/synthetic/stop")
    assert [each["value"] for each in service.results(run=run, after=0)] == ["b"]
    assert service.results(run=run, after=1) == []
    told = service.gone(run="another", after=0)
    assert (told["run"], told["from"], told["to"]) == (run, 0, 1)
    service.begin()
    assert service.gone(run=run, after=1)["run"] == service.status["run"] != run


def test_the_command_line_s_client_tells_it_as_a_sentence(service: Service) -> None:
    service.push("a", "b", "c")
    service.kill_runner()
    client = Client("http://127.0.0.1:8080")
    client._http.close()
    client._http = service.http
    with pytest.raises(ServiceError, match="serial number 2 was not given to an item in this run; kept of run"):
        client.get("/results/synthetic", after=2, limit=10)


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
    others = running.get(path, params={"kind": ["no_change", "batching"]}).json()
    assert {entry["kind"] for entry in others} == {"no_change"}
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


def test_an_objective_is_shown_while_the_app_starts(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeRunner, "start", lambda _: None)  # its workers do not come
    assert client.post("/apps/synthetic/start", json=PUSHED).json()["state"] == "starting"
    stored = client.post("/slo", json=LATENCY).json()
    status = client.get("/status/synthetic").json()
    assert runner_of(client).spec.slo is None, "it is told after its start"
    assert (status["state"], status["slo_status"]) == ("starting", "unknown")
    assert (status["slo"]["target"], status["slo"]["bound"]) == (400, stored["bound"])
    client.delete("/slo/synthetic")
    assert client.get("/status/synthetic").json()["slo"] is None


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
        ({"sink": {"kind": "sql", "path": "sql://u:SECRET@h"}, "budget": {"workers": 4}}, "a budget needs an"),
    ],
)
def test_an_objective_that_is_none_in_the_start_body(client: TestClient, asked: Any, sentence: str) -> None:
    told = detail(client.post("/apps/synthetic/start", json=PUSHED | asked), 422)
    assert sentence in told
    assert "SECRET" not in told
    assert client.get("/status/synthetic").json()["state"] == "stopped"
