"""No input, however bad, gets more than a refusal in a sentence."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient
from synthetic_daemon import detail

from service.api import create_app
from service.daemon.store.store import DaemonStore
from tests.support.fakes import fake_daemon

SLO = {"app": "synthetic", "metric": "latency", "target": 400}
JOINED = {"metric": "latency", "target": 400}
RATE = {"app": "synthetic", "metric": "throughput", "target": 10}
SPARK = {"kind": "spark", "path": "/tmp/out"}
VIDEO = {"kind": "video", "path": "0"}


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    state = DaemonStore(None)
    with TestClient(create_app(fake_daemon(state)), base_url="http://127.0.0.1:8080") as client:
        yield client
    state.close()


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({**SLO, "target": 0}, "body.target = 0: must be greater than 0"),
        ({**SLO, "target": "400"}, "body.target = '400': must be a number"),
        ({**SLO, "target": True}, "body.target = True: must be a number"),
        ({**SLO, "threshold": -0.1}, "body.threshold = -0.1: must be greater than or equal to 0"),
        ({**SLO, "threshold": 1.5}, "body.threshold = 1.5: must be less than or equal to 1"),
        ({**SLO, "statistic": "p42"}, "body.statistic = 'p42': must be 'mean', 'p50', 'p95', 'p99' or 'share'"),
        ({**SLO, "metric": "latncy"}, "must be 'latency' or 'throughput' (did you mean 'latency'?)"),
        ({"app": "synthetic", "objectives": [{"target": 400}]}, "body.objectives.0.metric is missing; give 'latency'"),
        ({**SLO, "app": 7}, "body.app = 7: must be a string"),
        ({"app": "synthetic", "metric": "latency"}, "body.target is missing"),
        ({**RATE, "target": "fast"}, "body.target = 'fast': must be items/s above 0"),
        ({**RATE, "target": 0}, "body.target = 0: must be items/s above 0"),
        ({**RATE, "target": 10**400}, "must be items/s above 0"),
        ({**RATE, "statistic": "mean"}, "body.statistic = 'mean': unknown field"),
        ({"app": "synthetic", "objectives": []}, "body.objectives = []: List should have at least 1 item"),
        ({"app": "synthetic", "objectives": [JOINED, JOINED]}, "latency has two targets"),
        ({"app": "synthetic", "objectives": [JOINED], "budget": {"money": 3}}, "body.budget.money = 3: unknown field"),
        ({**SLO, "objectives": [JOINED]}, "body.metric = 'latency': unknown field"),
        (None, "body"),
    ],
)
def test_a_bad_slo(client: TestClient, body: Any, sentence: str) -> None:
    assert sentence in detail(client.post("/slo", json=body))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (b'{"target": NaN}', "NaN is not JSON; give a finite number or null"),
        (b'{"target": 1e999}', "1e999 is too large a number"),
        (b'{"app": 1, "app": 2}', "the key 'app' is given twice"),
        (b'{"app": "\\ud800"}', "holds a lone surrogate"),
        (b'{"\\udfff": 1}', "holds a lone surrogate"),
        (b"[" * 100_000, "nested deeper than 64 levels"),
        (b"\xff\xfe{}", "the body is not UTF-8 (byte 0)"),
        (b'{"app": ', "the body is not JSON: Expecting value at line 1 column 9"),
        (b"", "body is missing"),
    ],
)
@pytest.mark.parametrize("path", ["/slo", "/apps/synthetic/input"])
def test_what_is_not_json(client: TestClient, path: str, text: bytes, sentence: str) -> None:
    method = "POST" if path == "/slo" else "PUT"
    response = client.request(method, path, content=text, headers={"content-type": "application/json"})
    assert sentence in detail(response)


def test_nul_bytes_are_text_like_any_other(client: TestClient) -> None:
    assert "there is no app 'a\\x00b'" in detail(client.post("/slo", json={**SLO, "app": "a\0b"}), 404)
    assert "there is no app '\\x00'" in detail(client.get("/status/%00"), 404)
    assert client.get("/status/%ff%fe").status_code == 404
    body = {"source": {"kind": "replay", "path": "a\0b"}}
    assert "does not exist" in detail(client.post("/apps/synthetic/start", json=body))


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "application/yaml", "garbage", ""])
def test_other_media_types(client: TestClient, kind: str) -> None:
    response = client.post("/slo", content=b'{"app": "synthetic"}', headers={"content-type": kind})
    assert "is not accepted here; send application/json" in detail(response, 415)
    response = client.post("/apps/synthetic/items", content=b"1", headers={"content-type": kind})
    assert "send application/json" in detail(response, 415)
    response = client.post("/compositions", content=b"{}", headers={"content-type": "application/json"})
    assert "send application/yaml" in detail(response, 415)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"input": {"rate_per_s": -1}}, "body.input.rate_per_s = -1"),
        ({"input": {"pattern": "wave"}}, "input pattern 'wave' needs period_s, min_per_s, max_per_s"),
        ({"input": {"pattern": "wave", "period_s": 1, "min_per_s": 5, "max_per_s": 2}}, "must be 0 <= min_per_s"),
        ({"input": {"rate_per_s": 1, "pattern": "wave"}}, "give one of them"),
        ({"sink": {"kind": "sql", "path": "sqlite://", "options": {"tabel": "x"}}}, "no option 'tabel'; it has table"),
        ({"source": {"kind": "replay", "path": "/does/not/exist"}}, "source path '/does/not/exist' does not exist"),
        ({"source": {"kind": "push", "path": "/tmp"}}, "needs source kind replay"),
        ({"source": {"kind": "push", "transform": "x.sql"}}, "transform is accepted with source kind spark only"),
        ({"options": {"weigths": "1:1"}}, "options.weigths: unknown option"),
        ({"composition": "99"}, "synthetic has no composition '99'; it has 1, 2"),
        ({"strategy": "guess"}, "body.strategy = 'guess'"),
        ({"out_path": "/etc/passwd"}, "body.out_path = '/etc/passwd': unknown field"),
        ({"apps_dirs": ["/tmp"]}, "unknown field"),
        ({"source": "push", "durability": "exactly-once", "sink": SPARK}, "does not work with sink 'spark', which"),
        ({"source": VIDEO, "durability": "restart"}, "does not work with source 'video': it cannot be read again"),
        ({"settings": {"catch_up_s": -1}}, "settings refused: catch_up_s = -1, must be in [0, 3600] s"),
        ({"settings": {"scaling_factor": 1.5}}, "settings refused: scaling_factor = 1.5, must be a whole number"),
        ({"settings": {"colour": 1}}, "settings refused: unknown setting 'colour'; there are "),
    ],
)
def test_a_bad_start(client: TestClient, body: Any, sentence: str) -> None:
    assert sentence in detail(client.post("/apps/synthetic/start", json=body))
    assert client.get("/status/synthetic").json()["state"] == "stopped"


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"mode": "pinned", "composition": "99"}, "synthetic has no composition '99'"),
        ({"mode": "auto", "composition": "1"}, "composition '1' needs mode pinned; the mode is auto"),
        ({"mode": "wild"}, "must be 'auto', 'observe' or 'pinned'"),
        ({}, "body.mode is missing"),
    ],
)
def test_a_bad_mode(client: TestClient, body: Any, sentence: str) -> None:
    client.post("/apps/synthetic/start", json={})
    assert sentence in detail(client.put("/apps/synthetic/mode", json=body))
    client.post("/apps/synthetic/stop")


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"items": 0}, 'body.items = 0: must be "auto", or a whole number from 1 to 100,000'),
        ({"bytes": 0}, "body.bytes = 0: must be greater than or equal to 1"),
        ({"linger_ms": -1}, "body.linger_ms = -1: must be greater than or equal to 0"),
        ({"size": 5}, "body.size = 5: unknown field"),
        ({"controller": "wild"}, "body.controller = 'wild': must be 'auto', 'fixed', 'faf'"),
        ({"controller": "pid", "settings": {"target_ms": 3}}, "set the latency objective instead of target_ms"),
        ({"controller": "pid", "settings": {"least": 9}}, "least = 9, first = 1, most = 1000: must be least <= first"),
        ({"controller": "pid", "settings": [10]}, "must be an object with some of threshold, least"),
        ({"controller": "pid", "items": 512}, "items = 512 is accepted with controller fixed only; pid chooses"),
        ({"controller": "fixed"}, "controller fixed needs items, a whole number from 1 to 100,000; items is auto"),
        ({"settings": {"kp": 10}}, "settings (kp) need an adaptive controller, not none; name one of faf, pbaf,"),
    ],
)
def test_a_bad_bundle(client: TestClient, body: Any, sentence: str) -> None:
    started = client.post("/apps/synthetic/start", json={"batching": body})
    assert sentence.replace("body.", "body.batching.", 1) in detail(started)
    client.post("/apps/synthetic/start", json={})
    before = client.get("/status/synthetic").json()["batching"]
    assert sentence in detail(client.put("/apps/synthetic/batching", json=body))
    assert client.get("/status/synthetic").json()["batching"] == before
    client.post("/apps/synthetic/stop")


MIB = 1024 * 1024


@pytest.mark.parametrize("text", ["[" + "1," * 500_000 + "1]", "{" + ",".join(f'"{n}":1' for n in range(90_001)) + "}"])
def test_a_body_of_many_values_is_refused_before_it_is_read(client: TestClient, text: str) -> None:
    response = client.post("/slo", content=text, headers={"content-type": "application/json"})
    assert re.match(r"the body lists too many values: it has \d+,000 commas; at most 25,000", detail(response))


def test_an_endless_integer_is_refused_unless_it_is_an_item(client: TestClient) -> None:
    response = client.post("/slo", content="[" + "9" * 4299 + "]", headers={"content-type": "application/json"})
    assert "a number that cannot be read: it has 4,299 digits; at most 1,000" in detail(response)
    client.post("/apps/synthetic/start", json={"source": {"kind": "push"}})
    sent = client.post("/apps/synthetic/items", content="9" * 4299, headers={"content-type": "application/json"})
    assert "cannot be read" not in sent.text


@pytest.mark.parametrize("path", ["/slo", "/compositions", "/apps/synthetic/items", "/status"])
def test_a_large_body_without_length_is_refused_as_soon_as_it_is_too_large(client: TestClient, path: str) -> None:
    read: list[bytes] = []

    async def parts() -> AsyncIterator[bytes]:
        for _ in range(100):
            read.append(b" " * (MIB // 4))
            yield read[-1]

    async def answer() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(client.app), base_url="http://localhost") as http:
            return await http.post(path, content=parts(), headers={"content-type": "application/json"})

    assert detail(asyncio.run(answer()), 413).startswith("the body is larger than")
    assert len(read) == 5, "what follows the first byte too many is not read"


def test_a_deep_or_endless_yaml(client: TestClient) -> None:
    headers = {"content-type": "application/yaml"}
    tag = b"!!python/object:os.system {}"
    for text in (b"[" * 10_000, b"a: &a [*a]", b"\xff\xfe\x00", b"", b"\x00", tag, b"- " * 9999):
        detail(client.post("/compositions", content=text, headers=headers))


@pytest.mark.parametrize(
    ("path", "telling"),
    [
        *((f"/results/synthetic?limit={each}", "query.limit") for each in ("0", "-1", "1001", "x", "1e3", "9" * 5000)),
        *((f"/results/synthetic?after={each}", "query.after") for each in ("-2", "x")),
        ("/status?app=synthetic", "unknown query parameter 'app'; accepted are none"),
        ("/decisions/synthetic?limt=3", "unknown query parameter 'limt' (did you mean 'limit'?)"),
        ("/results/synthetic?after=0&since=1", "unknown query parameter 'since'; accepted are after, limit, run"),
    ],
)
def test_a_bad_query(client: TestClient, path: str, telling: str) -> None:
    assert telling in detail(client.get(path))
