"""Running stages: values, states, timings, and the text of what a stage raised."""

import math
import sys
import threading
import time
from typing import Any

import pytest

from apps.contract import App
from compositions.model import Stage, StageKind
from runtime.dispatch.instructions import Task
from runtime.pools.calls import Calls
from runtime.pools.execute import StageError, run_now
from runtime.pools.local import CODEC
from runtime.pools.perform import perform, perform_alone
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


def test_a_stage_that_there_is_not_is_an_error_of_that_stage() -> None:
    with pytest.raises(StageError, match="absent") as caught:
        run_stages(Small(), ("absent",), [1], {})
    assert caught.value.stage == "absent"


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
