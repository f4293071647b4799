"""The states of keys in a worker: what a task changes is told when it is over, and undone when it fails."""

import asyncio
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.contract import App, Outputs
from compositions.model import Stage, StageKind
from recompose import pipeline
from runtime.dispatch.instructions import KeyedTask, Task
from runtime.dispatch.keys import Mosaic, Routes
from runtime.pools.calls import Calls
from runtime.pools.execute import StageError, run_now
from runtime.pools.keyed import routing
from runtime.pools.local import CODEC
from runtime.pools.perform import Performed, perform
from runtime.transport.values import Broken

PARTITIONS = 4
ALL = {"total": {key: {} for key in range(PARTITIONS)}}


def by_key(name: str, **more: Any) -> Stage:
    return Stage(name, StageKind.PARTITIONED, partitions=PARTITIONS, **more)


class Sums(App):
    """Lists what came of a key; the list is changed in place."""

    name = "sums"
    stages = (Stage("pair"), by_key("total"), Stage("show"))

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


@pytest.fixture
def calls() -> Calls:
    return Calls(Sums())


def run(
    calls: Calls, values: list[Any], keyed: KeyedTask, stages: tuple[str, ...] = ("total",), task_id: int = 0
) -> Performed:
    return run_now(perform(calls, Task(task_id, 0, stages, CODEC.encode(values), {}, 0, len(values), keyed), CODEC))


def states(done: Performed) -> dict[Any, Any]:
    read: dict[Any, Any] = {}
    for made in done.keyed.changes["total"].values():
        read |= {key: None if state is None else pickle.loads(state) for key, state in made.items()}
    return read


def test_a_result_tells_what_became_of_the_keys_it_touched(calls: Calls) -> None:
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
        (("b", "unfit"), r"the state after total cannot be pickled \(.*\); a state must be plain data"),
    ],
)
def test_a_task_that_fails_leaves_no_trace(bad: Any, sentence: str) -> None:
    calls, stages = Calls(Sums()), ("total", "show")
    run(calls, [("a", 1)], KeyedTask(None, ALL), stages)
    with pytest.raises(StageError, match=sentence):
        run(calls, [("a", 5), ("n", "end"), bad], KeyedTask(), stages)
    assert states(run(calls, [("a", 2), ("n", 1), ("b", 1)], KeyedTask(), stages)) == {"a": [1, 2], "n": [1], "b": [1]}


def test_a_piece_is_the_picked_values_of_its_items_in_whatever_parts_they_are(calls: Calls) -> None:
    values = [Outputs([("a", 1), ("b", 2)]), Outputs(), Outputs([("a", 3)])]
    parts = CODEC.encode([values[0][0], values[2][0]]), CODEC.encode([values[0][1]])
    mosaic = Mosaic((2, 0, 1), (b"\1\0\1", b"\0\1\0"), parts)
    assert CODEC.decode(mosaic) == values
    for payload in (mosaic, CODEC.encode(values)):
        task = Task(0, 0, ("total",), payload, {}, 0, 3, KeyedTask(b"\1\0\1", ALL))
        assert CODEC.decode(run_now(perform(calls, task, CODEC)).payload) == [("a", 1), ("a", 2)]


def test_whoever_makes_values_says_where_they_belong(calls: Calls) -> None:
    done = run(calls, [[("a", 1), ("b", 2)], [], (2.5, 1)], KeyedTask(), ("pair",))
    routes: Any = done.keyed.routes
    assert routes.counts == (2, 0, -1)
    assert routes.partitions == calls.keyed.of("total").routes([("a", 0), ("b", 0)]).partitions + b"\0"
    assert (routes.part(0, 1), routes.part(2, 3)) == (Routes(routes.partitions[:2], (2,)), Routes(b"\0", (-1,)))


class Named(App):
    """Its key needs what ``setup`` made, which the contract forbids."""

    name = "named"
    stages = (by_key("total"),)

    def setup(self) -> None:
        self.names = {"x": "k1", "y": "k2"}

    def total_key(self, value: Any) -> Any:
        return self.names[value]

    def total(self, value: Any, state: Any) -> Any:
        return value, (state or 0) + 1


@pytest.mark.parametrize("lent", [(0,), range(PARTITIONS)])
def test_a_key_that_is_another_one_at_the_stage_is_a_fault_of_its_value(lent: Any) -> None:
    runner, app = Named(), Named()
    app.setup()
    calls = Calls(app)
    routes = routing(runner, CODEC.encode)(["x", "y"]).routes
    assert calls.keyed.of("total").routes(["x", "y"]).partitions != routes.partitions
    keyed = KeyedTask(None, {"total": {key: {} for key in lent}}, routes)
    with pytest.raises(StageError, match="the key 'k2' of this value differs from the key computed") as caught:
        run(calls, ["x", "y"], keyed)
    assert caught.value.position == 1
    assert states(run(calls, ["x", "y"], KeyedTask(b"\1\0", {}, routes))) == {"k1": 1}


def test_who_was_told_to_forget_a_partition_takes_no_values_of_it(calls: Calls) -> None:
    stage = calls.keyed.of("total")
    first, second = ("a", 1), next((key, 1) for key in "bcdefgh" if key_in(stage, key) != key_in(stage, "a"))
    run(calls, [first, second], KeyedTask(None, ALL))
    told = {"total": {key_in(stage, second[0]): {}}}
    run(calls, [first], KeyedTask(None, told, stage.routes([first])))
    with pytest.raises(StageError, match="differs from the key computed"):
        run(calls, [second], KeyedTask())


def test_states_of_one_stage_that_cannot_be_read_leave_those_of_the_next_as_they_are() -> None:
    def counts(value: Any, state: Any) -> Any:
        return (state or 0) + 1, (state or 0) + 1

    twice = pipeline((by_key("once"), counts, lambda _: 0), (by_key("again"), counts, lambda _: 0))
    calls = Calls(twice())
    every: dict[int, Any] = {key: {} for key in range(PARTITIONS)}
    bad = {key: {"a": b"no pickle"} for key in range(PARTITIONS)}

    def again(**states: Any) -> Any:
        return CODEC.decode(run(calls, [1], KeyedTask(None, states), ("once", "again")).payload)

    def is_refused(**states: Any) -> None:
        with pytest.raises(StageError, match="the states that went in cannot be unpickled"):
            again(**states)

    again(once=every, again=every)
    is_refused(once=bad)
    is_refused(once=bad, again=every)
    assert again(once=every) == [1]
    is_refused(once=bad)
    is_refused()
    assert again(once=every) == [2]


class Unreadable:
    def __reduce__(self) -> tuple[Callable[[str], Any], tuple[str]]:
        return open, ("/no/such/file",)


def test_an_item_that_is_broken_stands_for_all_its_values_and_its_neighbours_are_where_they_were() -> None:
    calls, routes = Calls(Sums()), Routes(bytes(4), (2, -1, -1))
    payload = CODEC.encode([Outputs([("a", 1), Unreadable()]), ("b", 2), ("c", 3)])
    for mask, key in ((b"\0\0\1\0", "b"), (b"\0\0\0\1", "c")):
        own = Routes(bytes([0, 0, *(key_in(calls.keyed.of("total"), each) for each in "bc")]), routes.counts)
        task = Task(0, 0, ("total",), payload, {}, 0, 3, KeyedTask(mask, ALL, own))
        assert CODEC.decode(run_now(perform(calls, task, CODEC)).payload) == [(key, 1)]
    task = Task(0, 0, ("total",), payload, {}, 0, 3, KeyedTask(b"\1\0\0\0", ALL, routes))
    with pytest.raises(StageError, match="the value that went in cannot be unpickled"):
        run_now(perform(calls, task, CODEC))


def test_an_item_in_parts_of_which_one_value_is_broken_is_broken() -> None:
    parts = CODEC.encode([("a", 1), ("c", 3)]), CODEC.encode([Unreadable()])
    first, second = CODEC.decode(Mosaic((2, 1), (b"\1\0\1", b"\0\1\0"), parts))
    assert isinstance(first, Broken)
    assert "/no/such/file" in first.why
    assert second == Outputs([("c", 3)])


def key_in(stage: Any, key: str) -> int:
    return stage.routes([(key, 1)]).partitions[0]


class Together(App):
    """Running sums, of all values of a task in one call; each state is a list that is changed in place."""

    name = "together"
    stages = (by_key("total", batch=True),)

    def total_key(self, value: Any) -> Any:
        return value[0]

    def total(self, values: Any, states: Any) -> Any:
        out = []
        for key, number in values:
            state = states[key] = states[key] or [0]
            state[0] += number
            if number == 13:
                raise ValueError("thirteen")
            if number == 99:
                states["stranger"] = 1
            out.append((key, state[0]))
        return out, {key: None if state == [0] else state for key, state in states.items()}


@given(
    st.lists(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from([-1, 0, 1, 2, 13])), min_size=1, max_size=9))
)
def test_a_call_for_all_values_is_a_plain_loop_or_leaves_no_trace(bundles: list[list[tuple[str, int]]]) -> None:
    calls, sums = Calls(Together()), dict[str, int]()
    for number, bundle in enumerate(bundles):
        keyed = KeyedTask() if number else KeyedTask(None, ALL)
        if any(value == 13 for _, value in bundle):
            with pytest.raises(StageError, match="thirteen") as caught:
                run(calls, bundle, keyed)
            assert caught.value.position == (0 if len(bundle) == 1 else None)
            continue
        expected = []
        for key, value in bundle:
            sums[key] = sums.get(key, 0) + value
            expected.append((key, sums[key]))
        done = run(calls, bundle, keyed)
        assert CODEC.decode(done.payload) == expected
        assert states(done) == {key: [sums[key]] if sums[key] else None for key, _ in bundle}


def test_what_was_sent_behind_a_task_that_failed_is_not_run_and_brings_its_states_all_the_same(calls: Calls) -> None:
    made = run(Calls(Sums()), [("b", 1)], KeyedTask(None, ALL)).keyed.changes["total"]
    run(calls, [("a", 1)], KeyedTask(None, ALL))
    with pytest.raises(StageError, match="told to"):
        run(calls, [("a", 2), ("a", "raise")], KeyedTask(), task_id=5)
    for task_id, kept in ((6, {"total": made}), (7, {})):
        with pytest.raises(StageError, match="and this task needs its states") as caught:
            run(calls, [("a", 3)], KeyedTask(None, kept, None, task_id - 1), task_id=task_id)
        assert caught.value.position is None
    assert states(run(calls, [("a", 3), ("b", 2)], KeyedTask())) == {"a": [1, 3], "b": [1, 2]}
    run(calls, [("a", 4)], KeyedTask(), task_id=9)
    assert states(run(calls, [("a", 5)], KeyedTask(None, {}, None, 9))) == {"a": [1, 3, 4, 5]}


def test_while_a_task_with_states_waits_the_next_one_does_not_begin() -> None:
    def total(value: int, state: int | None) -> tuple[int, int]:
        return (state or 0) + value, (state or 0) + value

    async def wait(value: int) -> int:
        await asyncio.sleep(0)
        return value

    calls = Calls(pipeline((by_key("total"), total, lambda _: 0), wait)())

    async def both() -> list[Performed]:
        keyed = [KeyedTask(None, ALL), KeyedTask(None, {}, None, 0)]
        tasks = [Task(at, at, ("total", "wait"), CODEC.encode([1, 2]), {}, 0, 2, each) for at, each in enumerate(keyed)]
        return await asyncio.gather(*(perform(calls, each, CODEC) for each in tasks))

    assert [CODEC.decode(each.payload) for each in asyncio.run(both())] == [[1, 3], [4, 6]]


def test_a_call_for_all_values_must_give_one_for_each_and_states_of_their_keys() -> None:
    calls = Calls(Together())
    run(calls, [("a", 1)], KeyedTask(None, ALL))
    with pytest.raises(StageError, match="the stage returned a state of key 'stranger', but no value has this key"):
        run(calls, [("a", 99), ("b", 1)], KeyedTask())
    with pytest.raises(StageError, match=r"the key 1\.5 is of type float") as caught:
        run(calls, [("a", 1), (1.5, 1)], KeyedTask())
    assert caught.value.position == 1
    assert CODEC.decode(run(calls, [("a", 1), ("b", 1)], KeyedTask()).payload) == [("a", 2), ("b", 1)]


class Lazy(Together):
    """A generator of results, which makes the states as it goes."""

    def total(self, values: Any, states: Any) -> Any:
        def results() -> Any:
            for key, number in values:
                states[key] = (states[key] or 0) + number
                yield key, states[key]

        return results(), states


def test_results_that_are_made_one_by_one_are_made_before_the_states_are_kept() -> None:
    calls = Calls(Lazy())
    run(calls, [("a", 1), ("a", 1)], KeyedTask(None, ALL))
    done = run(calls, [("a", 1)], KeyedTask())
    assert (CODEC.decode(done.payload), states(done)) == ([("a", 3)], {"a": 3})


def test_a_stage_by_key_may_get_columns_and_states_that_it_does_not_mention_stay() -> None:
    def total(batch: Any, states: Any) -> Any:
        numbers: dict[str, int] = {}
        for key, number in zip(batch["key"].to_pylist(), batch["n"].to_pylist(), strict=True):
            numbers[key] = numbers.get(key, 0) + number
        new = {key: (states[key] or 0) + number for key, number in numbers.items() if number}
        return [new.get(key, states[key]) for key in batch["key"].to_pylist()], new

    stage = by_key("total", batch=True, columns=(("key", "string"), ("n", "int64")))
    calls = Calls(pipeline((stage, total, lambda value: value["key"]))())
    rows = [{"key": "a", "n": 1}, {"key": "b", "n": 2}, {"key": "a", "n": 3}]
    done = run(calls, rows, KeyedTask(None, ALL))
    assert CODEC.decode(done.payload) == [4, 2, 4]
    done = run(calls, [{"key": "a", "n": 0}, {"key": "b", "n": 5}], KeyedTask())
    assert (CODEC.decode(done.payload), states(done)) == ([4, 7], {"a": 4, "b": 7})
