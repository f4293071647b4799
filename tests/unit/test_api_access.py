"""Check who may ask: hosts, origins, the token; named tokens with roles, their revocation and the record of changes."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from fastapi.testclient import TestClient
from synthetic_daemon import LATENCY, detail

from service.api import create_app
from service.api.dashboard import FOLDER
from service.api.guard import USER, Access, own_users
from service.cli.main import main
from service.daemon.store.store import DaemonStore
from service.daemon.tokens import AUDIT, TOKENS, Audit, Role, Token, Tokens
from tests.support.fakes import fake_daemon

TOKEN = "s3cret"


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    return Tokens(tmp_path / TOKENS)


@pytest.fixture
def guarded(disk: DaemonStore, tmp_path: Path, tokens: Tokens) -> Iterator[TestClient]:
    access = Access(TOKEN, max_item_bytes=10, named=tokens, audit=Audit(tmp_path / AUDIT))
    with TestClient(create_app(fake_daemon(disk), access), base_url="http://stream.example:8080") as client:
        yield client


@pytest.mark.parametrize("header", [None, "Bearer", "Bearer wrong", f"Basic {TOKEN}", TOKEN, "Bearer s3creté"])
@pytest.mark.parametrize("path", ["/status", "/metrics", "/docs", "/openapi.json", "/stream", "/nothing"])
def test_without_the_token_there_is_nothing(guarded: TestClient, path: str, header: str | None) -> None:
    response = guarded.get(path, headers={"authorization": header.encode("latin-1")} if header else {})
    assert response.status_code == 401
    assert response.headers["www-authenticate"].startswith("Bearer")
    assert response.headers["content-type"] == "application/problem+json"
    assert TOKEN not in response.text
    assert guarded.post("/slo", content=b"{" * 10).status_code == 401, "a body is not even read"


@pytest.mark.parametrize("header", [f"Bearer {TOKEN}", f"bearer {TOKEN}"])
def test_with_the_token_there_is_everything(guarded: TestClient, header: str) -> None:
    assert guarded.get("/status", headers={"authorization": header}).status_code == 200
    assert guarded.post("/slo", json=LATENCY, headers={"authorization": header}).status_code == 200


def test_the_document_says_what_needs_the_token(guarded: TestClient, client: TestClient) -> None:
    document = guarded.get("/openapi.json", headers={"authorization": f"Bearer {TOKEN}"}).json()
    assert document["security"] == [{"token": []}]
    assert [document["paths"][path]["get"]["security"] for path in ("/healthz", "/readyz")] == [[], []]
    assert "security" not in client.get("/openapi.json").json()


def test_probes_and_the_page_need_no_token_and_tell_nothing(guarded: TestClient) -> None:
    """The page asks for the token itself; were it refused, there would be nothing to type it into."""
    assert [guarded.get(path).status_code for path in ("/healthz", "/readyz")] == [200, 200]
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


def test_the_size_of_items_has_its_own_limit(guarded: TestClient) -> None:
    headers = {"authorization": f"Bearer {TOKEN}"}
    guarded.post("/apps/synthetic/start", json={"source": {"kind": "push"}}, headers=headers)
    assert guarded.post("/apps/synthetic/items", json="12345678", headers=headers).status_code == 202
    told = detail(guarded.post("/apps/synthetic/items", json="123456789", headers=headers), 413)
    assert told.startswith("the body is larger than 10 bytes")
    assert told.endswith("recompose serve --max-item-bytes allows more")


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


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({}, "a budget needs workers or cores; to remove it, send null or run recompose budget --lift"),
        ({"workers": 0}, "greater than or equal to 1"),
        ({"workers": 8, "apps": {"synthetic": {"priority": 0}}}, "greater than 0"),
        ({"workers": 8, "apps": {"synthetic": {"floor": 9}}}, "the floors add up to 9 workers; must be at most the"),
        ({"workers": 1, "apps": {"synthetic": {"floor": 1.5}}}, "the floors add up to 2 workers; must be at most the"),
        ({"cores": 2, "apps": {"synthetic": {"floor": 3}}}, "the floors add up to 3 cores; must be at most the budget"),
        ({"workers": 8, "apps": {"words": {}}}, "there is no app 'words'; registered are synthetic"),
        ({"workers": 8, "money": 3}, "money"),
    ],
)
def test_what_is_refused(client: TestClient, body: Any, sentence: str) -> None:
    assert sentence in detail(client.put("/budget", json=body), 422)
    removed = client.put("/budget", content=b"null", headers={"content-type": "application/json"})
    assert client.get("/budget").json() == removed.json() == NONE


SLO = {"app": "synthetic", "metric": "latency", "target": 400}
BUDGET = {"cores": 12}


def bearer(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


def recorded(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / AUDIT).read_text().splitlines()]


@pytest.mark.parametrize(
    ("role", "slo", "budget"), [(Role.VIEWER, 403, 403), (Role.OPERATOR, 200, 403), (Role.ADMIN, 200, 200)]
)
def test_a_role_says_what_may_be_changed(guarded, tokens: Tokens, role: Role, slo: int, budget: int) -> None:
    headers = bearer(tokens.add("ann", role))
    assert guarded.get("/status", headers=headers).status_code == 200
    assert guarded.post("/slo", json=SLO, headers=headers).status_code == slo
    for path in ("start", "stop", "items"):
        answer = guarded.post(f"/apps/synthetic/{path}", json={}, headers=headers)
        assert (answer.status_code == 403) == (slo == 403)
    answer = guarded.put("/budget", json=BUDGET, headers=headers)
    assert answer.status_code == budget
    assert (f"token 'ann' has the role {role}, which may not make this change" in answer.text) == (budget == 403)


@pytest.mark.logs_errors("named tokens are not accepted: their file cannot be read")
def test_a_revoked_token_and_all_of_a_file_that_is_none_are_refused_at_once(guarded, tokens: Tokens) -> None:
    ann, bob = bearer(tokens.add("ann", Role.ADMIN)), bearer(tokens.add("bob", Role.ADMIN))
    assert guarded.get("/status", headers=ann).status_code == 200
    Tokens(tokens._file).revoke("ann")  # by another process
    assert [guarded.get("/status", headers=each).status_code for each in (ann, bob)] == [401, 200]
    tokens._file.write_text('[{"name": "bob", "role": "king"}]')
    assert guarded.get("/status", headers=bob).status_code == 401
    assert guarded.get("/status", headers=bearer(TOKEN)).status_code == 200


def test_the_record_says_who_changed_what_and_holds_no_secret(guarded, tokens: Tokens, tmp_path: Path) -> None:
    secret = tokens.add("ann", Role.OPERATOR)
    source = {"kind": "redis", "path": "redis://bob:hidden@db/0?stream=x"}
    guarded.post("/slo", json=SLO, headers=bearer(secret))
    guarded.post("/apps/nothing/start", json={"source": source}, headers=bearer(secret))
    guarded.put("/budget", json=BUDGET, headers=bearer(secret))
    guarded.get("/status", headers=bearer(secret))
    guarded.post("/slo", json=SLO, headers=bearer(TOKEN))
    lines = recorded(tmp_path)
    keys = ("who", "role", "method", "path", "status", "body")
    assert [tuple(line[key] for key in keys) for line in lines] == [
        ("ann", "operator", "POST", "/slo", 200, SLO),
        ("ann", "operator", "POST", "/apps/nothing/start", 404, {"source": "…"}),
        ("ann", "operator", "PUT", "/budget", 403, None),
        ("RECOMPOSE_TOKEN", "admin", "POST", "/slo", 200, SLO),
    ]
    text = (tmp_path / AUDIT).read_text() + (tmp_path / TOKENS).read_text()
    assert not any(each in text for each in (secret, "hidden"))


def test_without_the_token_of_the_service_a_local_user_is_named_by_id(disk, tmp_path: Path, tokens: Tokens) -> None:
    app = create_app(fake_daemon(disk), Access(None, frozenset({7}), named=tokens, audit=Audit(tmp_path / AUDIT)))

    async def of_user_7(scope: dict[str, object], receive: object, send: object) -> None:
        await app({**scope, USER: lambda: 7}, receive, send)  # type: ignore[arg-type]

    with TestClient(of_user_7, base_url="http://127.0.0.1") as client:  # type: ignore[arg-type]
        assert client.post("/slo", json=SLO).status_code == 200
    with TestClient(app, base_url="http://127.0.0.1") as client:  # another user, with a token
        assert client.get("/status").status_code == 403
        assert client.get("/status", headers=bearer(tokens.add("tv", Role.VIEWER))).status_code == 200
    assert [line["who"] for line in recorded(tmp_path)] == ["user 7"]


def command(*words: str, state: Path) -> Result:
    return CliRunner().invoke(main, ["tokens", "--state", str(state), *words])


def test_tokens_are_added_listed_and_revoked_from_the_command_line(tmp_path: Path, tokens: Tokens) -> None:
    secret = command("add", "grafana", state=tmp_path).stdout.strip()
    found = tokens.holder(secret)
    assert (found.name, found.role) == ("grafana", Role.VIEWER)
    assert (tmp_path / TOKENS).stat().st_mode & 0o777 == 0o600
    assert command("add", "grafana", state=tmp_path).exit_code == 1
    (shown,) = json.loads(command("list", "--json", state=tmp_path).stdout)
    assert (shown["name"], shown["role"]) == ("grafana", "viewer")
    assert secret not in command("list", state=tmp_path).stdout
    assert command("revoke", "grafana", state=tmp_path).exit_code == 0
    assert tokens.holder(secret) is None
    refused = command("revoke", "grafana", state=tmp_path)
    assert (refused.exit_code, refused.stderr) == (1, "Error: there is no token 'grafana'; there are none\n")


def test_a_record_that_is_large_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.daemon.tokens.MOST_AUDIT_BYTES", 100)
    audit = Audit(tmp_path / AUDIT)
    for number in range(3):
        audit.record(Token(f"user {number}", Role.ADMIN), "POST", "/slo", 200, b"")
    assert [line["who"] for line in recorded(tmp_path)] == ["user 2"]
    assert "user 1" in (tmp_path / f"{AUDIT}.1").read_text()
