"""A run that outlives its runner: staged in one process, with runners that are dropped where the test says."""

import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from apps.contract import App
from compositions.errors import RecomposeError
from compositions.model import Stage, StageKind
from compositions.notation import parse
from service.runner.durable import group_writer
from service.runner.rpc.requests import PushMany, ReadResults, ReadStatus
from service.runner.runner import Runner
from service.schemas.results import Result
from service.schemas.spec import RunSpec, SourceSpec
from tests.support.waiting import wait_until

PATIENCE_S = 30.0
pytestmark = pytest.mark.logs_errors("epoch 2 goes on with run r")


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
    with pytest.raises(RecomposeError, match=r"epoch 1 writes nothing any more|takes no more items"):
        _ = first.ask(PushMany((6,))).serial
    assert first.wait(PATIENCE_S)
    assert "epoch 2 goes on with run r" in str(first.ask(ReadStatus()).health.failure)
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
    assert "cannot be written now: database or disk is full; nothing was taken, try again" in str(refused.refusal)
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
