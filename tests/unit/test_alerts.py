"""Rules of when somebody is told: when they speak, when they are over, and how it reaches a webhook, however slowly."""

import json
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from itertools import repeat
from pathlib import Path
from socketserver import ThreadingTCPServer
from typing import Any
from unittest.mock import Mock

import httpx
import pytest
from fastapi.testclient import TestClient
from synthetic_daemon import detail

from apps import registry
from compositions.errors import RecomposeError
from control.decisions import State
from datapipe.sinks import webhook
from datapipe.sinks.port import Row, line_of
from profiler.slo import SloStatus
from service.api import create_app
from service.cli.configured import ConfigRefused, read_config
from service.daemon import alerts as alerting
from service.daemon.alerts import Judged, Webhook, after
from service.daemon.store.store import DaemonStore
from service.schemas.base import utc_now
from service.schemas.refusals import BadValueError
from service.schemas.slo import Alert, AlertsRequest, BacklogRule, ObjectiveRule, RestartsRule, Rule
from service.schemas.spec import RunSpec
from service.schemas.status import Status, resting
from tests.support.bodies import having
from tests.support.fakes import fake_daemon
from tests.support.waiting import wait_until

OBJECTIVE = ObjectiveRule(about="objective", for_s=10)
BACKLOG = {"about": "backlog", "app": "synthetic", "above": 5, "for_s": 0}
RULES = {"rules": [BACKLOG], "webhook": "https://user:pw@hook/x?y=z"}


def seen(**more: Any) -> Status:
    status = resting(registry.find("synthetic"), State.STABLE, RunSpec(app="synthetic"), None)
    return having(status, {"slo_status": SloStatus.MET, "restarts": 0, **more})


def course(rule: Rule, *looks: tuple[float, dict[str, Any]]) -> list[bool]:
    """Whether it is raised after each look."""
    judged, raised = Judged(), []
    for at_s, more in looks:
        judged = after(rule, judged, seen(**more), at_s)
        raised.append(judged.raised)
    return raised


BAD, GOOD, UNKNOWN = ({"slo_status": each} for each in (SloStatus.VIOLATED, SloStatus.MET, SloStatus.UNKNOWN))


def test_an_objective_must_be_missed_for_a_while_and_times_without_a_verdict_count_as_before() -> None:
    raised = course(OBJECTIVE, (0, BAD), (5, UNKNOWN), (10, BAD), (11, UNKNOWN), (12, GOOD))
    assert raised == [False, False, True, True, False]
    assert course(OBJECTIVE, (0, BAD), (6, GOOD), (7, BAD), (12, BAD), (17, BAD)) == [False] * 4 + [True]
    assert course(OBJECTIVE, (0, {"state": State.FAILED}), (10, {"state": State.FAILED})) == [False, True]


def test_a_backlog_is_told_with_its_figure() -> None:
    rule = BacklogRule(about="backlog", above=100, for_s=2)
    assert course(rule, (0, {"queued": 101}), (2, {"queued": 180}), (3, {"queued": 100})) == [False, True, False]
    judged = after(rule, Judged(since_s=0.0), seen(queued=1800), 2)
    assert judged.told == "1,800 items wait, which is more than 100 for 2 s"


def test_restarts_are_counted_across_runners_within_a_window() -> None:
    rule = RestartsRule(about="restarts", above=1, within_s=60)
    one, two = {"restarts": 4}, {"restarts": 0, "runner_restarts": 1}
    raised = course(rule, (0, {"restarts": 3}), (1, one), (2, two), (59, two), (61.5, two), (62.5, two))
    assert raised == [False, False, True, True, False, False]


def test_rules_are_set_refused_and_shown_without_secrets(client: TestClient) -> None:
    told = client.put("/alerts", json=RULES).json()
    assert told["webhook"] == "https://hook/…"
    assert told["rules"] == [BACKLOG]
    assert client.get("/alerts").json() == told
    kept = client.put("/alerts", json={"rules": []}).json()
    assert kept["webhook"] == "https://hook/…", "what is left out stays"
    assert client.put("/alerts", json={"webhook": None}).json()["webhook"] is None
    unknown = client.put("/alerts", json={"rules": [{"about": "objective", "app": "x"}]})
    assert detail(unknown, 404) == "there is no app 'x'; registered are synthetic"
    for wrong in ({"about": "rain"}, {"about": "backlog"}, {"about": "objective", "for_s": -1, "above": 1}):
        detail(client.put("/alerts", json={"rules": [wrong]}), 422)


def test_an_alert_is_in_the_status_and_survives_in_the_store_as_a_rule(disk: DaemonStore) -> None:
    daemon = fake_daemon(disk)
    rules = AlertsRequest.model_validate({"rules": [{"about": "objective", "for_s": 0}]})
    daemon.alerts.set(rules)
    assert daemon.observation.status("synthetic").supervision.alerts == []
    failing = daemon.observation._resting
    daemon.observation._resting = lambda *asked: failing(*asked).but(state=State.FAILED)  # type: ignore[method-assign]
    daemon.alerts.look()
    (alert,) = daemon.observation.status("synthetic").supervision.alerts or ()
    assert (alert.raised, alert.told) == (True, "it has failed")
    daemon.observation._resting = failing  # type: ignore[method-assign]
    daemon.alerts.look()
    assert daemon.observation.status("synthetic").supervision.alerts == []
    assert [each.told for each in daemon.alerts.in_force().alerts] == ["over: it has failed", "it has failed"]
    assert fake_daemon(disk).alerts.in_force().rules == rules.rules


@pytest.mark.parametrize(
    ("answers", "attempts", "fault"),
    [
        ([200], 1, None),
        ([503, 429, 204], 3, None),
        ([404], 1, "the webhook answered 404"),
        ([500] * 9, 3, "the webhook answered 500"),
        ([httpx.ConnectError("away")] * 9, 3, "no answer from the webhook (ConnectError)"),
        ([UnicodeError("an empty label of a host's name")] * 9, 3, "no answer from the webhook (UnicodeError)"),
    ],
)
def test_a_webhook_that_is_away_is_tried_again(answers: list[Any], attempts: int, fault: str | None) -> None:
    post = Mock(side_effect=answers * 2)
    webhook = Webhook(post, (0.0, 0.0))
    alert = Alert(app="a", about="backlog", raised=True, told="much", at=utc_now())
    assert webhook._delivered("http://hook", alert) == fault
    assert post.call_count == attempts
    assert json.loads(json.dumps(post.call_args.args[1]))["told"] == "much"
    webhook.send("http://hook", alert)
    wait_until(lambda: post.call_count == 2 * attempts)  # in its own thread
    webhook.end()


def test_a_file_of_the_service_may_have_rules(tmp_path: Any) -> None:
    file = tmp_path / "service.yaml"
    file.write_text("alerts:\n  rules: [{about: objective}, {about: restarts}]\n  webhook: https://h/secret\n")
    config = read_config(file)
    assert [rule.about for rule in config.alerts.rules] == ["objective", "restarts"]
    file.write_text("alerts:\n  webhook: ftp://hook/secret\n")
    with pytest.raises(ConfigRefused) as refused:
        read_config(file)
    assert "alerts.webhook" in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "webhook",
    ["http://[", "http://a[", "https://a]", "http://:80", "http://h:99999", "http://@/", "file:///etc/passwd"],
)
def test_a_webhook_that_is_none_is_refused_and_never_stored(client: TestClient, webhook: str) -> None:
    client.put("/alerts", json=RULES)
    detail(client.put("/alerts", json={"rules": [], "webhook": webhook}), 422)
    assert client.get("/alerts").json()["webhook"] == "https://hook/…"


@pytest.mark.logs_errors("stored alert rules cannot be read")
def test_stored_rules_that_cannot_be_read_do_not_keep_the_service_from_its_start(tmp_path: Path) -> None:
    store = DaemonStore(tmp_path)
    store.facts.put("alerts", '{"rules": [], "webhook": "http://["}')
    store.close()
    store = DaemonStore(tmp_path)
    with TestClient(create_app(fake_daemon(store)), base_url="http://127.0.0.1:8080") as client:
        assert client.get("/alerts").json()["rules"] == []
        assert client.put("/alerts", json=RULES).status_code == 200
    store.close()


def test_what_could_not_be_read_back_is_not_stored(disk: DaemonStore) -> None:
    alerts = fake_daemon(disk).alerts
    alerts.set(asked := AlertsRequest.model_validate(RULES))
    with pytest.raises(BadValueError, match="is not stored"):
        alerts.set(AlertsRequest.model_construct(rules=[], webhook="http://["))
    assert alerts.in_force().rules == fake_daemon(disk).alerts.in_force().rules == asked.rules


# --- a webhook's answer, a sink's and an alert's: its status counts, whatever else the server sends -----------------


Serve = Callable[[socket.socket], None]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
MANY = 400
"""Megabytes of an answer that nobody needs."""
WELL = b"HTTP/1.1 200 OK\r\n"


@pytest.fixture
def server() -> Iterator[Callable[[Serve], str]]:
    """Answer each connection's first request as asked. Gives the URL."""
    made: list[ThreadingTCPServer] = []

    def begin(serve: Serve) -> str:
        def handle(connection: socket.socket, *_: object) -> None:
            connection.settimeout(20.0)
            with suppress(ConnectionError, TimeoutError):
                read_request(connection)
                serve(connection)

        made.append(ThreadingTCPServer(("127.0.0.1", 0), handle))  # type: ignore[arg-type]
        threading.Thread(target=made[-1].serve_forever, args=(0.01,), daemon=True).start()
        return f"http://127.0.0.1:{made[-1].server_address[1]}/"

    yield begin
    for each in made:
        each.shutdown()
        each.server_close()


def read_request(connection: socket.socket) -> None:
    """To its end: to close a connection with something unread resets it, and an answer on its way may be lost."""
    with connection.makefile("rb") as request:
        head = list(iter(request.readline, b"\r\n"))
        lengths = [line.split(b":")[1] for line in head if line.lower().startswith(b"content-length")]
        request.read(int(lengths[0]))


def sending(head: bytes, parts: Iterable[bytes] = (), pause_s: float = 0.0) -> Serve:
    def serve(connection: socket.socket) -> None:
        connection.sendall(head)
        for part in parts:
            connection.sendall(part)
            time.sleep(pause_s)

    return serve


STATUS_GIVEN = {
    "no gzip": sending(WELL + b"Connection: close\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nok"),
    "large": sending(WELL + f"Content-Length: {MANY << 20}\r\n\r\n".encode(), [bytes(1 << 20)] * MANY),
    "endless": sending(WELL + b"\r\n", repeat(bytes(1 << 20))),
    "dripping body": sending(WELL + b"Content-Length: 1000\r\n\r\n", [b"x"] * 1000, 0.1),
    "cut": sending(WELL + b"Content-Length: 1000\r\n\r\nx"),
}
NO_STATUS = {
    "dripping head": sending(WELL, [b"X-1: x\r\n"] * 1000, 0.1),
    "early hints": sending(b"", [b"HTTP/1.1 103 Early Hints\r\n\r\n"] * 1000, 0.1),
}
REFUSING = sending(b"HTTP/1.1 404 Not Found\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nno")
SERVED = {**STATUS_GIVEN, **NO_STATUS, "refusing": REFUSING}


def peak_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


@pytest.mark.parametrize("serve", STATUS_GIVEN.values(), ids=STATUS_GIVEN)
def test_a_sink_leaves_the_body(serve: Serve, server: Callable[[Serve], str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "ANSWER_S", 1.0)
    before = peak_mb()
    with closing(webhook.Webhook(server(serve), "r", 1)) as sink:
        sink.begin(0, 0)
        for serial in range(2):
            sink.write(serial + 1, [Row(serial, None, "1", None)])
    assert peak_mb() - before < MANY / 4


@pytest.mark.parametrize("serve", [*NO_STATUS.values(), REFUSING], ids=[*NO_STATUS, "refusing"])
def test_no_status_in_time_and_a_refusal_that_cannot_be_decoded_are_errors(
    serve: Serve, server: Callable[[Serve], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook, "ANSWER_S", 0.5)
    error, why = OSError, "webhook 127.0.0.1 does not answer: no status within 0.5 s"
    if serve is REFUSING:
        error, why = RecomposeError, "answered item 0 with status 404"
    with closing(webhook.Webhook(server(serve), "r", 1)) as sink:
        sink.begin(0, 0)
        with pytest.raises(error, match=why):
            sink.write(1, [Row(0, None, "1", None)])


@pytest.mark.parametrize("serve", SERVED.values(), ids=SERVED)
def test_alerts_are_posted_alike(serve: Serve, server: Callable[[Serve], str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alerting, "PATIENCE_S", 0.5)
    before = peak_mb()
    posts = alerting.Webhook(waits_s=())
    alert = Alert(app="a", about="backlog", raised=True, told="much", at=utc_now())
    expected = {REFUSING: "the webhook answered 404"}
    none = "no answer from the webhook (ReadTimeout)" if serve in NO_STATUS.values() else None
    assert posts._delivered(server(serve), alert) == expected.get(serve, none)
    assert peak_mb() - before < MANY / 4


def test_a_header_is_one_line() -> None:
    assert line_of("Traceback\n  File 'ä.py'\r\nValueError:\tx\n") == "Traceback File 'ä.py' ValueError: x"


def test_connections_are_used_again_while_answers_are_short(server: Callable[[Serve], str]) -> None:
    """One connection for two items: only what is too long to be read costs one."""
    connections: list[socket.socket] = []

    def keeping(connection: socket.socket) -> None:
        connections.append(connection)
        connection.sendall(OK)
        read_request(connection)
        connection.sendall(OK)

    posts = webhook.Posts(5.0)
    url = httpx.URL(server(keeping))
    assert [posts.post(url, {}) for _ in range(2)] == [200, 200]
    posts.close()
    assert len(connections) == 1
