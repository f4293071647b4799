"""Check what a journal and the thread that writes it do when they cannot. Full file systems are real ones of 256 KB."""

import shutil
import subprocess
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from compositions.errors import NotNow, RecomposeError
from datapipe.sources.push import BufferFull, Push
from runtime.dispatch.checkpoint import Checkpoint
from runtime.pools.ray.hosted import Raised
from service.runner.durable import group_writer
from service.runner.durable.group_writer import GroupWriter
from service.runner.durable.journal import Journal
from service.runner.durable.values import Commit, Pushed
from service.runner.validation.durable import open_journal


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
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    return ballast


def leaves_an_item(folder: Path) -> None:
    with closing(open_journal(str(folder), "app", "r", 1)) as journal:
        journal.store(None, [Pushed(0, ("kept",))])


def has_the_item(folder: Path, epoch: int) -> bool:
    with closing(open_journal(str(folder), "app", "r", epoch)) as journal:
        return journal.found.undelivered == ["kept"]


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
    leaves_an_item(small)
    ballast = filled(small)
    before = (small / "app" / "r.journal").read_bytes()
    for epoch in range(2, 10):
        with pytest.raises(NotNow, match="cannot be written now: "):
            open_journal(str(small), "app", "r", epoch)
    with pytest.raises(NotNow, match=r"journal .*other cannot be written: No space left|cannot be written now: "):
        open_journal(str(small), "other", "s", 1)
    assert (small / "app" / "r.journal").read_bytes() == before
    ballast.unlink()
    assert has_the_item(small, 10)


def test_a_file_system_that_is_read_only_for_a_while_is_waited_for(small: Path) -> None:
    leaves_an_item(small)
    subprocess.run(["mount", "-o", "remount,ro", str(small)], check=True)
    with pytest.raises(NotNow, match=r"cannot be written: Read-only file system"):
        open_journal(str(small), "app", "r", 2)
    subprocess.run(["mount", "-o", "remount,rw", str(small)], check=True)
    assert has_the_item(small, 3)


def test_that_it_cannot_be_now_is_told_by_a_runner_elsewhere_as_it_is() -> None:
    told = Raised.of(NotNow("no room")).error()
    assert (type(told), str(told)) == (NotNow, "no room")
    assert isinstance(told, RecomposeError)
    assert isinstance(told, OSError)


# --- the thread that writes -------------------------------------------------------------------------------------------


PATIENCE_S = 30.0


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    made = Journal(tmp_path / "run.journal", "r", 1)
    yield made
    made.close()


def test_a_fault_is_over_though_nobody_pushes_again(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_writer, "RETRY_S", 0.01)
    writer, over = GroupWriter(journal, lambda items: None), threading.Event()
    writer.wake = lambda: over.set() if writer.fault is None else None
    db = journal._file.db
    db.execute("PRAGMA query_only = 1")
    with pytest.raises(BufferFull, match="attempt to write a readonly database; nothing was taken"):
        writer.push((1,), [1])
    assert writer.fault is not None
    assert not over.is_set()
    db.execute("PRAGMA query_only = 0")
    assert over.wait(PATIENCE_S), "what was acknowledged before is fed again"
    assert writer.push((1,), [1]) == 0
    writer.close()


Pause = tuple[threading.Event, threading.Event]


@pytest.fixture
def storing(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> Pause:
    """Set when the journal is to store something, and to be set when it may."""
    entered, go_on, store = threading.Event(), threading.Event(), journal.store

    def slowly(*what: Any) -> None:
        entered.set()
        assert go_on.wait(PATIENCE_S)
        store(*what)

    monkeypatch.setattr(journal, "store", slowly)
    return entered, go_on


def test_what_comes_too_late_takes_nothing_away_from_what_was_given_before(journal: Journal, storing: Pause) -> None:
    writer, (entered, go_on) = GroupWriter(journal, lambda items: None), storing
    with ThreadPoolExecutor(3) as threads:
        threads.submit(writer.push, (0,), [0])
        assert entered.wait(PATIENCE_S)
        threads.submit(writer.push, (1,), [1])
        while not writer._tickets:
            pass
        writer.submit(Commit(Checkpoint(1, 0, 0, {}), {}))
        threads.submit(writer.close)
        while not writer._closing:
            pass
        with pytest.raises(RecomposeError, match="the app is stopping and takes no more items"):
            writer.push((2,), [2])
        writer.submit(Commit(Checkpoint(2, 0, 0, {}), {}))
        go_on.set()
    assert [each.checkpoint.delivered for each in writer.stored()] == [1]
    found = Journal(journal._file.path, "r", 2).found
    assert (found.checkpoint.delivered, len(found.pushed)) == (1, 1), "the first item is out, the second is to come"


def test_whoever_pushes_is_answered_though_what_was_stored_is_not_taken(journal: Journal, storing: Pause) -> None:
    def accept(items: Sequence[Any]) -> None:
        if items == [2]:
            raise ValueError("no more")

    writer, (entered, go_on) = GroupWriter(journal, accept), storing
    with ThreadPoolExecutor(4) as pushing:
        first = pushing.submit(writer.push, (0,), [0])
        assert entered.wait(PATIENCE_S)
        others = []
        for number in (1, 2, 3):  # are stored together
            others.append(pushing.submit(writer.push, (number,), [number]))
            while len(writer._tickets) < number:
                pass
        go_on.set()
        assert [first.result(PATIENCE_S), others[0].result(PATIENCE_S)] == [0, 1]
        for refused in others[1:]:
            with pytest.raises(RecomposeError, match=r"the journal failed: ValueError\('no more'\)"):
                refused.result(PATIENCE_S)
    writer.close()


def test_reading_ends_behind_what_is_on_its_way_to_the_journal() -> None:
    source = Push(4, clock=lambda: 0.0)
    stored, lost = source.announced("stored"), source.announced("lost")
    source.close()
    with ThreadPoolExecutor(1) as thread:
        portions = thread.submit(lambda: list(iter(lambda: source.read(4, 0.0), None)))
        source.extend([stored])
        source.withdraw(len([lost]))
        assert [value for each in portions.result(PATIENCE_S) for value in each.values] == ["stored"]
