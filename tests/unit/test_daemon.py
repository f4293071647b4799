"""Check what a restarted daemon brings back, and what it leaves; and how it asks all apps at once."""

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest
from structlog.testing import CapturingLogger
from written_telemetry import write_items

from apps import registry
from control.decisions import Mode
from profiler.slo import Slo
from service.cli import serve
from service.daemon.daemon import Daemon
from service.daemon.runs import EACH_OF_ALL_S
from service.daemon.store.store import DaemonStore
from service.daemon.supervision.runner_slot import LocalHost
from service.daemon.table_job import TableJob
from service.runner.rpc.requests import ReadHistory, ReadStatus
from service.runner.validation.resolution import shipped
from service.schemas.base import utc_now
from service.schemas.spec import InputSpec, RunSpec, SourceSpec
from service.schemas.status import Sample
from tests.support.fakes import FakeRunner, PromptTicker, fake_daemon
from tests.support.waiting import wait_until

PUSH = RunSpec(app="synthetic", source=SourceSpec(kind="push"), input=InputSpec(rate_per_s=5))
WIDE = b'app: synthetic\ncompositions: [{name: wide, notation: "Par*4(f1,f2,f3)"}]\n'


def test_a_restarted_daemon_brings_everything_back(disk: DaemonStore) -> None:
    first = fake_daemon(disk)
    first.restore()
    first.apps.start(PUSH)
    first.compositions.add(WIDE)
    first.compositions.remove("synthetic", "3")
    first.objectives.set("synthetic", Slo("latency", 400.0))
    first.apps.set_mode("synthetic", Mode.PINNED, "wide")
    before = first.observation.status("synthetic")
    history = first.observation.decisions("synthetic", 100)
    first.close()

    second = fake_daemon(disk)
    assert second.readiness() == ["the apps that were running are not restored yet"]
    second.restore()
    after = second.observation.status("synthetic")
    for key in ("state", "mode", "composition", "slo", "input_rate_per_s"):
        assert getattr(after, key) == getattr(before, key), key
    names = [each.name for each in second.compositions.of("synthetic")]
    assert names == ["1", "2", "4", "5", "6", "7", "wide"]
    decisions = [each for each in second.observation.decisions("synthetic", 100) if each.kind == "decision"]
    assert (decisions[1].trigger, decisions[1].to) == ("failure", "wide"), "its runner is another one"
    assert decisions[2:] == [each for each in history if each.kind == "decision"]
    second.close()


def test_what_was_stopped_stays_stopped_and_an_app_that_is_gone_is_left_alone(disk: DaemonStore) -> None:
    first = fake_daemon(disk)
    first.apps.start(PUSH)
    first.close()
    without = fake_daemon(disk, names=())
    without.restore()
    assert without.observation.statuses() == []
    assert set(disk.started()) == {"synthetic"}
    again = fake_daemon(disk)
    again.restore()
    again.apps.stop("synthetic")
    last = fake_daemon(disk)
    last.restore()
    assert last.observation.status("synthetic").state == "stopped"


def test_a_watched_directory_changes_what_a_running_app_chooses_from(disk: DaemonStore) -> None:
    daemon = fake_daemon(disk)
    daemon.apps.start(PUSH)
    seven = shipped(registry.find("synthetic")).compositions[6]
    daemon.compositions.load_directory({"synthetic": [type(seven)("from-file", seven.groups)]})
    assert "from-file" in [each.name for each in daemon.compositions.of("synthetic")]
    daemon.compositions.load_directory({})
    assert "from-file" not in [each.name for each in daemon.compositions.of("synthetic")]
    daemon.close()


def test_options_may_change_the_stages_and_with_them_what_fits(disk: DaemonStore) -> None:
    daemon = fake_daemon(disk)
    daemon.apps.start(PUSH.model_copy(update={"options": {"weights": "1:1:1:1"}}))
    found = daemon.compositions.of("synthetic")
    assert [each.workers for each in found if each.name == "sequential"] == [4]
    assert {sum(len(group.stages) for group in each.groups) for each in found} == {4}
    daemon.close()


def test_after_a_stop_counts_stay_and_rates_go(disk: DaemonStore) -> None:
    daemon = fake_daemon(disk)
    daemon.apps.start(PUSH)
    daemon.apps.push("synthetic", ("x",))
    status = daemon.apps.stop("synthetic")
    assert (status.state, status.items.delivered) == ("stopped", 1)
    assert status.input_rate_per_s is None
    daemon.objectives.set("synthetic", Slo("latency", 100.0))
    assert daemon.observation.status("synthetic").requested.slo.target == 100.0


# --- all apps are asked at once, with a limit -------------------------------------------------------------------------


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


# --- the job of the tables -----------------------------------------------------------------------------------------


DONE = '{"records": 7, "batch": 3, "files": {"items": 2, "windows": 3}}'
WORKS = f"import sys; open(sys.argv[4], 'w').write('{DONE}')"
FAILS = "import sys; sys.exit('Error: Spark needs Java 17 or 21 and found none')"


def job(folder: Path, program: str) -> tuple[TableJob, Callable[[], float | None]]:
    """One that takes a turn when it is told to."""
    write_items(folder, 0, [0.1])
    ticker = Mock(ending=False)
    made = TableJob([sys.executable, "-c", program], folder, 600.0, lambda _: ticker)
    made.start()
    return made, ticker.start.call_args.args[0]


def test_the_first_run_comes_after_the_pause_and_tells_what_it_did(tmp_path: Path) -> None:
    made, turn = job(tmp_path, WORKS)
    assert turn() == 600
    assert made.status.up_to is None
    assert turn() == 600
    status = made.status
    assert (status.state, status.records, status.batch, status.files) == ("waiting", 7, 3, 5)
    assert status.up_to is not None
    made.close()


def test_a_job_that_fails_says_why_and_is_tried_again_later_and_later(tmp_path: Path) -> None:
    made, turn = job(tmp_path, FAILS)
    assert [turn() for _ in range(4)] == [600, 1200, 2400, 4800]
    status = made.status
    assert (status.state, status.failed_in_a_row) == ("failed", 3)
    assert status.failure == "Spark needs Java 17 or 21 and found none"
    made.close()


def test_the_end_of_the_service_ends_a_job_that_is_at_work(tmp_path: Path) -> None:
    write_items(tmp_path, 0, [0.1])
    made = TableJob([sys.executable, "-c", "import time; time.sleep(600)"], tmp_path, 0.01)
    made.start()
    wait_until(lambda: made.status.state == "running")
    made.close()
    assert made._process is None or made._process.poll() is not None


def test_without_spark_serve_keeps_no_tables_and_says_how_to_have_them(tmp_path: Path, monkeypatch) -> None:
    said = CapturingLogger()
    monkeypatch.setattr(serve, "log", said)
    monkeypatch.setattr(serve, "find_spec", lambda name: None)
    daemon = SimpleNamespace(observation=SimpleNamespace(tables=None))
    with serve.tables(tmp_path, 10.0, cast(Daemon, daemon)):
        assert daemon.observation.tables is None
    assert said.calls[0].kwargs == {"missing": ["pyspark", "deltalake"], "remedy": "pip install 'recompose[spark]'"}
