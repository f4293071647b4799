"""Named tokens with roles: what each may do, how one is revoked, and the record of changes."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from fastapi.testclient import TestClient

from service.api import create_app
from service.api.guard import USER, Access
from service.cli.main import main
from service.daemon.store.store import DaemonStore
from service.daemon.tokens import AUDIT, TOKENS, Audit, Role, Token, Tokens
from tests.support.fakes import fake_daemon

SLO = {"app": "synthetic", "metric": "latency", "target": 400}
BUDGET = {"cores": 12}


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    return Tokens(tmp_path / TOKENS)


@pytest.fixture
def service(disk: DaemonStore, tmp_path: Path, tokens: Tokens) -> Iterator[TestClient]:
    access = Access("s3cret", named=tokens, audit=Audit(tmp_path / AUDIT))
    with TestClient(create_app(fake_daemon(disk), access), base_url="http://stream.example") as client:
        yield client


def bearer(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


def recorded(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / AUDIT).read_text().splitlines()]


@pytest.mark.parametrize(
    ("role", "slo", "budget"), [(Role.VIEWER, 403, 403), (Role.OPERATOR, 200, 403), (Role.ADMIN, 200, 200)]
)
def test_a_role_says_what_may_be_changed(service, tokens: Tokens, role: Role, slo: int, budget: int) -> None:
    headers = bearer(tokens.add("ann", role))
    assert service.get("/status", headers=headers).status_code == 200
    assert service.post("/slo", json=SLO, headers=headers).status_code == slo
    for path in ("start", "stop", "items"):
        answer = service.post(f"/apps/synthetic/{path}", json={}, headers=headers)
        assert (answer.status_code == 403) == (slo == 403)
    answer = service.put("/budget", json=BUDGET, headers=headers)
    assert answer.status_code == budget
    assert (f"token 'ann' has the role {role}, which may not make this change" in answer.text) == (budget == 403)


@pytest.mark.logs_errors("no named token is accepted")
def test_a_revoked_token_and_all_of_a_file_that_is_none_are_refused_at_once(service, tokens: Tokens) -> None:
    ann, bob = bearer(tokens.add("ann", Role.ADMIN)), bearer(tokens.add("bob", Role.ADMIN))
    assert service.get("/status", headers=ann).status_code == 200
    Tokens(tokens._file).revoke("ann")  # by another process
    assert [service.get("/status", headers=each).status_code for each in (ann, bob)] == [401, 200]
    tokens._file.write_text('[{"name": "bob", "role": "king"}]')
    assert service.get("/status", headers=bob).status_code == 401
    assert service.get("/status", headers=bearer("s3cret")).status_code == 200


def test_the_record_says_who_changed_what_and_holds_no_secret(service, tokens: Tokens, tmp_path: Path) -> None:
    secret = tokens.add("ann", Role.OPERATOR)
    source = {"kind": "redis", "path": "redis://bob:hidden@db/0?stream=x"}
    service.post("/slo", json=SLO, headers=bearer(secret))
    service.post("/apps/nothing/start", json={"source": source}, headers=bearer(secret))
    service.put("/budget", json=BUDGET, headers=bearer(secret))
    service.get("/status", headers=bearer(secret))
    service.post("/slo", json=SLO, headers=bearer("s3cret"))
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
