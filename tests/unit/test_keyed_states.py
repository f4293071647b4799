"""The states of keys in a worker: what a task changes is told when it is over, and undone when it fails."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from apps.contract import App, Outputs
from compositions.model import Stage, StageKind
from runtime.dispatch.events import Change
from runtime.dispatch.instructions import KeyedTask, Task
from runtime.dispatch.routes import Mosaic, Routes
from runtime.pools.calls import Calls
from runtime.pools.execute import StageError, run_now
from runtime.pools.local import CODEC
from runtime.pools.perform import Performed, perform

PARTITIONS = 4
ALL = {"total": dict.fromkeys(range(PARTITIONS), ())}


class Sums(App):
    """Lists what came of a key; the list is changed in place."""

    name = "sums"
    stages = (Stage("pair"), Stage("total", StageKind.PARTITIONED, partitions=PARTITIONS), Stage("show"))

    def pair(self, value: Any) -> Any:
        return Outputs(value) if isinstance(value, list) else value

    def total_key(self, value: Any) -> Any:
        return value[0]

    def total(self, value: Any, state: Any) -> Any:
        state = [] if state is None else state
        state.append(value[1])
        if value[1] == "raise":
            raise ValueError("told to")
        if value[1] == "unfit":
            state.append(lambda: None)
        return (value[0], len(state)), None if value[1] == "end" else state

    def show(self, value: Any) -> Any:
        if value[0] == "last":
            raise ValueError("too late")
        return value


def run(calls: Calls, values: list[Any], keyed: KeyedTask, stages: tuple[str, ...] = ("total",)) -> Performed:
    return run_now(perform(calls, Task(0, 0, stages, CODEC.encode(values), {}, 0, len(values), keyed), CODEC))


def states(done: Performed) -> dict[Any, Any]:
    read: dict[Any, Any] = {}
    for change in done.keyed.changes["total"].values():
        assert not change.whole
        read |= pickle.loads(change.blob)
    return read


def test_a_result_tells_what_became_of_the_keys_it_touched() -> None:
    calls = Calls(Sums())
    done = run(calls, [("a", 1), ("b", 1), ("a", 2)], KeyedTask(None, ALL))
    assert CODEC.decode(done.payload) == [("a", 1), ("b", 1), ("a", 2)]
    assert states(done) == {"a": [1, 2], "b": [1]}
    done = run(calls, [("b", "end"), ("c", 1)], KeyedTask())
    assert states(done) == {"b": None, "c": [1]}
    assert CODEC.decode(run(calls, [("b", 1), ("a", 3)], KeyedTask()).payload) == [("b", 1), ("a", 3)]


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        (("a", "raise"), "told to"),
        ((1.5, 1), "the key 1.5 is of type float"),
        (("last", 1), "too late"),
        (("b", "unfit"), "the state after total cannot be pickled"),
    ],
)
def test_a_task_that_fails_leaves_no_trace(bad: Any, sentence: str) -> None:
    calls, stages = Calls(Sums()), ("total", "show")
    run(calls, [("a", 1)], KeyedTask(None, ALL), stages)
    with pytest.raises(StageError, match=sentence):
        run(calls, [("a", 5), ("n", "end"), bad], KeyedTask(), stages)
    assert states(run(calls, [("a", 2), ("n", 1), ("b", 1)], KeyedTask(), stages)) == {"a": [1, 2], "n": [1], "b": [1]}


def test_what_was_kept_brings_the_states_back() -> None:
    calls, other = Calls(Sums()), Calls(Sums())
    blobs = [
        run(calls, [("a", each)], KeyedTask(None, {} if each else ALL)).keyed.changes["total"] for each in range(3)
    ]
    (partition,) = blobs[0]
    kept = {"total": {partition: tuple(change[partition].blob for change in blobs)}}
    done = run(other, [("a", 3)], KeyedTask(None, kept, {"total": bytes([partition])}))
    change = done.keyed.changes["total"][partition]
    assert change == Change(True, change.blob)
    assert pickle.loads(change.blob) == {"a": [0, 1, 2, 3]}


def test_states_that_cannot_be_read_are_a_fault_of_each_task_that_needs_them() -> None:
    calls = Calls(Sums())
    kept = {"total": dict.fromkeys(range(PARTITIONS), (b"no pickle",))}
    for keyed in (KeyedTask(None, kept), KeyedTask()):
        with pytest.raises(StageError, match="the states that went in cannot be unpickled"):
            run(calls, [("a", 1)], keyed)


def test_a_piece_is_the_picked_values_of_its_items_in_whatever_parts_they_are() -> None:
    calls = Calls(Sums())
    values = [Outputs([("a", 1), ("b", 2)]), Outputs(), Outputs([("a", 3)])]
    parts = CODEC.encode([values[0][0], values[2][0]]), CODEC.encode([values[0][1]])
    mosaic = Mosaic((2, 0, 1), (b"\1\0\1", b"\0\1\0"), parts)
    assert CODEC.decode(mosaic) == values
    for payload in (mosaic, CODEC.encode(values)):
        task = Task(0, 0, ("total",), payload, {}, 0, 3, KeyedTask(b"\1\0\1", ALL))
        assert CODEC.decode(run_now(perform(calls, task, CODEC)).payload) == [("a", 1), ("a", 2)]


def test_whoever_makes_values_says_where_they_belong() -> None:
    calls = Calls(Sums())
    done = run(calls, [[("a", 1), ("b", 2)], [], (2.5, 1)], KeyedTask(), ("pair",))
    routes = done.keyed.routes
    assert routes is not None
    assert routes.counts == (2, 0, -1)
    assert routes.partitions == calls.keyed.of("total").routes([("a", 0), ("b", 0)]).partitions + b"\0"
    assert (routes.part(0, 1), routes.part(2, 3)) == (Routes(routes.partitions[:2], (2,)), Routes(b"\0", (-1,)))
