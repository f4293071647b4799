"""Check that an item that an app refuses, whatever it raises, is refused alone and costs no other one anything."""

import pickle
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from pydantic import BaseModel

from apps.contract import App
from compositions.errors import RecomposeError
from compositions.model import Stage, StageKind
from datapipe.sources.inbox import Inbox, Letter
from datapipe.sources.portions import Refused
from datapipe.sources.push import Push
from service.runner.rpc.requests import PushMany, ReadResults, Stop
from service.runner.runner import Runner
from service.runner.validation.durable import PushDoor
from service.schemas.results import Result
from service.schemas.spec import SourceSpec
from tests.support.waiting import eventually

PATIENCE_S = 30.0
Begin = Callable[..., Runner]
DEEP = "[" * 2000 + "]" * 2000
pytestmark = pytest.mark.logs_errors("runner 2 has taken over run r")


class Whole(App):
    """Counts its items in order, one bundle after the other; ``hold`` keeps them."""

    name = "whole"
    stages = (Stage("show"), Stage("count", StageKind.STATEFUL))
    hold = threading.Event()

    def show(self, value: Any) -> Any:
        assert self.hold.wait(PATIENCE_S)
        return value

    def count(self, value: Any, state: int | None) -> tuple[Any, int]:
        return [(state or 0) + 1, value], (state or 0) + 1


class Doubles(Whole):
    def from_json(self, value: Any) -> Any:
        value["n"] *= 2
        return value

    def from_binary(self, value: Any) -> Any:
        if isinstance(value, bytes):
            return (each for each in value)
        raise ValueError(f"an array of shape {value.shape} is no picture")


def taking(item: Callable[[Any], Any]) -> type[App]:
    return type("Taking", (Whole,), {"from_json": lambda self, value: item(value)})


Pops = taking(lambda value: value.pop("id"))
Gets = taking(lambda value: value.get("x"))
Names = taking(lambda value: value["name"].strip())


class Reading(BaseModel):
    celsius: float


class Typed(Whole):
    item_type = Reading
    result_type = tuple[int, float]

    def from_json(self, value: Reading) -> Any:
        return value.celsius if value.celsius else None


class Numbers(Whole):
    def from_json(self, value: Any) -> Any:
        if value == 3:
            raise ValueError("three is none any more")
        return value


@pytest.fixture
def start(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> Iterator[Begin]:
    monkeypatch.setattr(Whole, "hold", threading.Event())
    yield begin
    Whole.hold.set()


def results(runner: Runner, count: int) -> list[Result]:
    return eventually(lambda: runner.ask(ReadResults(None, 1000, "r")), lambda rows: len(rows) >= count)


@pytest.mark.parametrize(("app", "out"), [(Doubles, {"id": 7, "n": 2}), (Pops, 7)])
def test_what_was_pushed_is_stored_as_it_came(start: Begin, app: type[App], out: Any):
    assert start(app).ask(PushMany(({"id": 7, "n": 1},))).serial == 0
    second = start(app, 2)
    Whole.hold.set()
    assert [row.value for row in results(second, 1)] == [[1, out]]


@pytest.mark.parametrize("size", ["1", "8"])
@pytest.mark.parametrize(
    ("app", "lines", "errors"),
    [
        (Whole, ["1", DEEP, "2"], ["recursion", "whole does not accept this message (a.jsonl before "]),
        (Whole, ["1", "nonsense", "2"], ["Expecting value"]),
        (Gets, ['{"x":1}', "[]", '{"x":2}'], ["AttributeError: 'list' object has no attribute 'get'"]),
        (
            Typed,
            ['{"celsius":"1"}', '{"kelvin":1}', '{"celsius":2}'],
            ["does not accept this message (a.jsonl before ", "celsius: Field required"],
        ),
    ],
    ids=["nested", "no JSON", "AttributeError", "not of its type"],
)
def test_a_message_that_the_app_refuses_is_a_dead_letter_and_the_stream_goes_on(
    start: Begin, tmp_path: Path, app: type[App], lines: list[str], errors: list[str], size: str
):
    Whole.hold.set()
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.jsonl").write_text("\n".join(lines) + "\n")
    source = SourceSpec(kind="folder", path=str(folder), loop=True)
    runner = start(app, source=source, batching={"items": int(size), "linger_ms": 50})
    first, dead, last = results(runner, 3)
    assert [first.value, last.value] == [[1, 1], [2, 2]]
    assert all(each in str(dead.error) for each in errors)
    second = start(app, 2, source=source)
    (folder / "b.jsonl").write_text(lines[-1] + "\n")
    assert [row.value for row in results(second, 4)][3:] == [[3, 2]], "and none of them came again"


def test_items_and_results_that_do_not_fit_their_types_are_refused_with_the_fields(start: Begin):
    Whole.hold.set()
    runner = start(Typed)
    with pytest.raises(RecomposeError, match="whole does not accept this item: celsius: Input should be a valid"):
        _ = runner.ask(PushMany(({"celsius": "warm"},))).serial
    for celsius in ("2", 0, 3):
        runner.ask(PushMany(({"celsius": celsius},)))
    first, dead, last = results(runner, 3)
    assert [first.value, last.value] == [[1, 2.0], [3, 3.0]]
    assert dead.error == "the result cannot be written: ValueError: 1: Input should be a valid number"


def test_a_refused_item_among_many_takes_no_room_for_good(start: Begin):
    Whole.hold.set()
    runner = start(Names)
    for _ in range(70):
        told = runner.ask(PushMany(({"name": "x"}, {"name": 7})))
        assert len(told.serials) == 1
        assert "AttributeError: 'int' object has no attribute 'strip'" in str(told.refusal)
    assert len(results(runner, 70)) == 70
    with pytest.raises(RecomposeError, match="AttributeError"):
        _ = runner.ask(PushMany(({"name": 7},))).serial
    assert runner.ask(PushMany(({"name": "b"},))).serial == 70
    runner.ask(Stop(drain=True, timeout_s=PATIENCE_S), timeout_s=2 * PATIENCE_S)
    assert runner.wait(0)


def test_what_cannot_be_stored_is_refused(start: Begin):
    runner = start(Whole)
    with pytest.raises(RecomposeError, match=r"this item, a list, cannot be stored: .*; it must be picklable"):
        _ = runner.ask(PushMany(([threading.Lock()],))).serial


@pytest.mark.parametrize(
    ("item", "why"),
    [
        (np.eye(2), "whole does not accept this item: an array of shape (2, 2) is no picture"),
        (b"7", "whole turns this item into a generator, which cannot be sent to a worker ("),
    ],
)
def test_bytes_and_arrays_come_by_a_method_of_their_own(item: Any, why: str):
    source = Push(4, clock=lambda: 0.0)
    door = PushDoor(Doubles(), source, "push")
    assert str(door.put((item,))[1]).startswith(why)
    assert (door.put(({"n": 1},)), source.waiting) == (([0], None), 1)


def test_items_of_a_journal_that_an_edited_app_refuses_are_dead_letters(start: Begin):
    first = start(Whole)
    assert first.ask(PushMany((1, 2, 3, 4))).serials == [0, 1, 2, 3]
    Whole.hold.clear()
    second = start(Numbers, 2)
    assert second.ask(PushMany((5,))).serial == 4
    Whole.hold.set()
    rows = results(second, 5)
    assert [row.value for row in rows if row.error is None] == [[1, 1], [2, 2], [3, 4], [4, 5]]
    why = "three is none any more (item 2, which an earlier runner accepted)"
    assert rows[2].error == f"whole does not accept this item: {why}"


def test_a_queue_is_told_of_each_message_once_it_is_stored_as_it_came():
    bodies = (b'{"id": 1, "n": 5}', DEEP.encode(), b"[]", b'{"id": 2}')
    letters, told = [Letter("queue q", body, number) for number, body in enumerate(bodies)], list[str]()
    box = Mock(poll=lambda most, wait_s: [letters.pop(0) for _ in range(len(letters))] if most else [])
    box.acknowledge.side_effect = lambda taken: told.extend("taken" for _ in taken)
    box.refuse.side_effect = lambda letter: told.append("refused")
    inbox = Inbox(Pops(), box, time.monotonic)
    stored: list[Any] = []

    def store(values: tuple[Any, ...], arrivals: Sequence[Any]) -> None:
        assert not told
        stored.extend(values)
        inbox.buffer.extend(arrivals)

    inbox.by_way_of(store)
    items: list[Any] = []
    while len(items) < 4:
        items += inbox.read(10, time.monotonic() + PATIENCE_S).values
    inbox.close()
    while inbox.read(1, 0.0) is not None:
        pass
    assert [item for item in items if not isinstance(item, Refused)] == [1, 2]
    assert "TypeError" in items[2].why or "AttributeError" in items[2].why
    assert told == ["taken", "refused", "refused", "taken"]
    again = pickle.loads(pickle.dumps(stored))
    assert [again[0], again[3]] == [{"id": 1, "n": 5}, {"id": 2}]
    assert all(isinstance(each, Refused) for each in again[1:3])
