"""When results of an exactly-once run are stored and seen, with a journal that stores when the test says."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from datapipe.sources.push import Push
from runtime.dispatch.checkpoint import Checkpoint
from runtime.dispatch.outcomes import Delivered
from service.runner.durable.journal import Journal
from service.runner.durable.values import Commit, Resumption
from service.runner.wiring.checkpointer import ExactlyOnceCheckpointer
from service.runner.wiring.result_buffer import ResultBatch


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
