"""What the thread that writes a journal does when it cannot."""

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from compositions.errors import RecomposeError
from datapipe.sources.push import BufferFull, Push
from runtime.dispatch.checkpoint import Checkpoint
from service.runner.durable import group_writer
from service.runner.durable.group_writer import GroupWriter
from service.runner.durable.journal import Journal
from service.runner.durable.values import Commit

PATIENCE_S = 30.0


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    made = Journal(tmp_path / "run.journal", "r", 1)
    yield made
    made.close()


def test_a_fault_is_over_though_nobody_pushes_again(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_writer, "RETRY_S", 0.01)
    writer, over = GroupWriter(journal, lambda items: None), threading.Event()
    writer.tell(lambda: over.set() if writer.fault is None else None)
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


@pytest.fixture
def storing(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Set when the journal is to store something, and to be set when it may."""
    entered, go_on, store = threading.Event(), threading.Event(), journal.store

    def slowly(*what: Any) -> None:
        entered.set()
        assert go_on.wait(PATIENCE_S)
        store(*what)

    monkeypatch.setattr(journal, "store", slowly)
    return entered, go_on


def test_what_comes_too_late_takes_nothing_away_from_what_was_given_before(
    journal: Journal, storing: tuple[threading.Event, threading.Event]
) -> None:
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


def test_whoever_pushes_is_answered_though_what_was_stored_is_not_taken(
    journal: Journal, storing: tuple[threading.Event, threading.Event]
) -> None:
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
