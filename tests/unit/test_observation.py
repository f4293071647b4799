"""Ask all apps side by side, with a limit, so that none holds up the others."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from apps import registry
from service.daemon.daemon import Daemon
from service.daemon.runs import EACH_OF_ALL_S
from service.daemon.store.store import DaemonStore
from service.daemon.supervision.runner_slot import LocalHost
from service.runner.rpc.requests import ReadHistory, ReadStatus
from service.schemas.base import utc_now
from service.schemas.spec import RunSpec
from service.schemas.status import Sample
from tests.support.fakes import FakeRunner, PromptTicker

NAMES = ("dead", "slow", "well", "stopped")
PATIENCE_S = 20.0


class Waiting(FakeRunner):
    """Answers when all others of its kind are asked too; the dead one never does, the slow one is too late."""

    together = threading.Barrier(3)
    limits: list[float]
    held: type = type(None)
    """Kind of the requests that wait."""

    def ask(self, request: Any, *, timeout_s: float = 5.0) -> Any:
        if isinstance(request, self.held):
            self.limits.append(timeout_s)
            self.together.wait(PATIENCE_S)
            if self.spec.app != "well":
                raise ConnectionError("it is gone") if self.spec.app == "dead" else TimeoutError("no answer in time")
        return super().ask(request, timeout_s=timeout_s)

    def history(self, last_s: float) -> list[Sample]:
        return [Sample.of(self.status(), utc_now())]


@pytest.fixture
def several(disk: DaemonStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    Waiting.limits = []
    apps = {name: type(name, (registry.find("synthetic"),), {"name": name}) for name in NAMES}
    monkeypatch.setattr(registry, "find", lambda name, folders=(): apps[name])
    daemon = Daemon(apps, LocalHost(Waiting), disk, make_ticker=PromptTicker)
    for name in NAMES[:-1]:
        daemon.apps.start(RunSpec(app=name))
    yield daemon
    Waiting.held = type(None)
    daemon.close()


def test_rates_are_asked_of_all_at_once_and_none_waits_for_another(several: Daemon) -> None:
    Waiting.held = ReadHistory
    told = several.observation.rates(60.0, 10)
    assert [each.app for each in told] == list(NAMES)
    assert [bool(each.at) for each in told] == [False, False, True, False]
    assert Waiting.limits == [EACH_OF_ALL_S] * 3


def test_statuses_are_asked_of_all_at_once_and_say_who_does_not_answer(several: Daemon) -> None:
    for watchdog in several._runs.all():
        watchdog.step()
    Waiting.held = ReadStatus
    dead, slow, well, stopped = several.observation.statuses()
    assert dead.health.failure == "the runner of dead does not answer (ConnectionError)"
    assert slow.health.failure == "the runner of slow does not answer (TimeoutError)"
    assert (well.health.failure, well.state) == (None, "stable")
    assert stopped.state == "stopped"
    assert Waiting.limits == [EACH_OF_ALL_S] * 3
