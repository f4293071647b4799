"""Running stages: values, states, timings, and the text of what a stage raised."""

from __future__ import annotations

import math
import sys
import threading
import time
from typing import Any

import pytest

from apps.contract import App
from compositions.model import Stage, StageKind
from runtime.pools.execute import StageError, run_stages


class Small(App):
    name = "small"
    stages = (
        Stage("double"),
        Stage("count", StageKind.STATEFUL),
        Stage("burn"),
        Stage("rest"),
        Stage("broken"),
        Stage("leave"),
        Stage("lonely", StageKind.STATEFUL),
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

    def lonely(self, value: int, state: Any) -> int:
        return value


def test_values_pass_from_stage_to_stage_and_states_come_back() -> None:
    done = run_stages(Small(), ("double", "count", "double"), 5, {"count": 7})
    assert done.value == (5 * 2 + 8) * 2
    assert done.states == {"count": 8}
    assert [timing.stage for timing in done.timings] == ["double", "count", "double"]


def test_the_first_item_of_a_stateful_stage_sees_none() -> None:
    assert run_stages(Small(), ("count",), 0, {}).states == {"count": 1}


def test_an_instance_may_have_stages_of_its_own() -> None:
    app = Small()
    app.stages = (Stage("double", StageKind.STATEFUL),)  # type: ignore[misc]
    with pytest.raises(StageError, match="positional argument"):
        run_stages(app, ("double",), 1, {})
    assert run_stages(Small(), ("double",), 1, {}).value == 2


def test_given_states_are_left_alone() -> None:
    given = {"count": 7}
    run_stages(Small(), ("count",), 0, given)
    assert given == {"count": 7}


def test_a_computing_stage_has_cpu_time_up_to_its_wall_time() -> None:
    first, second = run_stages(Small(), ("burn", "double"), 1, {}).timings
    assert 0.02 <= first.cpu_s <= first.wall_s + 0.005  # the two clocks tick differently
    assert second.wall_s < first.wall_s


def test_a_waiting_stage_has_wall_time_and_little_cpu_time() -> None:
    (timing,) = run_stages(Small(), ("rest",), threading.Event(), {}).timings
    assert timing.wall_s >= 0.02
    assert timing.cpu_s < 0.01


def test_a_raising_stage_is_named_and_its_traceback_starts_inside_it() -> None:
    with pytest.raises(StageError) as caught:
        run_stages(Small(), ("double", "broken", "double"), 1, {})
    assert caught.value.stage == "broken"
    assert "return value / 0" in caught.value.traceback_text
    assert caught.value.traceback_text.endswith("ZeroDivisionError: division by zero")
    assert "run_stages" not in caught.value.traceback_text


@pytest.mark.parametrize(("stage", "text"), [("leave", "SystemExit"), ("lonely", "TypeError"), ("absent", "absent")])
def test_every_way_to_fail_is_an_error_of_the_stage(stage: str, text: str) -> None:
    with pytest.raises(StageError, match=text) as caught:
        run_stages(Small(), (stage,), 1, {})
    assert caught.value.stage == stage
