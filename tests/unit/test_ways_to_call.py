"""Stages of 0 … n values, of whole bundles, and that wait: what comes of the items of one task."""

import asyncio
import pickle
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from apps.contract import App, Outputs
from compositions.errors import RecomposeError
from compositions.model import Stage, StageKind
from runtime.pools.calls import Calls
from runtime.pools.execute import Executed, StageError, execute, run_stages
from runtime.transport.values import pickled


class Many(App):
    name = "many"
    stages = (
        Stage("up_to"),
        Stage("picky"),
        Stage("all", batch=True),
        Stage("few", batch=True),
        Stage("given", batch=True),
        Stage("dear", batch=True, columns=(("id", "int64"), ("price", "float64"))),
    )

    def up_to(self, value: int) -> Iterator[int]:
        yield from range(value)

    def picky(self, value: int) -> int:
        if value == 3:
            raise ValueError("not three")
        return value

    def all(self, values: list[int]) -> list[Any]:
        if 3 in values:
            raise ValueError("three is among them")
        return values

    def few(self, values: list[int]) -> list[int]:
        return values[:-1]

    def given(self, values: list[Any]) -> Any:
        return values[0]

    def dear(self, batch: pa.RecordBatch) -> Any:
        assert batch.schema == pa.schema([("id", pa.int64()), ("price", pa.float64())])
        return batch.append_column("dear", pa.array([price > 10 for price in batch["price"].to_pylist()]))


def ran(*stages: str, values: list[Any]) -> Executed:
    return run_stages(Many(), stages, values, {})


def test_a_fault_of_one_of_its_values_is_a_fault_of_the_item() -> None:
    done = ran("up_to", "picky", "picky", values=[2, 5, 1])
    assert [(fault.position, fault.stage) for fault in done.faults] == [(1, "picky")]
    assert (done.values[0], done.values[2]) == ([0, 1], [0])
    assert "calls.py" not in done.faults[0].error


def test_a_batch_stage_that_raises_on_several_leaves_it_open_which_is_at_fault() -> None:
    with pytest.raises(StageError, match="three is among them") as caught:
        ran("all", values=[2, 3])
    assert caught.value.position is None
    assert "calls.py" not in caught.value.traceback_text


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


@pytest.mark.parametrize(
    ("value", "seen"),
    [("3", False), ("Outputs([1])", True), ("pickle.loads(PICKLED)", True), ("unpickled(FRAME, [])[0]", True)],
)
def test_the_first_outputs_of_a_process_are_seen_however_they_came(value: str, seen: bool) -> None:
    """In a process of its own: in this one there have been some."""
    frames = f"PICKLED, FRAME = {pickle.dumps(Outputs([1]))!r}, {pickled([Outputs([1]), {2}])!r}"
    imports = "import pickle; from apps.contract import Outputs; from runtime.transport.values import unpickled"
    asked = f"from runtime.transport.values import any_outputs; print(any_outputs([3, {value}]))"
    done = subprocess.run(
        [sys.executable, "-c", f"{imports}; {frames}; {asked}"], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [str(seen)]


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

    def total(self, value: Any, state: Any) -> Any:
        return value

    totals = total

    def count(self, value: Any, state: Any) -> Any:
        return value

    def counts(self, value: Any, state: Any) -> Any:
        return value

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
        ("count", 5, "count must return (value, state); what it returned is no pair (cannot unpack non-iterable int"),
        (
            "count",
            None,
            "count must return (value, state); what it returned is no pair (cannot unpack non-iterable None",
        ),
        ("count", (1, 2, 3), "count must return (value, state); what it returned is no pair (too many values"),
        ("counts", 5, "counts must return (values, state); what it returned is no pair (not enough values"),
        ("own", 5, "TypeError: cannot unpack non-iterable int object"),
    ],
)
def test_what_is_no_pair_is_a_sentence(stage: str, returned: Any, sentence: str) -> None:
    """What a stage itself takes apart stays as it is."""
    with pytest.raises(StageError) as refused:
        run_stages(Odd(), (stage,), [returned], {})
    assert sentence in refused.value.traceback_text.splitlines()[-1]


@pytest.mark.parametrize(
    ("stage", "returned", "sentence"),
    [
        ("total", 5, "total must return (value, state); what it returned is no pair (cannot unpack"),
        ("totals", 5, "totals must return (values, states), states a dict with the key of each; what it returned"),
        ("totals", ([1], None), "states a dict with the key of each; its states are None"),
    ],
)
def test_what_is_no_pair_of_a_stage_by_key_is_a_sentence(stage: str, returned: Any, sentence: str) -> None:
    app = Odd()
    app.total = app.totals = lambda *_: returned  # type: ignore[method-assign]
    app.total.__name__ = stage
    keyed = Calls(app).keyed.of(stage)
    keyed.begin({partition: {} for partition in range(64)}, None)
    keyed.load()
    values = [Outputs]
    if stage == "total":
        _, error = keyed.run(values)
    else:
        with pytest.raises(RecomposeError) as refused:
            keyed.run_together(values, app.totals)
        error = refused.value
    assert sentence in str(error)


def test_what_is_cancelled_in_a_stage_that_waits_is_a_fault_of_its_item_alone() -> None:
    done = asyncio.run(execute(Calls(Odd()), ("fetch",), [0, 1, 2], {}))
    assert done.values == [0, None, 2]
    (fault,) = done.faults
    assert (fault.position, fault.stage) == (1, "fetch")
    assert "CancelledError" in fault.error
