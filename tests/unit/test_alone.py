"""A task of one item through plain stages, and what is left to the way of all others."""

from typing import Any

import pytest

from apps.contract import App, Outputs
from compositions.model import Stage, StageKind
from profiler.snapshot import timings_of
from runtime.dispatch.instructions import Task
from runtime.pools.calls import Calls
from runtime.pools.execute import StageError, run_now
from runtime.pools.local import CODEC
from runtime.pools.perform import perform, perform_alone


class Some(App):
    name = "some"
    stages = (
        Stage("double"),
        Stage("picky"),
        Stage("several"),
        Stage("yields"),
        Stage("waits"),
        Stage("all", batch=True),
        Stage("counts", StageKind.STATEFUL),
        Stage("unfit"),
    )

    def __init__(self) -> None:
        super().__init__()
        self.called = 0

    def double(self, value: int) -> int:
        self.called += 1
        return value * 2

    def picky(self, value: int) -> int:
        raise ValueError(f"{value} is not wanted")

    def several(self, value: int) -> Outputs:
        return Outputs([value, value])

    def yields(self, value: int) -> Any:
        yield value

    async def waits(self, value: int) -> int:
        return value

    def all(self, values: list[int]) -> list[int]:
        return values

    def counts(self, value: int, state: int | None) -> tuple[int, int]:
        return value, (state or 0) + 1

    def unfit(self, value: int) -> Any:
        return lambda: value


def task(*stages: str, values: tuple[Any, ...] = (5,), states: dict[str, Any] | None = None) -> Task:
    return Task(1, 0, stages, CODEC.encode(list(values)), states or {}, 0, len(values))


def alone_at(calls: Calls, given: Task) -> tuple[Any, list[float]] | None:
    return perform_alone(calls, given.stages, given, CODEC)


def test_one_item_through_plain_stages_comes_out_as_by_the_way_of_all_others() -> None:
    calls, given = Calls(Some()), task("double", "double")
    alone, others = alone_at(calls, given), run_now(perform(calls, given, CODEC))
    assert alone is not None
    payload, times_s = alone
    assert CODEC.decode(payload) == CODEC.decode(others.payload) == [20]
    timings = timings_of(given.stages, times_s)
    assert [timing.stage for timing in timings] == [timing.stage for timing in others.timings] == ["double", "double"]
    assert all(timing.wall_s > 0 for timing in timings)
    assert (others.states, others.faults) == ({}, ())


def test_of_several_only_the_part_that_is_meant_is_run() -> None:
    part = task("double", values=(1, 2, 3))._replace(start=1, items=1)
    alone = alone_at(Calls(Some()), part)
    assert alone is not None
    assert CODEC.decode(alone[0]) == [4]


def test_a_stage_that_raises_is_named_and_its_traceback_begins_in_it() -> None:
    with pytest.raises(StageError, match="5 is not wanted") as caught:
        alone_at(Calls(Some()), task("picky"))
    assert (caught.value.stage, caught.value.position) == ("picky", 0)
    assert "alone.py" not in caught.value.traceback_text.replace("test_alone.py", "")


@pytest.mark.parametrize("stage", ["yields", "waits", "all", "counts", "absent", "several", "unfit"])
def test_what_is_not_plain_is_left_to_the_way_of_all_others(stage: str) -> None:
    assert alone_at(Calls(Some()), task("double", stage)) is None


def test_several_items_and_what_needs_a_state_are_left_to_it_too() -> None:
    calls = Calls(Some())
    assert alone_at(calls, task("double", values=(1, 2))) is None
    assert alone_at(calls, task("double", states={"counts": None})) is None
    assert alone_at(calls, task("double", values=(Outputs([1]),))) is None


def test_a_stage_that_was_seen_to_give_several_values_is_not_called_twice_again() -> None:
    app = Some()
    calls = Calls(app)
    for _ in range(10):
        assert alone_at(calls, task("double", "several")) is None
    assert app.called == 1
