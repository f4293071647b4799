"""Fixtures that several files use."""

import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from fastapi.testclient import TestClient

from apps import registry
from apps.contract import App
from service.api import create_app
from service.daemon.store.store import DaemonStore
from service.runner.rpc.requests import Start
from service.runner.runner import Runner
from service.schemas.spec import RunSpec, SourceSpec
from tests.support.fakes import fake_daemon

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What apps keep for themselves goes into the test's own folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def disk() -> Iterator[DaemonStore]:
    store = DaemonStore(None)
    yield store
    store.close()


@pytest.fixture
def client(disk: DaemonStore) -> Iterator[TestClient]:
    with TestClient(create_app(fake_daemon(disk)), base_url="http://127.0.0.1:8080") as client:
        yield client


@pytest.fixture
def running(client: TestClient) -> TestClient:
    body = {"source": {"kind": "push"}, "input": {"rate_per_s": 10}}
    assert client.post("/apps/synthetic/start", json=body).status_code == 200
    return client


@pytest.fixture
def begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Runner]]:
    """Begin a run of an app in threads; it is pushed to and durable, and its runners end with the test."""
    made: list[Runner] = []

    def begun(app: type[App], epoch: int = 1, **how: Any) -> Runner:
        monkeypatch.setattr(registry, "create", lambda *_: app())
        usual = {"source": SourceSpec(kind="push"), "durability": "exactly-once", "journals": f"{tmp_path}/journals"}
        made.append(Runner(RunSpec(app=app.name, run="r", epoch=epoch, pool="local", **(usual | how))))
        made[-1].ask(Start())
        return made[-1]

    yield begun
    for runner in made:
        runner.kill()
        assert runner.wait(60.0), "what it says of its end is of this test"


@pytest.fixture
def bench() -> Any:
    """The watch over an app that is up."""
    from watchdog_bench import Bench, up

    return up(Bench())


@pytest.fixture
def talkative() -> Iterator[None]:
    """Lines of level info are heard, whatever an earlier test in this process has set up."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.INFO))
    yield
    structlog.configure(**before)
