"""A run that outlives its runner, staged in one process, and its journal where that cannot be written."""

import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from apps.contract import App
from compositions.errors import NotNow, RecomposeError
from compositions.model import Stage, StageKind
from compositions.notation import parse
from datapipe.sources.push import BufferFull, Push
from runtime.dispatch.checkpoint import Checkpoint
from runtime.pools.ray.hosted import Raised
from service.runner.durable import group_writer
from service.runner.durable.group_writer import GroupWriter
from service.runner.durable.journal import Journal
from service.runner.durable.values import Commit, Pushed
from service.runner.rpc.requests import PushMany, ReadResults, ReadStatus
from service.runner.runner import Runner
from service.runner.validation.durable import open_journal
from service.schemas.results import Result
from service.schemas.spec import RunSpec, SourceSpec
from tests.support.waiting import wait_until

PATIENCE_S = 30.0
pytestmark = pytest.mark.logs_errors("runner 2 has taken over run r")


class Sums(App):
    """Adds up what it is given; waits before item ``stop_at`` until it may go on."""

    name = "sums"
    stages = (Stage("double"), Stage("add", StageKind.STATEFUL))
    go_on = threading.Event()
    stop_at: int | None = None

    def items(self, path: Path | None) -> Iterator[Any]:
        return iter(range(40))

    def from_json(self, value: Any) -> Any:
        if not isinstance(value, int):
            raise ValueError("give a number")
        return value

    def double(self, value: int) -> int:
        if value == type(self).stop_at:
            assert self.go_on.wait(PATIENCE_S)
        return 2 * value

    def add(self, value: int, state: int | None) -> tuple[int, int]:
        total = (state or 0) + value
        return total, total


StartRun = Callable[..., Runner]


@pytest.fixture
def start(begin: StartRun, monkeypatch: pytest.MonkeyPatch) -> Iterator[StartRun]:
    """Begin runs of the app."""
    monkeypatch.setattr(Sums, "go_on", threading.Event())
    yield partial(begin, Sums)
    Sums.go_on.set()


def results(runner: Runner, count: int, after: int | None = None) -> list[Result]:
    wait_until(lambda: len(runner.ask(ReadResults(after, 1000, "r"))) >= count)
    return runner.ask(ReadResults(after, 1000, "r"))


def until_delivered(runner: Runner, count: int) -> None:
    wait_until(lambda: runner.ask(ReadStatus()).items.delivered >= count)


def totals(count: int) -> list[int]:
    return [number * (number + 1) for number in range(count)]


@pytest.mark.parametrize("durability", ["restart", "exactly-once"])
def test_what_was_acknowledged_is_delivered_by_the_next_runner(start: StartRun, durability: str) -> None:
    Sums.stop_at = 5
    first = start(durability=durability)
    assert first.ask(PushMany(tuple(range(10)))).serials == list(range(10))
    before = results(first, 5)
    second = start(2, durability=durability)
    assert second.ask(PushMany((10,))).serial == 10
    Sums.go_on.set()
    status = second.ask(ReadStatus())
    assert (status.origin.run, status.origin.epoch, status.origin.durability) == ("r", 2, durability)
    behind = results(second, 6, after=4)
    assert [row.serial for row in behind] == list(range(5, 11)), "a cursor of the first runner goes on"
    assert [row.value for row in [*before, *behind]] == totals(11), "the state is that of the items that left"


class Slow(Sums):
    """Only the first of its workers is set up before ``go_on``."""

    set_up = threading.Semaphore()

    def setup(self) -> None:
        assert self.set_up.acquire(blocking=False) or self.go_on.wait(PATIENCE_S)


def test_a_run_that_goes_on_waits_for_one_worker_only(start: StartRun, begin: StartRun) -> None:
    Sums.stop_at = None
    apart = parse("Par(double)-Seq(add)", Sums.stages, name="apart")
    how: dict[str, Any] = {"compositions": (apart,), "composition": "apart"}
    first = start(**how)
    first.ask(PushMany((0, 1)))
    assert len(results(first, 2)) == 2
    first.kill()
    second = begin(Slow, 2, **how)
    assert second.ask(PushMany((2,))).serial == 2
    assert [row.value for row in results(second, 3)] == totals(3)
    assert len(second.ask(ReadStatus()).workers) == 1


def test_a_runner_that_was_followed_shows_nothing_more_and_takes_nothing(start: StartRun) -> None:
    Sums.stop_at = 3
    first = start()
    first.ask(PushMany(tuple(range(6))))
    assert len(results(first, 3)) == 3
    second = start(2)
    Sums.go_on.set()
    assert [row.value for row in results(second, 6)] == totals(6)
    with pytest.raises(RecomposeError, match=r"runner 1 may not write any more|accepts no more items"):
        _ = first.ask(PushMany((6,))).serial
    assert first.wait(PATIENCE_S)
    assert "runner 2 has taken over run r" in str(first.ask(ReadStatus()).health.failure)
    assert len(first.ask(ReadResults(None, 1000))) == 3, "what it did after the other began is seen by nobody"


def test_a_disk_without_room_holds_the_stream_back(start: StartRun, monkeypatch: pytest.MonkeyPatch) -> None:
    Sums.stop_at = 2
    monkeypatch.setattr(group_writer, "RETRY_S", PATIENCE_S)  # it is the next push that is tried
    runner = start()
    runner.ask(PushMany((0, 1, 2)))
    assert len(results(runner, 2)) == 2
    db = runner._checked.stored._journal._file.db  # type: ignore[union-attr]
    pages = db.execute("PRAGMA page_count").fetchone()[0]
    db.execute(f"PRAGMA max_page_count = {pages}")
    refused = runner.ask(PushMany((10**200_000,)))
    assert refused.serials == []
    assert "cannot be written now: database or disk is full; no item was accepted, try again" in str(refused.refusal)
    assert "disk is full" in str(runner.ask(ReadStatus()).health.held_up)
    db.execute("PRAGMA max_page_count = 100000")
    Sums.go_on.set()
    assert runner.ask(PushMany((3,))).serial == 3, "nothing that was refused has a serial number"
    assert [row.value for row in results(runner, 4)] == totals(4)
    assert runner.ask(ReadStatus()).health.held_up is None


def test_a_durable_run_needs_a_folder() -> None:
    with pytest.raises(RecomposeError, match="durability 'restart' needs the service, which has a folder for journals"):
        Runner(RunSpec(app="synthetic", pool="local", durability="restart", source=SourceSpec(kind="push")))


class SumsByKey(Sums):
    """Adds up by remainder, and forgets a sum that passes 100."""

    stages = (Stage("double"), Stage("add", StageKind.PARTITIONED, partitions=7))

    def add_key(self, value: int) -> int:
        return value // 2 % KEYS

    def add(self, value: int, state: int | None) -> tuple[int, int | None]:
        total = (state or 0) + value
        return total, None if total > 100 else total


KEYS = 5


def totals_by_key(count: int) -> list[int]:
    app, states = SumsByKey(), dict[int, int | None]()
    out = []
    for number in range(count):
        result, states[number % KEYS] = app.add(2 * number, states.get(number % KEYS))
        out.append(result)
    return out


@pytest.mark.parametrize("durability", ["restart", "exactly-once"])
@pytest.mark.usefixtures("start")
def test_states_of_keys_go_on(begin: StartRun, monkeypatch: pytest.MonkeyPatch, durability: str) -> None:
    source = {"source": SourceSpec(kind="replay", loop=False), "batching": {"items": 4}, "durability": durability}
    for epoch, stop_at in ((1, 14), (2, 26)):
        monkeypatch.setattr(SumsByKey, "stop_at", stop_at)
        runner = begin(SumsByKey, epoch, **source)
        until_delivered(runner, stop_at // 4 * 4)
        runner.kill()
    third = begin(SumsByKey, 3, **source)
    SumsByKey.go_on.set()
    assert third.wait(PATIENCE_S)
    rows = third.ask(ReadResults(None, 1000, "r"))
    assert [row.value for row in rows] == totals_by_key(40)[rows[0].serial :]
    assert rows[0].serial <= (0 if durability == "exactly-once" else 24)


# --- a journal and its writer when they cannot write; full file systems are real ones of 256 KB -------------------


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
    with pytest.raises(BufferFull, match="attempt to write a readonly database; no item was accepted"):
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
        with pytest.raises(RecomposeError, match="the app is stopping and accepts no more items"):
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
