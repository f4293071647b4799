"""Every route of the control plane, on the real application with runners that compute nothing."""

import io
import json
import pickle
import re
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from full_disk import fill, free
from synthetic_daemon import LATENCY, PUSHED, WIDE, YAML, detail, runner_of

from compositions.errors import NotNow
from service.api import create_app
from service.daemon.store import database
from service.daemon.store.store import DaemonStore
from service.daemon.supervision.runner_slot import LocalHost
from tests.support.fakes import FakeRunner, fake_daemon


def test_an_slo_is_stored_and_answered_with_its_bound(client: TestClient) -> None:
    stored = client.post("/slo", json=LATENCY).json()
    assert (stored["bound"], stored["id"]) == (pytest.approx(480), 1)
    assert stored["accepted_at"].endswith("Z")
    assert {key: stored[key] for key in LATENCY} == LATENCY
    assert client.get("/slo").json() == [stored]
    assert client.get("/slo/synthetic").json() == stored


def test_an_objective_that_any_composition_meets_is_explained_in_the_answer_to_a_start(client: TestClient) -> None:
    client.post("/slo", json={"app": "synthetic", "metric": "throughput", "target": "input_rate"})
    started = client.post("/apps/synthetic/start", json={"source": {"kind": "replay"}}).json()
    assert "the source has no rate of its own" in started["slo_note"]
    assert "set a rate, or ask for fastest" in client.get("/status/synthetic").json()["slo_note"]
    assert client.put("/apps/synthetic/input", json={"rate_per_s": 10}).json()["slo_note"] is None


JOINT: dict[str, Any] = {
    "app": "synthetic",
    "objectives": [{"metric": "latency", "target": 400, "statistic": "p95"}, {"metric": "throughput", "target": 10}],
    "budget": {"workers": 8},
}


def test_a_published_strategy_takes_one_objective(client: TestClient) -> None:
    client.post("/slo", json=JOINT)
    refused = detail(client.post("/apps/synthetic/start", json={**PUSHED, "strategy": "vogel"}), 422)
    assert "vogel supports one objective and no budget, not 2 objectives at once; use strategy expected-cost" in refused
    client.post("/slo", json=LATENCY)
    assert client.post("/apps/synthetic/start", json={**PUSHED, "strategy": "vogel"}).status_code == 200
    assert "strategy vogel supports one objective" in detail(client.post("/slo", json=JOINT), 422)
    assert client.get("/slo/synthetic").json()["objectives"] is None


def test_an_slo_reaches_a_running_app_and_can_be_removed_once(running: TestClient) -> None:
    assert running.get("/status/synthetic").json()["slo"] is None
    running.post("/slo", json=LATENCY)
    assert running.get("/status/synthetic").json()["slo"]["target"] == 400
    assert running.delete("/slo/synthetic").status_code == 204
    assert running.get("/status/synthetic").json()["slo"] is None
    for method in ("GET", "DELETE"):
        assert "synthetic has no SLO" in detail(running.request(method, "/slo/synthetic"), 404)


NEED_IT_RUNNING: dict[tuple[str, str], Any] = {
    ("post", "/apps/{app}/stop"): None,
    ("put", "/apps/{app}/input"): {"rate_per_s": 1},
    ("put", "/apps/{app}/batching"): {"items": 8},
    ("put", "/apps/{app}/mode"): {"mode": "auto"},
    ("post", "/apps/{app}/items"): 1,
}


def test_an_unknown_app_is_named_with_those_there_are_and_one_that_does_not_run_with_how_to_start_it(
    client: TestClient,
) -> None:
    announcement = {"rate_per_s": 1, "until": "2999-01-01T00:00:00Z"}
    bodies = {**NEED_IT_RUNNING, ("post", "/apps/{app}/start"): {}, ("post", "/apps/{app}/announce"): announcement}
    answers = [client.post("/slo", json={**LATENCY, "app": "nope"})]
    for path, operations in client.get("/openapi.json").json()["paths"].items():
        for method in operations if "{app}" in path else ():
            url = path.format(app="nope", name="1", number=1)
            answers.append(client.request(method, url, json=bodies.get((method, path))))
    assert len(answers) > 20
    for answer in answers:
        assert detail(answer, 404) == "there is no app 'nope'; registered are synthetic", answer.request.url
    for (method, path), body in NEED_IT_RUNNING.items():
        not_running = client.request(method, path.format(app="synthetic"), json=body)
        expected = "synthetic is not running; start it with recompose start synthetic, or POST /apps/synthetic/start"
        assert detail(not_running, 409) == expected


def test_a_stopped_app_has_a_status_of_nulls_and_is_listed_with_what_starts_it(client: TestClient) -> None:
    status = client.get("/status/synthetic").json()
    assert (status["state"], status["slo_status"], status["mode"]) == ("stopped", "none", "auto")
    assert status["composition"] is None
    assert set(status["latency_ms"].values()) == {None}
    assert [stage["service_time_ms"] for stage in status["stages"]] == [None, None, None]
    (listed,) = client.get("/apps").json()
    assert (listed["name"], listed["running"], listed["compositions"]) == ("synthetic", False, list("1234567"))
    assert "weights" in listed["options"]["properties"]


def test_start_and_stop(client: TestClient) -> None:
    assert client.post("/apps/synthetic/start").json()["state"] == "stable"
    assert "synthetic is running already" in detail(client.post("/apps/synthetic/start", json={}), 409)
    assert client.post("/apps/synthetic/stop").json()["state"] == "stopped"
    assert client.post("/apps/synthetic/start", json={"composition": "7"}).json()["composition"]["name"] == "7"


def test_a_composition_tells_its_own_batch(client: TestClient) -> None:
    batched = b'app: synthetic\ncompositions: [{name: wide, notation: "Par*4(f1,f2,f3)", batch: {items: 64}}]\n'
    client.post("/compositions", content=batched, headers=YAML)
    told = {each["name"]: each["batch"] for each in client.get("/compositions/synthetic").json()}
    assert told["wide"] == {"items": 64, "bytes": 4 * 2**20, "linger_ms": 0.0}
    assert told["1"] is None


def test_pushed_items_come_out_in_order(running: TestClient) -> None:
    run = running.get("/status/synthetic").json()["run"]
    items = [{"a": 1}, None, "text"]
    for serial, item in enumerate(items):
        headers = {"content-type": "application/json"}
        accepted = running.post("/apps/synthetic/items", content=json.dumps(item), headers=headers)
        assert (accepted.status_code, accepted.json()) == (202, {"serial": serial, "run": run})
    results = running.get("/results/synthetic").json()
    assert results == [{"serial": k, "value": item, "run": run} for k, item in enumerate(items)]
    assert running.get("/results/synthetic", params={"after": 0, "limit": 1}).json() == results[1:2]
    running.post("/apps/synthetic/stop")
    assert running.get("/results/synthetic", params={"after": 0}).json() == results[1:]


def test_a_full_buffer_says_when_to_try_again(running: TestClient) -> None:
    runner_of(running).hold = True
    answers = [running.post("/apps/synthetic/items", json=1) for _ in range(5)]
    assert [answer.status_code for answer in answers] == [202] * 4 + [429]
    assert "is full" in detail(answers[-1], 429)
    assert answers[-1].headers["retry-after"] == "1"


def test_items_go_only_into_a_push_source(client: TestClient) -> None:
    client.post("/apps/synthetic/start", json={"input": {"rate_per_s": 1}})
    assert "the source of synthetic is replay" in detail(client.post("/apps/synthetic/items", json=1), 409)


def test_decisions_are_merged_with_runs_of_no_change_newest_first(running: TestClient) -> None:
    running.put("/apps/synthetic/mode", json={"mode": "pinned", "composition": "7"})
    entries = running.get("/decisions/synthetic").json()
    assert sorted(entry["at"] for entry in entries)[::-1] == [entry["at"] for entry in entries]
    decisions = [entry for entry in entries if entry["kind"] == "decision"]
    assert [(entry["id"], entry["from"], entry["to"]) for entry in decisions] == [(2, "1", "7"), (1, "1", "1")]
    (unchanged,) = [entry for entry in entries if entry["kind"] == "no_change"]
    assert (unchanged["reason"], unchanged["count"], unchanged["to"]) == ("no SLO is set", 1, None)
    assert len(running.get("/decisions/synthetic", params={"limit": 1}).json()) == 1
    running.post("/apps/synthetic/stop")
    running.post("/apps/synthetic/start", json=PUSHED)
    ids = [entry["id"] for entry in running.get("/decisions/synthetic").json() if entry["id"]]
    assert ids == [3, 2, 1], "they go on after a restart of the app"


@pytest.mark.parametrize("started", [False, True])
def test_compositions_are_added_and_removed(client: TestClient, started: bool) -> None:
    if started:
        client.post("/apps/synthetic/start")
    before = [each["name"] for each in client.get("/compositions/synthetic").json()]
    assert before == list("1234567")
    after = client.post("/compositions", content=WIDE, headers=YAML).json()
    (wide,) = [each for each in after if each["name"] == "wide"]
    assert (wide["workers"], wide["groups"][0]["replicas"], wide["app"]) == (4, 4, "synthetic")
    assert wide["predicted_latency_ms"] is None
    assert client.get("/compositions/synthetic").json() == after
    assert len(client.get("/compositions").json()) == 8
    assert client.delete("/compositions/synthetic/wide").status_code == 204
    assert [each["name"] for each in client.get("/compositions/synthetic").json()] == before
    assert "has no composition 'wide'; it has 1, 2" in detail(client.delete("/compositions/synthetic/wide"), 404)


def test_the_active_composition_and_the_last_one_stay(running: TestClient) -> None:
    assert "is the active composition" in detail(running.delete("/compositions/synthetic/1"), 409)
    running.post("/apps/synthetic/stop")
    for name in "123456":
        assert running.delete(f"/compositions/synthetic/{name}").status_code == 204
    assert "'7' is the only composition of synthetic" in detail(running.delete("/compositions/synthetic/7"), 409)


def test_not_ready_while_the_state_disk_is_full(disk: DaemonStore, monkeypatch: pytest.MonkeyPatch) -> None:
    with TestClient(create_app(fake_daemon(disk)), base_url="http://localhost") as client:
        fill(disk)
        assert client.post("/apps/synthetic/start").status_code == 507
        not_ready = client.get("/readyz")
        assert "the state cannot be stored: no room" in detail(not_ready, 503)
        assert not_ready.headers["retry-after"] == "1"
        assert client.get("/healthz").status_code == 200
        free(disk)
        assert client.get("/readyz").status_code == 200
        monkeypatch.setattr(database, "_free_bytes", lambda _: database.LEAST_BYTES - 1)
        assert "no room on its disk" in detail(client.get("/readyz"), 503), "next to none"


def test_not_ready_while_ray_is_gone_and_starts_fail(disk: DaemonStore, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon = fake_daemon(disk)
    refuse = NotNow("Ray has not begun the process")
    monkeypatch.setattr(LocalHost, "spawn", lambda *_: (_ for _ in ()).throw(refuse))
    monkeypatch.setattr(LocalHost, "ready", lambda _: False)
    with TestClient(create_app(daemon), base_url="http://localhost") as client:
        assert "Ray does not answer" in detail(client.get("/readyz"), 503)
        assert client.post("/apps/synthetic/start", json={}).status_code == 200
        said = detail(client.get("/readyz"), 503)
        assert said == "not ready: Ray does not answer; starts of synthetic fail; /status says why"


def test_what_is_not_there_and_what_is_not_accepted(client: TestClient) -> None:
    assert "there is nothing at '/nothing'" in detail(client.get("/nothing"), 404)
    response = client.put("/slo", json={})
    assert "PUT is not accepted here; accepted is GET, POST" in detail(response, 405)
    assert response.headers["allow"] == "GET, POST"


LINES = {"content-type": "application/x-ndjson"}


def test_a_list_and_lines_push_many_items(running: TestClient) -> None:
    run = running.get("/status/synthetic").json()["run"]
    many = running.post("/apps/synthetic/items", params={"many": True}, json=[1, None, [2]])
    assert (many.status_code, many.json()) == (202, {"serials": [0, 1, 2], "run": run})
    lines = running.post("/apps/synthetic/items", content=b'{"n": 3}\n\n[4]\n', headers=LINES)
    assert lines.json() == {"serials": [3, 4], "run": run}
    whole = running.post("/apps/synthetic/items", json=[5, 6])
    assert whole.json() == {"serial": 5, "run": run}, "without many=true an array is one item"
    values = [each["value"] for each in running.get("/results/synthetic").json()]
    assert values == [1, None, [2], {"n": 3}, [4], [5, 6]]


def test_what_was_taken_before_a_refusal_is_told(running: TestClient) -> None:
    refused = running.post("/apps/synthetic/items", params={"many": True}, json=[1, "refuse me", 3])
    assert detail(refused, 422).startswith("item 2 of 3: item 'refuse me' is refused by synthetic")
    assert (refused.json()["serials"], refused.json()["run"]) == ([0], running.get("/status/synthetic").json()["run"])
    assert len(running.get("/results/synthetic").json()) == 1


@pytest.mark.parametrize(
    ("headers", "body", "sentence"),
    [
        (LINES, b"1\n{bad}\n", "line 2: the body is not JSON"),
        (LINES, b"1\nNaN\n", "line 2: NaN is not JSON"),
        (LINES, b"\n\n", "the body has no line with an item"),
        ({"content-type": "application/json"}, b"{}", "with many=true the body must be an array"),
        ({"content-type": "application/octet-stream"}, b"x", "application/octet-stream is one item"),
    ],
)
def test_many_items_that_are_none(running: TestClient, headers: dict[str, str], body: bytes, sentence: str) -> None:
    many = {} if headers is LINES else {"many": True}
    assert sentence in detail(running.post("/apps/synthetic/items", content=body, headers=headers, params=many), 422)


def test_bytes_and_arrays_are_items_too(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[object] = []
    monkeypatch.setattr(FakeRunner, "push", lambda self, value: taken.append(value) or len(taken) - 1)
    client.post("/apps/synthetic/start", json=PUSHED)
    file = io.BytesIO()
    np.save(file, np.eye(2))
    for kind, body in (("octet-stream", b"\x00\xff"), ("x-npy", file.getvalue())):
        answer = client.post("/apps/synthetic/items", content=body, headers={"content-type": f"application/{kind}"})
        assert answer.status_code == 202, answer.text
    assert taken[0] == b"\x00\xff"
    assert np.array_equal(taken[1], np.eye(2))  # type: ignore[call-overload]
    archive, objects = io.BytesIO(), io.BytesIO()
    np.savez(archive, a=np.eye(2))
    np.save(objects, np.array([print]), allow_pickle=True)
    shapes = (10**13, 10**30, -1, 9)
    heads = [str({"descr": "<f8", "fortran_order": False, "shape": (each,)}) for each in shapes] + ["(" * 5000]
    headed = [b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode() for head in heads]
    for body in (b"no", pickle.dumps(1), archive.getvalue(), objects.getvalue(), file.getvalue()[:-1], *headed):
        wrong = client.post("/apps/synthetic/items", content=body, headers={"content-type": "application/x-npy"})
        assert "is not an array in NumPy's format" in detail(wrong, 422)
    assert len(taken) == 2


def test_a_load_that_is_to_come_is_announced(running: TestClient) -> None:
    coming = {"from": "2999-01-01T10:00:00Z", "until": "2999-01-01T11:00:00Z", "rate_per_s": 80}
    kept = {"from": "2999-01-01T10:00:00.000Z", "until": "2999-01-01T11:00:00.000Z", "rate_per_s": 80}
    assert running.post("/apps/synthetic/announce", json=coming).json()["announced"] == [kept]
    assert running.post("/apps/synthetic/announce", json={**coming, "from": None}).status_code == 200
    over = running.post("/apps/synthetic/announce", json={"until": "2001-01-01T10:00:00Z", "rate_per_s": 80})
    assert "is in the past; only a coming load can be announced" in detail(over, 422)
    assert len(running.get("/status/synthetic").json()["announced"]) == 2
    assert running.delete("/apps/synthetic/announce").json()["announced"] == []
    turned = running.post("/apps/synthetic/announce", json={**coming, "until": "2999-01-01T09:00:00Z"})
    assert "until must be after from" in detail(turned, 422)
    assert "rate_per_s = 0" in detail(running.post("/apps/synthetic/announce", json={**coming, "rate_per_s": 0}), 422)


def test_the_page_about_the_api_needs_no_internet(client: TestClient) -> None:
    page = client.get("/docs").text
    named = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert len(named) == 3
    assert "dashboard/icon.svg" in named
    for address in named:
        assert "://" not in address
        assert client.get(f"/{address}").status_code == 200
