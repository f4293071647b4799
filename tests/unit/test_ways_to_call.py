"""Running stages, also those of 0 … n values, of whole bundles, and that wait: what comes of the items of one task."""

import asyncio
import math
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from apps.contract import App, Outputs
from compositions.errors import RecomposeError
from compositions.model import Stage, StageKind
from runtime.dispatch.instructions import Task
from runtime.pools.calls import Calls
from runtime.pools.execute import Executed, StageError, execute, run_now
from runtime.pools.local import CODEC
from runtime.pools.perform import perform, perform_alone
from runtime.transport.values import pickled
from tests.support.stages import run_stages


class Small(App):
    name = "small"
    stages = (
        *(Stage(name) for name in ("double", "burn", "rest", "broken", "leave", "picky", "stops")),
        Stage("count", StageKind.STATEFUL),
    )

    def double(self, value: int) -> int:
        return value * 2

    def count(self, value: int, state: int | None) -> tuple[int, int]:
        state = (state or 0) + 1
        return value + state, state

    def burn(self, value: int) -> int:
        end = time.thread_time() + 0.02
        while time.thread_time() < end:
            math.sqrt(2.0)
        return value

    def rest(self, value: Any) -> Any:
        return value.wait(0.02)

    def broken(self, value: int) -> float:
        return value / 0

    def leave(self, value: int) -> None:
        sys.exit(3)

    def picky(self, value: int) -> int:
        if value % 2 or value > 12:
            raise ValueError(f"{value} is odd, or too large")
        return value

    def stops(self, value: int) -> int:
        if value == 1:
            raise StopIteration
        return value


def test_a_computing_stage_has_cpu_time_up_to_its_wall_time() -> None:
    first, second = run_stages(Small(), ("burn", "double"), [1], {}).timings
    assert 0.02 <= first.cpu_s <= first.wall_s + 0.005  # the two clocks tick differently
    assert second.wall_s < first.wall_s


def test_a_waiting_stage_has_wall_time_and_little_cpu_time() -> None:
    (timing,) = run_stages(Small(), ("rest",), [threading.Event()], {}).timings
    assert timing.wall_s >= 0.02
    assert timing.cpu_s < 0.01


def test_a_raising_stage_is_named_and_its_traceback_starts_inside_it() -> None:
    (fault,) = run_stages(Small(), ("double", "broken", "double"), [1], {}).faults
    assert (fault.position, fault.stage) == (0, "broken")
    assert "return value / 0" in fault.error
    assert fault.error.endswith("ZeroDivisionError: division by zero")
    assert "pools/execute.py" not in fault.error


@pytest.mark.parametrize(("stage", "value", "error"), [("leave", 0, "SystemExit"), ("stops", 1, "StopIteration")])
def test_what_ends_a_loop_or_the_interpreter_is_a_fault_of_its_item(stage: str, value: int, error: str) -> None:
    (fault,) = run_stages(Small(), (stage,), [value], {}).faults
    assert (fault.stage, error in fault.error) == (stage, True)


def test_of_several_items_each_has_its_own_fate() -> None:
    done = run_stages(Small(), ("picky", "double", "picky"), [1, 2, 3, 10, 6, 5], {})
    assert [done.values[position] for position in (1, 4)] == [4, 12]
    assert [fault.position for fault in done.faults] == [0, 2, 5, 3]
    assert len(done.values) == 6
    assert [timing.stage for timing in done.timings] == ["picky", "double", "picky"]
    stopped = run_stages(Small(), ("stops", "double"), [0, 1, 2], {})
    assert (stopped.values[0], stopped.values[2], [fault.position for fault in stopped.faults]) == (0, 4, [1])


# --- a task of one item through plain stages, which has a short way of its own ----------------------------------------


def task(*stages: str, values: tuple[int, ...] = (5,)) -> Task:
    return Task(1, 0, stages, CODEC.encode(list(values)), {}, 0, len(values))


def test_one_item_through_plain_stages_comes_out_as_by_the_way_of_all_others() -> None:
    calls, given = Calls(Small()), task("double", "double")
    alone, others = perform_alone(calls, given.stages, given, CODEC), run_now(perform(calls, given, CODEC))
    payload, times_s = alone
    assert CODEC.decode(payload) == CODEC.decode(others.payload) == [20]
    assert len(times_s) == 2 * len(others.timings) == 4
    assert times_s[0] > 0


def test_what_is_not_plain_is_left_to_that_way() -> None:
    for given in (task("double", "count"), task("absent"), task("double", values=(1, 2))):
        assert perform_alone(Calls(Small()), given.stages, given, CODEC) is None, given.stages


def test_a_plain_stage_that_raises_is_named_and_its_traceback_begins_in_it() -> None:
    given = task("broken")
    with pytest.raises(StageError, match="division by zero") as caught:
        perform_alone(Calls(Small()), given.stages, given, CODEC)
    assert (caught.value.stage, caught.value.position) == ("broken", 0)
    assert "pools/perform.py" not in caught.value.traceback_text


class Many(App):
    name = "many"
    stages = (
        *map(Stage, ("up_to", "odd", "twice", "picky")),
        Stage("sum", StageKind.STATEFUL),
        *(Stage(name, batch=True) for name in ("all", "few", "given")),
        Stage("ranks", StageKind.STATEFUL, batch=True),
        Stage("dear", batch=True, columns=(("id", "int64"), ("price", "float64"))),
        Stage("fetch", concurrency=3),
    )

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[int] = []
        self.inside = self.most = 0
        self.full = asyncio.Event()

    def up_to(self, value: int) -> Iterator[int]:
        yield from range(value)

    def odd(self, value: int) -> Any:
        return value if value % 2 else Outputs()

    def twice(self, value: int) -> Outputs:
        return Outputs([value, Outputs([value])])

    def picky(self, value: int) -> int:
        if value == 3:
            raise ValueError("not three")
        return value

    def sum(self, value: int, state: int | None) -> tuple[Any, int]:
        state = (state or 0) + value
        return Outputs([value, state]), state

    def all(self, values: list[int]) -> list[Any]:
        self.seen.append(len(values))
        if 3 in values:
            raise ValueError("three is among them")
        return [Outputs() if value == 1 else value * 10 for value in values]

    def few(self, values: list[int]) -> list[int]:
        return values[:-1]

    def given(self, values: list[Any]) -> Any:
        return values[0]

    def ranks(self, values: list[int], state: int | None) -> tuple[list[int], int]:
        state = state or 0
        return [state + place for place in range(len(values))], state + len(values)

    def dear(self, batch: pa.RecordBatch) -> Any:
        assert batch.schema == pa.schema([("id", pa.int64()), ("price", pa.float64())])
        return batch.append_column("dear", pa.array([price > 10 for price in batch["price"].to_pylist()]))

    async def fetch(self, value: int) -> Any:
        self.inside += 1
        self.most = max(self.most, self.inside)
        if self.inside == 3:
            self.full.set()
        await self.full.wait()
        self.inside -= 1
        if value == 3:
            raise ValueError("not three")
        return Outputs([value] * value)


def ran(*stages: str, values: list[Any], app: Many | None = None, **states: Any) -> Executed:
    return run_stages(app or Many(), stages, values, states)


def test_the_next_stage_gets_each_value_and_what_it_gives_is_never_nested() -> None:
    done = ran("up_to", "odd", "twice", values=[0, 1, 4])
    assert done.values == [[], [], [1, 1, 3, 3]]
    assert [type(value) for value in done.values] == [Outputs] * 3
    assert all(type(each) is int for each in done.values[2])
    assert ran("twice", "sum", values=[5]).values == [[5, 5, 5, 10]]


def test_a_fault_of_one_of_its_values_is_a_fault_of_the_item() -> None:
    done = ran("up_to", "picky", "picky", values=[2, 5, 1])
    assert [(fault.position, fault.stage) for fault in done.faults] == [(1, "picky")]
    assert (done.values[0], done.values[2]) == ([0, 1], [0])
    assert "calls.py" not in done.faults[0].error


def test_where_a_state_is_kept_the_position_is_that_of_the_item() -> None:
    with pytest.raises(StageError) as caught:
        ran("up_to", "picky", "sum", values=[2, 1, 5])
    assert (caught.value.stage, caught.value.position) == ("picky", 2)


@pytest.mark.parametrize(
    ("counts", "values", "calls"), [([0, 2, 3, 1], [[], [0], [0, 20], [0]], [6]), ([0, 0], [[], []], [])]
)
def test_a_batch_stage_gets_values_of_items_together(counts: list[int], values: list[Any], calls: list[int]) -> None:
    app = Many()
    assert ran("up_to", "all", values=counts, app=app).values == values
    assert app.seen == calls, "not called where nothing is left for it"


def test_a_stateful_batch_stage_gets_and_leaves_a_state() -> None:
    done = ran("ranks", values=[7, 7, 7], ranks=5)
    assert (done.values, done.states) == ([5, 6, 7], {"ranks": 8})
    empty = ran("up_to", "ranks", values=[0], ranks=5)
    assert (empty.values, empty.states) == ([[]], {"ranks": 5})


def test_a_batch_stage_that_raises_leaves_it_open_which_of_several_is_at_fault() -> None:
    with pytest.raises(StageError, match="three is among them") as caught:
        ran("all", values=[2, 3])
    assert caught.value.position is None
    assert "calls.py" not in caught.value.traceback_text
    (fault,) = ran("all", values=[3]).faults
    assert (fault.position, fault.stage) == (0, "all")


@pytest.mark.parametrize("values", [[1], [1, 2, 3]])
def test_a_batch_stage_that_returns_too_few_is_told_so(values: list[int]) -> None:
    sentence = f"batch stage 'few' returned {len(values) - 1} values for {len(values)}; it must return one for each"
    try:
        text = ran("few", values=values).faults[0].error
    except StageError as error:
        text = error.traceback_text
    assert sentence in text


@pytest.mark.parametrize("results", [None, "ab", b"ab", {"a": 1, "b": 2}, 2])
def test_what_a_batch_stage_returns_must_be_several_values(results: Any) -> None:
    with pytest.raises(StageError) as caught:
        ran("given", values=[results, results])
    assert f"batch stage 'given' returned {results!r} for 2; it must return one for each" in caught.value.traceback_text


def test_declared_columns_come_as_a_record_batch_and_rows_go_on_as_dicts() -> None:
    done = ran("dear", values=[{"id": 1, "price": 9.0}, Outputs([{"id": 2, "price": 11.0}])])
    assert done.values == [{"id": 1, "price": 9.0, "dear": False}, [{"id": 2, "price": 11.0, "dear": True}]]


def test_calls_that_wait_overlap_up_to_the_concurrency() -> None:
    async def run() -> tuple[Executed, int]:
        app = Many()
        return await execute(Calls(app), ("fetch",), [1, 2, 3, 0, Outputs([1, 1])], {}), app.most

    done, most = asyncio.run(run())
    assert most == 3
    assert [fault.position for fault in done.faults] == [2]
    assert [done.values[at] for at in (0, 1, 3, 4)] == [[1], [2, 2], [], [1, 1]]
    (timing,) = done.timings
    assert timing.cpu_s < timing.wall_s


@pytest.mark.parametrize(
    ("value", "seen"),
    [("3", False), ("Outputs([1])", True), ("pickle.loads(PICKLED)", True), ("unpickled(FRAME, [])[0]", True)],
)
def test_the_first_outputs_of_a_process_are_seen_however_they_came(value: str, seen: bool) -> None:
    """In a process of its own: in this one there have been some."""
    frames = f"PICKLED, FRAME = {pickle.dumps(Outputs([1]))!r}, {pickled([Outputs([1]), {2}])!r}"
    imports = "import pickle; from apps.contract import Outputs; from runtime.transport.values import unpickled"
    asked = f"from runtime.transport.values import any_outputs; print(any_outputs([3, {value}]))"
    told = subprocess.check_output([sys.executable, "-c", f"{imports}; {frames}; {asked}"], text=True)
    assert told.split() == [str(seen)]


class Odd(App):
    """Stages that return what they must not, and one whose own work is cancelled."""

    name = "odd"
    stages = (
        Stage("total", StageKind.PARTITIONED),
        Stage("totals", StageKind.PARTITIONED, batch=True),
        Stage("count", StageKind.STATEFUL),
        Stage("counts", StageKind.STATEFUL, batch=True),
        Stage("own", StageKind.STATEFUL),
        Stage("fetch", concurrency=2),
    )

    def total_key(self, value: Any) -> int:
        return 0

    totals_key = total_key

    def count(self, value: Any, state: Any) -> Any:
        return value

    total = totals = counts = count

    def own(self, value: Any, state: Any) -> Any:
        first, second = value
        return first, second

    async def fetch(self, value: int) -> int:
        if value == 1:
            waits = asyncio.create_task(asyncio.sleep(60))
            await asyncio.sleep(0)
            waits.cancel()
            await waits
        return value


@pytest.mark.parametrize(
    ("stage", "returned", "sentence"),
    [
        ("count", None, "must return (value, state); what it returned is no pair (cannot unpack non-iterable None"),
        ("count", (1, 2, 3), "count must return (value, state); what it returned is no pair (too many values"),
        ("counts", 5, "must return (values, state); what it returned is no pair (not enough values"),
        ("own", 5, "TypeError: cannot unpack non-iterable int object"),
    ],
)
def test_what_is_no_pair_is_a_sentence(stage: str, returned: Any, sentence: str) -> None:
    """What a stage itself takes apart stays as it is."""
    with pytest.raises(StageError) as refused:
        run_stages(Odd(), (stage,), [returned], {})
    assert sentence in refused.value.traceback_text.splitlines()[-1]


def begun(app: Odd, stage: str) -> Any:
    """What runs a stage by key, with no state of any partition."""
    keyed = Calls(app).keyed.of(stage)
    keyed.begin({partition: {} for partition in range(64)}, None)
    keyed.load()
    return keyed


@pytest.mark.parametrize(
    ("stage", "returned", "sentence"),
    [
        ("total", 5, "total must return (value, state); what it returned is no pair (cannot unpack"),
        ("totals", 5, "totals must return (values, states), states a dict with the key of each; what it returned"),
        ("totals", ([1], None), "states a dict with the key of each; instead of states it returned None"),
    ],
)
def test_what_is_no_pair_of_a_stage_by_key_is_a_sentence(stage: str, returned: Any, sentence: str) -> None:
    app = Odd()
    app.total = app.totals = lambda *_: returned  # type: ignore[method-assign]
    app.total.__name__ = stage
    keyed = begun(app, stage)
    if stage == "total":
        _, error = keyed.run([1])
    else:
        with pytest.raises(RecomposeError) as refused:
            keyed.run_together([1], app.totals)
        error = refused.value
    assert sentence in str(error)


def test_what_an_error_of_a_batch_stage_by_key_was_raised_from_is_told() -> None:
    def totals(values: list[Any], states: dict[Any, Any]) -> Any:
        try:
            return states["absent"]
        except KeyError as error:
            raise ValueError("of no use") from error

    with pytest.raises(ValueError, match="of no use") as raised:
        begun(Odd(), "totals").run_together([1], totals)
    assert repr(raised.value.__cause__) == "KeyError('absent')"


def test_what_is_cancelled_in_a_stage_that_waits_is_a_fault_of_its_item_alone() -> None:
    done = asyncio.run(execute(Calls(Odd()), ("fetch",), [0, 1, 2], {}))
    assert done.values == [0, None, 2]
    (fault,) = done.faults
    assert (fault.position, fault.stage) == (1, "fetch")
    assert "CancelledError" in fault.error
