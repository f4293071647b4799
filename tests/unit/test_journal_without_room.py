"""A journal on a file system that is full, or read-only for a while: real ones, in memory, a few hundred kilobytes."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from apps import registry
from apps.contract import App
from compositions.errors import NotNow, RecomposeError
from compositions.model import Stage
from runtime.dispatch.checkpoint import Checkpoint
from runtime.pools.ray.hosted import Raised
from service.daemon.store.store import DaemonStore, Started
from service.daemon.supervision.desired_state import DesiredState
from service.daemon.supervision.history import HistoryPuller
from service.daemon.supervision.restart_policy import BACK_OFF_S, POSTPONED_S, Starting, Up, put_off
from service.daemon.supervision.runner_slot import LocalHost, RunnerSlot
from service.daemon.supervision.ticker import Ticker
from service.daemon.supervision.watchdog import Watchdog
from service.runner.durable.journal import Journal
from service.runner.durable.values import Commit, Pushed
from service.runner.rpc.requests import PushMany, ReadResults
from service.runner.runner import Runner
from service.runner.validation.durable import open_journal
from service.schemas.spec import RunSpec, SourceSpec
from tests.support.waiting import wait_until


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KB."""
    folder = tmp_path / "small"
    folder.mkdir()
    asked = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(asked, check=False, capture_output=True).returncode != 0:
        pytest.skip("a small file system of its own can be mounted by root only")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def filled(folder: Path) -> Path:
    """Takes all the room that is left; returns what is to be removed for it."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        while True:
            try:
                file.write(bytes(4096))
            except OSError:
                return ballast


def test_a_journal_that_finds_no_room_stores_nothing_and_goes_on_when_there_is(small: Path) -> None:
    journal = Journal(small / "r.journal", "r", 1)
    journal.store(Commit(Checkpoint(1)), [Pushed(0, (1, 2))])
    ballast = filled(small)
    with pytest.raises(NotNow, match=r"journal .*r\.journal cannot be written now: database or disk is full"):
        journal.store(Commit(Checkpoint(2)), [Pushed(2, ("x" * 10_000,))])
    ballast.unlink()
    journal.store(None, [Pushed(2, (3,))])
    journal.close()
    found = Journal(small / "r.journal", "r", 2).found
    assert (found.checkpoint, found.undelivered) == (Checkpoint(1), [2, 3])


def test_a_runner_that_begins_on_a_full_disk_may_begin_later(small: Path) -> None:
    first = open_journal(str(small), "app", "r", 1)
    first.store(None, [Pushed(0, ("kept",))])
    first.close()
    ballast = filled(small)
    before = (small / "app" / "r.journal").read_bytes()
    for epoch in range(2, 10):
        with pytest.raises(NotNow, match="cannot be written now: "):
            open_journal(str(small), "app", "r", epoch)
    with pytest.raises(NotNow, match=r"journal .*other cannot be written: No space left|cannot be written now: "):
        open_journal(str(small), "other", "s", 1)
    assert (small / "app" / "r.journal").read_bytes() == before
    ballast.unlink()
    again = open_journal(str(small), "app", "r", 10)
    assert again.found.undelivered == ["kept"]
    again.close()


def test_a_file_system_that_is_read_only_for_a_while_is_waited_for(small: Path) -> None:
    first = open_journal(str(small), "app", "r", 1)
    first.store(None, [Pushed(0, ("kept",))])
    first.close()
    subprocess.run(["mount", "-o", "remount,ro", str(small)], check=True)
    with pytest.raises(NotNow, match=r"cannot be written: Read-only file system"):
        open_journal(str(small), "app", "r", 2)
    subprocess.run(["mount", "-o", "remount,rw", str(small)], check=True)
    again = open_journal(str(small), "app", "r", 3)
    assert again.found.undelivered == ["kept"]
    again.close()


def test_that_it_cannot_be_now_is_told_by_a_runner_elsewhere_as_it_is() -> None:
    told = Raised.of(NotNow("no room")).error()
    assert (type(told), str(told)) == (NotNow, "no room")
    assert isinstance(told, RecomposeError)
    assert isinstance(told, OSError)


class Same(App):
    name = "same"
    stages = (Stage("same"),)

    def same(self, value: int) -> int:
        return value


def test_an_app_whose_runner_finds_no_room_waits_and_loses_nothing(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "create", lambda *_: Same())
    runners: list[Runner] = []

    def made(spec: RunSpec) -> Runner:
        runners.append(Runner(spec))
        return runners[-1]

    how = {"source": SourceSpec(kind="push"), "durability": "exactly-once", "journals": str(small), "pool": "local"}
    store, slot = DaemonStore(None), RunnerSlot("name", LocalHost(made))
    now_s = 0.0
    wanted, history = DesiredState(Started(RunSpec(app="same", **how), 0), store), HistoryPuller("same", slot, store, 0)
    watchdog = Watchdog(wanted, slot, history, Ticker("watchdog"), clock=lambda: now_s)
    watchdog.step()
    assert watchdog.ask(PushMany((1, 2, 3))).serials == [0, 1, 2]
    runners[0].kill()
    assert runners[0].wait(30.0)
    ballast = filled(small)
    for _ in range(2 * len(BACK_OFF_S)):
        now_s += 10.0
        watchdog.step()
    assert isinstance(watchdog.condition, Starting)
    assert "cannot be written" in str(put_off(watchdog.condition))
    ballast.unlink()
    now_s += POSTPONED_S[-1]
    watchdog.step()
    assert isinstance(watchdog.condition, Up)
    assert watchdog.ask(PushMany((4,))).serials == [3], "what was acknowledged has its place"
    wait_until(lambda: len(watchdog.ask(ReadResults(None, 10))) == 4)
    assert [row.value for row in watchdog.ask(ReadResults(None, 10))] == [1, 2, 3, 4]
    watchdog.stop()
    store.close()
