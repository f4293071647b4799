"""Check who may ask, and from where."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from synthetic_daemon import LATENCY, detail

from service.api import create_app
from service.api.dashboard import FOLDER
from service.api.guard import Access, own_users
from service.daemon.store.store import DaemonStore
from tests.support.fakes import fake_daemon

TOKEN = "s3cret"


@pytest.fixture
def guarded(disk: DaemonStore) -> Iterator[TestClient]:
    app = create_app(fake_daemon(disk), Access(token=TOKEN, max_item_bytes=10))
    with TestClient(app, base_url="http://stream.example:8080") as client:
        yield client


@pytest.mark.parametrize("header", [None, "Bearer", "Bearer wrong", f"Basic {TOKEN}", TOKEN, "Bearer s3creté"])
@pytest.mark.parametrize("path", ["/status", "/metrics", "/docs", "/openapi.json", "/stream", "/nothing"])
def test_without_the_token_there_is_nothing(guarded: TestClient, path: str, header: str | None) -> None:
    response = guarded.get(path, headers={"authorization": header.encode("latin-1")} if header else {})
    assert response.status_code == 401
    assert response.headers["www-authenticate"].startswith("Bearer")
    assert response.headers["content-type"] == "application/problem+json"
    assert TOKEN not in response.text


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_probes_need_no_token(guarded: TestClient, path: str) -> None:
    assert guarded.get(path).status_code == 200


@pytest.mark.parametrize("header", [f"Bearer {TOKEN}", f"bearer {TOKEN}"])
def test_with_the_token_there_is_everything(guarded: TestClient, header: str) -> None:
    assert guarded.get("/status", headers={"authorization": header}).status_code == 200
    assert guarded.post("/slo", json=LATENCY, headers={"authorization": header}).status_code == 200


def test_the_document_says_what_needs_the_token(guarded: TestClient, client: TestClient) -> None:
    document = guarded.get("/openapi.json", headers={"authorization": f"Bearer {TOKEN}"}).json()
    assert document["security"] == [{"token": []}]
    assert [document["paths"][path]["get"]["security"] for path in ("/healthz", "/readyz")] == [[], []]
    assert "security" not in client.get("/openapi.json").json()


def test_the_page_needs_no_token_and_tells_nothing(guarded: TestClient) -> None:
    """It asks for the token itself; were it refused, there would be nothing to type it into."""
    page = guarded.get("/")
    assert page.status_code == 200
    assert "synthetic" not in page.text
    assert guarded.get("/dashboard/main.js").status_code == 200


def test_what_the_page_is_made_of_is_kept_by_browsers_until_it_changes(guarded: TestClient) -> None:
    """So that a second visit asks for the page alone."""
    page = guarded.get("/")
    assert page.headers["cache-control"] == "no-cache"
    named = re.findall(r'(?:href|src)="(dashboard/[^"]+)"', page.text)
    files = {path.name for path in FOLDER.iterdir()} - {"index.html"}
    assert {Path(name).name for name in named} == files, "all are asked for at once, none only by another"
    for name in named:
        answer = guarded.get(f"/{name}")
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
        assert answer.headers["content-security-policy"] == page.headers["content-security-policy"]
    assert guarded.get("/dashboard/00000000000000000000/main.js").status_code == 404
    assert guarded.get("/dashboard/main.js").headers["cache-control"] == "no-cache"


def test_what_is_told_cannot_run_and_nobody_else_is_asked(guarded: TestClient) -> None:
    """Whatever names and reasons hold: the policy allows the service's own files, and none makes markup of text."""
    parts = guarded.get("/").headers["content-security-policy"].split("; ")
    assert {"default-src 'none'", "script-src 'self'"} < set(parts)
    assert {source for part in parts for source in part.split()[1:]} == {"'none'", "'self'"}
    for path in FOLDER.iterdir():
        text = path.read_text(encoding="utf-8")
        assert re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text) == []
        assert set(re.findall(r"(?:https?:)?//[\w-]+\.[\w./]+", text)) <= {"http://www.w3.org/2000/svg"}, path.name


def test_a_body_without_token_is_not_even_read(guarded: TestClient) -> None:
    assert guarded.post("/slo", content=b"{" * 10).status_code == 401


def test_the_size_of_items_has_its_own_limit(guarded: TestClient) -> None:
    headers = {"authorization": f"Bearer {TOKEN}"}
    guarded.post("/apps/synthetic/start", json={"source": {"kind": "push"}}, headers=headers)
    assert guarded.post("/apps/synthetic/items", json="12345678", headers=headers).status_code == 202
    assert guarded.post("/apps/synthetic/items", json="123456789", headers=headers).status_code == 413


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:8080", "10.0.0.5", "", "[::2]", "127.0.0.1:8080:x"),
        *("127.0.0.1.evil.example", "[::1].evil.example", "[::1].evil.example:80", "localhost.evil.example"),
    ],
)
def test_a_name_that_was_pointed_here_is_refused(client: TestClient, host: str) -> None:
    response = client.get("/status", headers={"host": host})
    assert "use localhost or 127.0.0.1" in detail(response, 403)


@pytest.mark.parametrize("host", ["localhost", "localhost:9999", "127.0.0.1", "127.0.0.2:80", "[::1]:8080", "[::1]"])
def test_names_of_this_machine_are_accepted(client: TestClient, host: str) -> None:
    assert client.get("/status", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        *((each, 403) for each in ("http://evil.example", "null", "http://127.0.0.1:9999", "http://localhost:8080")),
        ("http://127.0.0.1:8080", 200),
    ],
)
def test_only_its_own_pages_change_something(client: TestClient, origin: str, status: int) -> None:
    response = client.post("/slo", json=LATENCY, headers={"origin": origin})
    assert response.status_code == status
    assert len(client.get("/slo").json()) == (status == 200)
    assert client.get("/slo", headers={"origin": origin}).status_code == 200


@pytest.mark.parametrize("path", ["/dashboard/x/", "/dashboard/main.js/", "/status/"])
def test_nobody_is_led_to_another_host(guarded: TestClient, path: str) -> None:
    """A redirect would name the host that the request named."""
    headers = {"host": "evil.example", "authorization": f"Bearer {TOKEN}"}
    response = guarded.get(path, headers=headers, follow_redirects=False)
    assert response.status_code == 404
    assert "location" not in response.headers


def test_a_second_host_header_is_refused(client: TestClient) -> None:
    answer = client.get("/status", headers=[("host", "localhost"), ("host", "evil.example")])
    assert detail(answer, 400) == "the request has several Host headers; send one"


def test_who_cannot_be_known_needs_a_token(disk: DaemonStore) -> None:
    app = create_app(fake_daemon(disk), Access(users=own_users()))
    with TestClient(app, base_url="http://127.0.0.1:8080") as client:
        assert "user is not known" in detail(client.get("/status"), 403)


NONE = {"workers": None, "cores": None, "apps": {}, "accepted_at": None, "shares": {}}


def test_a_budget_is_set_read_and_lifted(running: TestClient) -> None:
    assert running.get("/budget").json() == NONE
    asked = {"workers": 8.0, "apps": {"synthetic": {"priority": 2}}}
    answer = running.put("/budget", json=asked).json()
    assert (answer["workers"], answer["cores"], answer["shares"]) == (8, None, {})
    assert answer["apps"] == {"synthetic": {"priority": 2, "floor": 0}}
    assert running.get("/budget").json() == answer
    assert running.put("/budget", json={"cores": 1.5}).json()["cores"] == 1.5
    assert running.put("/budget", content=b"null", headers={"content-type": "application/json"}).json() == NONE
    running.put("/budget", json=asked)
    for _ in range(2):
        assert running.delete("/budget").status_code == 204
    assert running.get("/budget").json() == NONE


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({}, "a budget needs workers, cores or both; null, or recompose budget --lift, removes it"),
        ({"workers": 0}, "greater than or equal to 1"),
        ({"workers": 2.5}, "integer"),
        ({"cores": -1}, "greater than 0"),
        ({"workers": 8, "apps": {"synthetic": {"priority": 0}}}, "greater than 0"),
        ({"workers": 8, "apps": {"synthetic": {"floor": 9}}}, "the floors are 9 workers together; the budget is 8"),
        ({"workers": 1, "apps": {"synthetic": {"floor": 1.5}}}, "the floors are 2 workers together; the budget is 1"),
        ({"cores": 2, "apps": {"synthetic": {"floor": 3}}}, "the floors are 3 cores together; the budget is 2 cores"),
        ({"workers": 8, "apps": {"words": {}}}, "there is no app 'words'; registered are synthetic"),
        ({"workers": 8, "money": 3}, "money"),
    ],
)
def test_what_is_refused(client: TestClient, body: Any, sentence: str) -> None:
    assert sentence in detail(client.put("/budget", json=body), 422)
    assert client.get("/budget").json() == NONE
