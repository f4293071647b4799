"""Durable runs that hold undelivered data are listed, gone on with and never given up; stops with a limit."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from structlog.testing import capture_logs

from apps import registry
from apps.contract import App
from compositions.errors import RecomposeError
from compositions.model import Stage
from runtime.dispatch.checkpoint import Checkpoint
from service.api import create_app
from service.daemon.daemon import Daemon
from service.daemon.runs import Runs
from service.daemon.store.store import DaemonStore, DurableRuns
from service.daemon.supervision import restart_policy
from service.daemon.supervision.runner_slot import LocalHost
from service.daemon.supervision.watchdog import Watchdog
from service.runner.durable.journal import debt_in, journal_path
from service.runner.durable.values import Commit, Left
from service.runner.rpc.requests import Stop
from service.runner.runner import Runner
from service.runner.validation.durable import open_journal
from service.schemas.spec import RunSpec, SourceSpec
from tests.support.fakes import FakeRunner, PromptTicker
from tests.support.waiting import wait_until

PATIENCE_S = 30.0
DURABLE = {"source": {"kind": "push"}, "durability": "exactly-once"}
PARQUET = {"kind": "parquet", "path": "/nowhere"}


class Held(App):
    """Holds every item until the gate is open."""

    name = "held"
    stages = (Stage("hold"),)
    gate = threading.Event()

    def hold(self, value: int) -> int:
        assert self.gate.wait(PATIENCE_S)
        return value


@pytest.fixture
def http(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    """A service whose app holds its items."""
    monkeypatch.setattr(registry, "create", lambda *_: Held())
    monkeypatch.setattr(Held, "gate", threading.Event())
    base = RunSpec(app="", pool="local", journals=str(tmp_path / "journals"))
    daemon = Daemon({"held": Held}, LocalHost(Runner), DaemonStore(None), base)
    with capture_logs(), TestClient(create_app(daemon), base_url="http://127.0.0.1:8080") as client:
        yield client
        Held.gate.set()


def state(http: TestClient) -> Any:
    return http.get("/status/held").json()


def start(http: TestClient, **how: Any) -> Any:
    return http.post("/apps/held/start", json={**DURABLE, **how})


def push(http: TestClient, *values: int) -> None:
    for value in values:
        wait_until(lambda value=value: http.post("/apps/held/items", json=value).status_code == 202)


def stop(http: TestClient, **how: Any) -> int:
    return http.post("/apps/held/stop", json=how).status_code


@contextmanager
def stopping(http: TestClient, **how: Any) -> Iterator[Future[int]]:
    with ThreadPoolExecutor(1) as thread:
        stopped = thread.submit(stop, http, **how)
        wait_until(lambda: state(http)["state"] == "stopping")
        yield stopped


def stopped_with_three(http: TestClient) -> Any:
    start(http)
    push(http, 1, 2, 3)
    run = state(http)["run"]
    assert stop(http, drain=False, timeout_s=0) == 200
    return run


def test_what_a_stopped_run_holds_is_listed_and_the_next_start_delivers_it(http: TestClient) -> None:
    run = stopped_with_three(http)
    (owing,) = http.get("/owing").json()
    assert {name: owing[name] for name in ("app", "run", "epoch", "items", "present", "fault")} == {
        **{"app": "held", "run": run, "epoch": 1, "items": 3, "present": False, "fault": None}
    }
    assert Path(owing["journal"]).is_file()
    Held.gate.set()
    assert start(http).status_code == 200
    wait_until(lambda: state(http)["items"]["delivered"] == 3)
    status = state(http)
    assert (status["run"], status["epoch"]) == (run, 2)
    assert f"run {run} held 3 undelivered items" in status["started_again"]
    wait_until(lambda: [row["value"] for row in http.get(f"/results/held?run={run}&after=-1").json()] == [1, 2, 3])
    wait_until(lambda: http.get("/owing").json() == [])


@pytest.mark.parametrize("other", [{"durability": "none"}, {"source": {"kind": "replay"}}, {"sink": PARQUET}])
def test_a_start_of_something_else_is_refused_and_names_what_waits(http: TestClient, other: Any) -> None:
    run = stopped_with_three(http)
    refused = start(http, **other)
    assert refused.status_code == 409
    assert f"run {run} of held holds 3 undelivered items in " in refused.json()["detail"]
    assert len(http.get("/owing").json()) == 1


def test_a_start_goes_on_with_a_run_that_fits_its_journal(http: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of an earlier version, which did not store what a run is of."""
    monkeypatch.setattr(DurableRuns, "put", lambda *_: None)
    run = stopped_with_three(http)
    refused = start(http, source={"kind": "replay"})
    assert refused.status_code == 409
    for said in ("holds 3 undelivered items in ", "source replay stores only positions", f"move {run}.journal* away"):
        assert said in refused.json()["detail"]
    assert start(http, durability="none").status_code == 409
    Held.gate.set()
    assert start(http).status_code == 200
    wait_until(lambda: state(http)["items"]["delivered"] == 3)
    assert state(http)["run"] == run
    assert "its source, sink and options were not stored" in state(http)["started_again"]


@pytest.mark.parametrize("kind", ["push", "redis"])
def test_results_that_a_sink_lacks_are_gone_on_with_alike_whatever_the_source_is(tmp_path: Path, kind: Any) -> None:
    with closing(open_journal(str(tmp_path), "synthetic", "r", 3)) as journal:
        journal.store(Commit(Checkpoint(2), left=(Left(0, ("a", "b"), None, 2),), wanted=0))
    base = RunSpec(app="", journals=str(tmp_path))
    apps = {"synthetic": registry.find("synthetic")}
    daemon = Daemon(apps, LocalHost(FakeRunner), DaemonStore(None), base, make_ticker=PromptTicker)
    source = SourceSpec(kind=kind, path="redis://localhost:6379/0?stream=s" if kind == "redis" else None)
    spec = RunSpec(app="synthetic", source=source, durability="restart", journals=str(tmp_path))
    status = daemon.apps.start(spec)
    daemon.close()
    assert (status.origin.run, status.origin.epoch) == ("r", 4)


def test_a_stop_with_a_limit_ends_a_stage_that_does_not_and_says_that_it_is_stopping(http: TestClient) -> None:
    start(http)
    push(http, 1)
    began_s = time.monotonic()
    with stopping(http, timeout_s=1.5):
        pass
    assert time.monotonic() - began_s < 1.5 + 2
    assert state(http)["state"] in ("stopped", "failed")


def test_a_stop_under_way_is_hurried_by_another(http: TestClient) -> None:
    start(http)
    push(http, 1)
    with stopping(http) as stopped:
        assert not stopped.done(), "a stop without a limit waits for the stage"
        assert stop(http, force=True) == 200
        assert stopped.result(PATIENCE_S) == 200


def test_a_forced_stop_hurries_one_that_has_only_just_begun(http: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    start(http)
    push(http, 1)
    storing, stored, looked = threading.Event(), threading.Event(), threading.Event()
    remove, expect = DaemonStore.remove_started, Runs.expect

    def remove_started(store: DaemonStore, app: str) -> None:
        storing.set()
        assert stored.wait(PATIENCE_S)
        remove(store, app)

    def expected(runs: Runs, name: str) -> Watchdog:
        found = expect(runs, name)
        if storing.is_set():
            looked.set()
        return found

    monkeypatch.setattr(DaemonStore, "remove_started", remove_started)
    monkeypatch.setattr(Runs, "expect", expected)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(stop, http)
        assert storing.wait(PATIENCE_S)
        second = threads.submit(stop, http, force=True)
        assert looked.wait(PATIENCE_S), "the forced one sees an app that is up"
        stored.set()
        assert (first.result(PATIENCE_S), second.result(PATIENCE_S)) == (200, 200)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"drain": False}, Stop(drain=False, timeout_s=600.0)),
        ({"drain": False, "timeout_s": 3}, Stop(drain=False, timeout_s=3.0)),
        ({"timeout_s": 3}, Stop(drain=True, timeout_s=3.0)),
        ({"timeout_s": 3, "force": True}, Stop(drain=False, timeout_s=0.0)),
        ({}, Stop(drain=True, timeout_s=600.0)),
    ],
)
def test_a_stop_without_a_time_has_ten_minutes_and_only_a_forced_one_has_none(
    http: TestClient, monkeypatch: pytest.MonkeyPatch, body: Any, expected: Stop
) -> None:
    asked: list[object] = []
    ask = Runner.ask
    monkeypatch.setattr(Runner, "ask", lambda self, what, **how: (asked.append(what), ask(self, what, **how))[1])
    start(http)
    wait_until(lambda: state(http)["state"] != "starting")
    assert stop(http, **body) == 200
    assert [each for each in asked if isinstance(each, Stop)] == [expected]


def test_a_journal_that_cannot_be_read_counts_as_owing(tmp_path: Path) -> None:
    path = journal_path(str(tmp_path), "held", "r")
    path.parent.mkdir()
    path.write_bytes(b"no journal" * 1000)
    debt = debt_in(path)
    assert (debt.run, debt.items, debt.fault) == ("r", None, "file is not a database")
    assert debt_in(path.with_name("none.journal")) is None


def test_an_app_that_refuses_to_start_gives_up_nothing(http: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restart_policy, "OWING_S", (0.1,))
    stopped_with_three(http)
    refuse = RecomposeError("the app has no stage 'hold'")
    monkeypatch.setattr(LocalHost, "spawn", lambda *_: (_ for _ in ()).throw(refuse))
    assert start(http).status_code == 200
    wait_until(lambda: state(http)["runner_restarts"] >= 2)
    assert state(http)["held_up"] == str(refuse)
    monkeypatch.undo()
