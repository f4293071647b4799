"""Bodies that are served: each against its schema, and what a reader of results is told that it cannot have."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from itertools import chain, count
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from fastapi.testclient import TestClient
from jsonschema import Draft202012Validator, FormatChecker
from synthetic_daemon import LATENCY, PUSHED, WIDE, YAML, detail, runner_of

from apps import registry
from control.decisions import Trigger
from service.api import create_app
from service.api.status import Broadcaster
from service.cli.http import Client, ServiceError
from service.daemon.daemon import Daemon
from service.daemon.store.store import DaemonStore
from service.daemon.supervision.restart_policy import Up
from service.daemon.supervision.runner_slot import LocalHost
from service.runner.runner import Runner
from service.schemas.decisions import history_of
from service.schemas.spec import RunSpec, TelemetrySpec
from tests.support.fakes import FakeRunner, decision, fake_daemon, quiet_run


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
    assert told["detail"].startswith("results 1 to 1 are gone; run ")
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
    with pytest.raises(ServiceError, match=r"no item of this run has serial number 2; run .* retains"):
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
        ({"slo": ["p95=1s", "p95=2s"]}, "p95 latency has two targets"),
        ({"slo": 400}, "must be a text such as p95=400ms, or a list of them"),
        ({"sink": {"kind": "sql", "path": "sql://u:SECRET@h"}, "budget": {"workers": 4}}, "a budget needs an"),
    ],
)
def test_an_objective_that_is_none_in_the_start_body(client: TestClient, asked: Any, sentence: str) -> None:
    told = detail(client.post("/apps/synthetic/start", json=PUSHED | asked), 422)
    assert sentence in told
    assert "SECRET" not in told
    assert client.get("/status/synthetic").json()["state"] == "stopped"


# --- every body that is served, against its schema with additional properties forbidden -------------------------------


BROKEN = 'app: synthetic\ncompositions:\n  - {name: wide, notation: "Par*4(f9)"}\n  - {name: b, notation: Sqe}\n'
CALM = {"options": {"total_ms": 1.0, "compute": "wait"}, "input": {"rate_per_s": 100}}
FRAMES = 400
"""Statuses within which a switch must have ended, four a second."""

NO_JSON = {"/", "/metrics", "/status/{app}/stream", "/stream"}
"""The page, Prometheus' text, and events, whose data is looked at below."""


class Document:
    """The OpenAPI document, with every object closed that names its properties."""

    def __init__(self, client: TestClient) -> None:
        self.client = client
        self._document = _closed(client.get("/openapi.json").json())

    @property
    def reads(self) -> set[str]:
        """Routes with a JSON body."""
        return {path for path, operations in self._document["paths"].items() if "get" in operations} - NO_JSON

    def schema(self, method: str, path: str, status: int) -> Any:
        answer = self._document["paths"][path][method]["responses"][str(status)]
        return next(iter(answer["content"].values()))["schema"]

    def check(self, body: Any, schema: Any) -> None:
        whole = {**schema, "components": self._document["components"]}
        Draft202012Validator(whole, format_checker=FormatChecker()).validate(body)

    def ask(self, method: str, path: str, url: str, status: int = 200, **rest: Any) -> Any:
        response = self.client.request(method, url, **rest)
        assert response.status_code == status, response.text
        self.check(response.json(), self.schema(method, path, status))
        return response.json()

    def properties(self, name: str) -> set[str]:
        return set(self._document["components"]["schemas"][name]["properties"])

    def read_all(self) -> dict[str, Any]:
        more = {"/what-if/{app}": "?replicas=3"}
        urls = {path: path.format(app="synthetic", number=1) + more.get(path, "") for path in self.reads}
        return {path: self.ask("get", path, url) for path, url in urls.items()}


def _closed(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: _closed(value) for key, value in schema.items()}
    names_them = schema.get("type") == "object" and "properties" in schema
    return closed | {"additionalProperties": False} if names_them else closed


def document(daemon: Daemon) -> Iterator[Document]:
    with TestClient(create_app(daemon), base_url="http://127.0.0.1:8080") as client:
        yield Document(client)


@pytest.fixture
def faked(disk: DaemonStore) -> Iterator[Document]:
    yield from document(fake_daemon(disk))


@pytest.fixture
def daemon(disk: DaemonStore, tmp_path: Path) -> Daemon:
    base = RunSpec(app="", pool="local", telemetry=TelemetrySpec(folder=str(tmp_path)))
    return Daemon({"synthetic": registry.find("synthetic")}, LocalHost(Runner), disk, base)


@pytest.fixture
def real(daemon: Daemon) -> Iterator[Document]:
    yield from document(daemon)


def test_the_answers_of_an_app_that_computes_nothing(faked: Document) -> None:
    faked.ask("get", "/status/{app}", "/status/synthetic")
    faked.ask("post", "/slo", "/slo", json=LATENCY)
    faked.ask("post", "/apps/{app}/start", "/apps/synthetic/start", json={"source": {"kind": "push"}})
    faked.ask("post", "/apps/{app}/items", "/apps/synthetic/items", 202, json={"any": ["item", None]})
    faked.ask("put", "/apps/{app}/input", "/apps/synthetic/input", json={"rate_per_s": 7})
    faked.ask("put", "/apps/{app}/batching", "/apps/synthetic/batching", json={"items": 16, "linger_ms": 5})
    faked.ask("put", "/apps/{app}/mode", "/apps/synthetic/mode", json={"mode": "pinned", "composition": "7"})
    faked.ask("post", "/compositions", "/compositions", content=WIDE, headers=YAML)
    found = faked.read_all()
    assert len(found["/decisions/{app}"]) == 2
    run = found["/status/{app}"]["run"]
    assert found["/results/{app}"] == [{"serial": 0, "value": {"any": ["item", None]}, "run": run}]
    assert {each["run"] for each in found["/decisions/{app}"]} == {run}
    faked.ask("post", "/apps/{app}/stop", "/apps/synthetic/stop")


def test_the_refusals(faked: Document) -> None:
    refused = faked.ask("post", "/compositions", "/compositions", 422, content=BROKEN, headers=YAML)
    assert [each["line"] for each in refused["errors"]] == [3, 4]
    faked.ask("post", "/slo", "/slo", 422, json={**LATENCY, "target": -1, "more": 1})
    faked.ask("get", "/slo/{app}", "/slo/none", 404)
    faked.ask("post", "/apps/{app}/stop", "/apps/synthetic/stop", 409)
    gone = faked.ask("get", "/results/{app}", "/results/synthetic?run=other&after=3", 410)
    assert (gone["run"], gone["from"], gone["to"]) == (None, None, None)


def test_the_answers_of_a_real_run(real: Document, daemon: Daemon, tmp_path: Path) -> None:
    real.ask("post", "/slo", "/slo", json=LATENCY)
    real.ask("post", "/apps/{app}/start", "/apps/synthetic/start", json=CALM)
    real.ask("put", "/apps/{app}/mode", "/apps/synthetic/mode", json={"mode": "pinned", "composition": "7"})
    frames = asyncio.run(until_switched(daemon))
    for frame in frames:
        real.check(frame, real.schema("get", "/status/{app}", 200))
    last = frames[-1]
    assert set(last) == real.properties("Status"), "every field of the document is served by a real run"
    assert last["last_switch"]["to"] == last["last_decision"]["to"] == "7"
    found = real.read_all()
    assert [found[path] != [] for path in ("/history/{app}", "/decisions/{app}", "/results/{app}")] == [True] * 3
    assert found["/status"][0]["telemetry"]["lost"] == 0
    run, status = last["run"], found["/status/{app}"]
    assert (status["run"], status["epoch"], status["started_again"]) == (run, 1, None)
    entries = [*found["/decisions/{app}"], *found["/results/{app}"], last["last_decision"]]
    assert {each["run"] for each in entries} == {run}
    stopped = real.ask("post", "/apps/{app}/stop", "/apps/synthetic/stop")
    assert stopped["state"] == "stopped"
    assert (stopped["run"], stopped["began_at"]) == (run, status["began_at"])
    written = {path.name.split("--")[1].rpartition("-")[0] for path in tmp_path.rglob("*.parquet")}
    assert written == {run}, "telemetry is of the same run"
    for path in ("/status/{app}", "/history/{app}", "/decisions/{app}", "/results/{app}"):
        real.ask("get", path, path.format(app="synthetic"))


async def until_switched(daemon: Daemon) -> list[Any]:
    """What ``/status/{app}/stream`` tells until a switch to 7 has had its first result."""
    broadcaster, frames = Broadcaster(daemon.observation.status), []
    async with aclosing(broadcaster.watch("synthetic")) as stream:
        async for text in stream:
            frames.append(json.loads(text))
            switch = frames[-1].get("last_switch")
            if len(frames) == FRAMES or (switch and switch["gap_ms"] is not None and frames[-1]["last_decision"]):
                break
    await broadcaster.close()
    return frames


# --- server-sent events: one poll for all watchers, and an end -------------------------------------------------------


async def numbers(stream: AsyncIterator[str], most: int) -> list[int]:
    found: list[int] = []
    async for text in stream:
        found.append(json.loads(text)["number"])
        if len(found) == most:
            break
    return found


def test_watchers_share_one_poll_and_miss_nothing_that_is_told() -> None:
    async def scenario() -> None:
        later = ({"number": number} for number in count(3))
        read = Mock(side_effect=chain([{"number": 1}, ConnectionError("just this once")], later))
        broadcaster = Broadcaster(read, period_s=0.001)
        async with aclosing(broadcaster.watch("x")) as one, aclosing(broadcaster.watch("x")) as two:
            first, second = await asyncio.gather(numbers(one, 5), numbers(two, 5))
        assert first == sorted(first)
        assert second == sorted(second)
        assert 2 not in first
        assert read.call_count <= max(first[-1], second[-1]) + 2
        await broadcaster.close()

    asyncio.run(scenario())


def test_closing_ends_every_watcher() -> None:
    async def scenario() -> None:
        broadcaster = Broadcaster(lambda app: {"number": 1}, period_s=3600.0)
        one, two = broadcaster.watch("x"), broadcaster.watch("y")
        assert [json.loads(await anext(stream)) for stream in (one, two)] == [{"number": 1}, {"number": 1}]
        waiting = [asyncio.create_task(numbers(stream, 1)) for stream in (one, two)]
        await broadcaster.close()
        assert await asyncio.gather(*waiting) == [[], []]

    asyncio.run(scenario())
