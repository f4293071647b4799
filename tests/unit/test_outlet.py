"""The thread before a sink: what it does while the sink cannot be reached. When results are stored and seen, with a
journal that stores when the test says."""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from apps.contract import App, Outputs
from compositions.errors import RecomposeError
from compositions.model import Stage
from datapipe.sinks.port import AT_ONCE, Row
from datapipe.sources.push import Push
from runtime.dispatch.checkpoint import Checkpoint
from runtime.dispatch.outcomes import Delivered
from service.runner.durable.journal import Journal
from service.runner.durable.values import Commit, Resumption
from service.runner.rpc.requests import ReadStatus
from service.runner.runner import Runner
from service.runner.validation.checked import CheckedSpec
from service.runner.wiring import assembly, checkpointer
from service.runner.wiring import sink as sink_writer
from service.runner.wiring.checkpointer import ExactlyOnceCheckpointer
from service.runner.wiring.result_buffer import ResultBatch
from service.runner.wiring.sink import ResultSink, SinkWriter
from service.schemas.spec import RunSpec, SinkSpec, SourceSpec
from tests.support.waiting import eventually, wait_until

PATIENCE_S = 30.0


class Away:
    """A sink that has the items below 2 and answers when it is back."""

    gather = AT_ONCE

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.back, self.asked, self.closed = threading.Event(), threading.Semaphore(0), threading.Event()

    def begin(self, next_serial: int, known: int) -> int:
        self.reach()
        return 2

    def write(self, until: int, rows: Sequence[Row]) -> None:
        self.reach()
        self.rows.extend(rows)

    def reach(self) -> None:
        self.asked.release()
        if not self.back.is_set():
            raise OSError("nobody answers")

    def close(self) -> None:
        self.closed.set()


@pytest.fixture
def sink(monkeypatch: pytest.MonkeyPatch) -> Away:
    monkeypatch.setattr(sink_writer, "AGAIN_S", 0.01)
    return Away()


def test_a_sink_that_is_away_when_a_runner_begins_is_asked_again_and_gets_what_it_has_not(sink: Away) -> None:
    """Texts of what it has are kept no longer, whether that came before the sink had answered or after."""
    told = threading.Event()
    runs = [ResultBatch(serial, [serial], texts=[str(serial)]) for serial in range(4)]
    way = SinkWriter(sink, 3, told.set)
    way.start()
    way.take(runs[0])
    assert told.wait(PATIENCE_S)
    assert (way.fault, way.failed, way.until) == ("nobody answers", None, 0)
    sink.back.set()
    wait_until(lambda: way.until == 2)
    for run in runs[1:]:
        way.take(run)
    way.finish()
    assert [(row.serial, row.value) for row in sink.rows] == [(2, "2"), (3, "3")]
    assert [run.texts for run in runs] == [None] * 4
    assert (way.fault, way.until) == (None, 4)


def test_a_sink_that_never_will_take_anything_fails_the_run(sink: Away, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse = RecomposeError("another runner has taken over run r")
    monkeypatch.setattr(sink, "begin", MagicMock(side_effect=refuse))
    way = SinkWriter(sink, 0, lambda: None)
    way.start()
    assert sink.closed.wait(PATIENCE_S)
    assert way.failed == "another runner has taken over run r"


@pytest.mark.logs_errors("results could not be written to the sink")
def test_who_gives_up_on_a_sink_asks_it_no_more(sink: Away, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink_writer, "END_S", 0.0)
    sink.back.set()
    way = SinkWriter(sink, 2, lambda: None)
    way.start()
    assert sink.asked.acquire(timeout=PATIENCE_S)
    sink.back.clear()
    way.take(ResultBatch(2, [2]))
    assert sink.asked.acquire(timeout=PATIENCE_S)
    way.finish()
    assert sink.closed.wait(PATIENCE_S), "its thread has ended"
    assert sink.rows == []


def test_texts_that_were_made_are_written_as_they_are_and_kept_no_longer(sink: Away) -> None:
    """The sink of the test has the items below 2: of a run that begins before that it gets the rest."""
    sink.back.set()
    way, run = SinkWriter(sink, 0, lambda: None), ResultBatch(1, [1, 2, 3], texts=["one", "two", "three"])
    way.take(run)
    way.take(ResultBatch(4, [Outputs([1, "b"]), 5]))
    way.take(ResultBatch(6, (None, None), "shed"))
    way.start()
    way.finish()
    assert sink.rows == [
        *(Row(2, None, "two", None), Row(3, None, "three", None)),
        *(Row(4, 0, "1", None), Row(4, 1, '"b"', None), Row(5, None, "5", None)),
        *(Row(6, None, None, "shed"), Row(7, None, None, "shed")),
    ]
    assert (run.texts, way.until) == (None, 8)


class Halves(App):
    name = "halves"

    def encode_result(self, value: int) -> int:
        if value % 2:
            raise ValueError(f"{value} is odd")
        return value // 2


def test_what_comes_behind_a_result_that_cannot_be_written_keeps_its_place(sink: Away) -> None:
    sink.back.set()
    way = SinkWriter(sink, 2, lambda: None)
    results = ResultSink(Halves(), lambda payload, start, stop: payload[start:stop], table=way)
    results.begin(2, ())
    results.take(Delivered(1.0, 2, (0.0,) * 5, 0.5, "c", [2, 3, 6, 7, 10]))
    results.close()
    assert [(row.serial, row.value, row.error is None) for row in sink.rows] == [
        *((2, "1", True), (3, None, False), (4, "3", True), (5, None, False), (6, "5", True))
    ]


def test_what_was_begun_of_a_run_that_cannot_be_built_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembly, "loop_of", MagicMock(side_effect=RecomposeError("no loop")))
    checked = CheckedSpec(RunSpec(app="synthetic", pool="local", source=SourceSpec(kind="push")))
    table = MagicMock(failed=None)
    with pytest.raises(RecomposeError, match="no loop"):
        assembly.assemble(checked, table)
    assert table.finish.called
    checked.close()


def test_what_waits_is_weighed(sink: Away) -> None:
    way = SinkWriter(sink, 0, lambda: None)
    way.start()
    heavy = [ResultBatch(serial, ["x"], size_bytes=sink_writer.MOST_BYTES // 2) for serial in range(3)]
    for run, has_room in zip(heavy, (True, False, False), strict=True):
        way.take(run)
        assert way.has_room == has_room
    sink.back.set()
    wait_until(lambda: way.has_room)
    way.finish()
    assert way.until == 3


class Large(App):
    name = "large"
    stages = (Stage("blow"),)
    blown = 5_000_000

    def items(self, path: Path | None) -> Iterator[int]:
        return count()

    def blow(self, number: int) -> str:
        return "x" * self.blown


@pytest.mark.logs_errors("results could not be written to the sink")
@pytest.mark.parametrize(("durability", "size"), [("none", 5_000_000), ("exactly-once", 200_000)])
def test_with_a_sink_that_is_away_no_more_results_wait_than_their_budgets_say(
    begin: Callable[..., Runner], monkeypatch: pytest.MonkeyPatch, durability: str, size: int
) -> None:
    """In bytes: some that were on their way come beside them."""
    monkeypatch.setattr(sink_writer, "END_S", 0.1)
    monkeypatch.setattr(Large, "blown", size)
    sink, source = SinkSpec(kind="webhook", path="http://127.0.0.1:9/x"), SourceSpec(kind="replay")
    how = {"journal_sync": False, "durability": durability, "batching": {"items": 1}}
    runner = begin(Large, source=source, sink=sink, **how)
    delivered = [-1, 0]

    def stands_still() -> bool:
        delivered.append(runner.ask(ReadStatus(), timeout_s=PATIENCE_S).items.delivered)
        return delivered[-1] == delivered[-2] > 0

    eventually(stands_still, seconds=PATIENCE_S, every_s=0.7)
    on_their_way = 100 * size
    assert delivered[-1] * size < sink_writer.MOST_BYTES + checkpointer.MOST_HELD_BYTES + on_their_way
    assert "does not answer" in (runner.ask(ReadStatus()).health.held_up or "")


# --- when results of an exactly-once run are stored and seen ----------------------------------------------------------


@dataclass
class Writer:
    """Stands for a ``GroupWriter``."""

    fault = failed = None
    busy = False
    submitted: list[Commit] = field(default_factory=list)
    done: list[Commit] = field(default_factory=list)

    def submit(self, commit: Commit) -> None:
        self.submitted.append(commit)
        self.busy = True

    def stored(self) -> list[Commit]:
        done, self.done = self.done, []
        return done

    def store(self) -> None:
        self.done, self.busy = [self.submitted[-1]], False


class Staged:
    def __init__(self) -> None:
        self.writer, self.released, self.seen, self.out = Writer(), [], [], 0
        parts = self.writer, Push(1, clock=float), lambda payload: payload, Resumption(), None
        self.checkpointer = ExactlyOnceCheckpointer(lambda run: self.released.append(run.first), *parts)
        self.checkpointer.seen = lambda at_s, out: self.seen.append((at_s, out.serial, out.payload))

    def leave(self) -> None:
        self.checkpointer.left(Delivered(0.0, self.out, (0.0,), 0.0, "1", payload=["large"]))
        self.checkpointer.take(ResultBatch(self.out, ["value"]))
        self.out += 1

    def turn(self, now_s: float, behind: int = 0) -> int:
        """How many commits were begun until then. So many items that left are ``behind`` the latest checkpoint."""
        self.checkpointer.turn(now_s, lambda left: Checkpoint(left - behind, 0, 0, {}))
        return len(self.writer.submitted)


def test_an_item_is_seen_when_it_is_stored_and_its_latency_ends_there() -> None:
    staged = Staged()
    staged.leave()
    assert staged.turn(1.0) == 1, "the first is stored at once"
    staged.leave()
    staged.turn(1.2)
    assert (staged.released, staged.seen) == ([], []), "nobody sees what is not stored"
    staged.writer.store()
    staged.turn(1.3)
    assert (staged.released, staged.seen) == ([0], [(1.3, 0, None)]), "the second is not in that commit"


@pytest.mark.parametrize(("took_s", "pause_s"), [(0.001, 0.001), (0.4, 0.005)])
def test_between_two_commits_passes_as_long_as_one_takes_and_no_more_than_5_ms(took_s: float, pause_s: float) -> None:
    staged = Staged()
    staged.leave()
    staged.turn(1.0)
    staged.leave()
    assert staged.turn(1.0 + took_s / 2) == 1, "one at a time"
    staged.writer.store()
    staged.turn(ended_s := 1.0 + took_s)
    assert staged.checkpointer.wake_at_s == pytest.approx(ended_s + pause_s)
    assert staged.turn(ended_s + 0.9 * pause_s) == 1
    staged.leave()
    assert staged.turn(ended_s + 1.1 * pause_s) == 2
    assert [left.first for left in staged.writer.submitted[1].left] == [1, 2], "what came meanwhile is stored together"


def test_what_is_behind_the_checkpoint_waits_for_the_next_one() -> None:
    staged = Staged()
    for _ in range(3):
        staged.leave()
    assert staged.turn(1.0, behind=3) == 0, "there is nothing to store"
    assert staged.turn(1.006, behind=1) == 1
    staged.writer.store()
    assert staged.turn(1.1, behind=1) == 1, "the same place again"
    assert (staged.released, staged.checkpointer.idle) == ([0, 1], False)
    assert staged.turn(1.2) == 2
    staged.writer.store()
    staged.turn(1.3)
    assert (staged.released, staged.checkpointer.idle) == ([0, 1, 2], True)
    assert [seen[1] for seen in staged.seen] == [0, 1, 2]


@pytest.mark.parametrize(("sync", "level"), [(True, 2), (False, 1)])
def test_a_journal_waits_for_the_disk_unless_told_otherwise(tmp_path: Path, sync: bool, level: int) -> None:
    journal = Journal(tmp_path / "r.journal", "r", 1, sync=sync)
    assert journal._file.db.execute("PRAGMA synchronous").fetchone() == (level,)
    journal.store(Commit(Checkpoint(3, 0, 0, {})))
    journal.close()
    after = Journal(tmp_path / "r.journal", "r", 2)
    assert after.found.checkpoint.next_serial == 3
    after.close()
