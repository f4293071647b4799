"""A batch stage that has no memory for a bundle: each half runs again, and later bundles are as large as a half."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest
from psutil import Process

from apps.contract import App
from compositions.model import Composition, Group, Pattern, Stage
from control.decisions import Mode
from runtime.dispatch.events import BundleAdmitted, TaskFailed
from runtime.dispatch.outcomes import OutOfMemory, StartFailed
from runtime.housekeeping import trim
from service.runner.loop import PASSING_S, WorkerFailures
from service.runner.rpc.requests import ReadStatus, SetMode
from service.schemas.spec import BatchingSpec
from tests.support.waiting import wait_until
from tests.unit.dispatcher_bench import Bench

MOST, ITEMS = 8, 4000
STAGES = (Stage("read"), Stage("infer", batch=True))
ONE = Composition("one", (Group(("read",)), Group(("infer",))))
TWO = replace(ONE, name="two", groups=(Group(("read",)), Group(("infer",), Pattern.PAR, 2)))
ROOT = Path(__file__).parents[2]


class Hungry(App):
    name = "hungry"
    stages = STAGES
    tried: ClassVar[list[int]] = []

    def read(self, value: int) -> int:
        return value

    def infer(self, values: list[int]) -> list[int]:
        self.tried.append(len(values))
        if len(values) > MOST:
            raise MemoryError
        return values

    def items(self, path: object) -> Iterator[int]:
        return iter(range(ITEMS))


@pytest.fixture
def hungry(begin: Any) -> Any:
    Hungry.tried.clear()
    pinned = {"mode": Mode.PINNED, "compositions": (ONE, TWO), "composition": "one"}
    return partial(begin, Hungry, durability="none", **pinned)


@pytest.mark.parametrize("asked", [64, "auto"])
def test_what_was_too_many_is_remembered_and_nothing_is_lost(hungry: Any, asked: Any) -> None:
    runner = hungry(batching=BatchingSpec(items=asked), items=ITEMS, source={"kind": "replay"})
    assert runner.wait(60.0)
    status = runner.ask(ReadStatus())
    assert (status.items.delivered, status.items.failed) == (ITEMS, 0)
    if asked == 64:
        why = "stage infer ran out of memory with a bundle of 16"
        assert (status.batching.size, status.batching.reason) == (MOST, why)
        assert max(Hungry.tried[-100:]) <= MOST


def test_another_composition_may_bear_more(hungry: Any) -> None:
    """Workers that share a device have less memory each."""
    runner = hungry(batching=BatchingSpec(items=64), source={"kind": "replay", "loop": True})
    wait_until(lambda: runner.ask(ReadStatus()).batching.size == MOST)
    Hungry.tried.clear()
    runner.ask(SetMode(Mode.PINNED, "two"))
    wait_until(lambda: max(Hungry.tried, default=0) > MOST)
    wait_until(lambda: runner.ask(ReadStatus()).batching.size == MOST)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ("Traceback\n  ...\nMemoryError", True),
        ("Traceback\ncupy.cuda.memory.OutOfMemoryError: Out of memory allocating 4 bytes", True),
        ("Traceback\ntorch.OutOfMemoryError: CUDA out of memory.\nTried to allocate", True),
        ("Traceback\n    raise MemoryError\nValueError: MemoryError is not meant", False),
    ],
)
def test_a_dispatcher_tells_it_from_other_errors(error: str, told: bool) -> None:
    bench = Bench("Seq(f1,f2)", STAGES)
    bench.join("w1")
    bench.handle(BundleAdmitted(0.0, (0.0,) * 10, "items"))
    ((task_id, _),) = bench.tasks.items()
    bench.handle(TaskFailed(1.0, "w1", task_id, "infer", error, None))
    found = [each for each in bench.outcomes if isinstance(each, OutOfMemory)]
    assert found == ([OutOfMemory(1.0, "Seq(f1,f2)", "infer", 10)] if told else [])


def test_a_start_for_which_there_is_no_room_yet_is_tried_for_a_while() -> None:
    failures = WorkerFailures()
    for number in range(4):
        failures.not_started(StartFailed(10.0 + number, "no node has a GPU left", number + 1, passing=True))
    assert failures.given_up(10.0 + PASSING_S - 1, kept_up=False) is None
    assert failures.given_up(10.0 + PASSING_S, kept_up=False) == "no node has a GPU left"
    assert failures.given_up(10.0 + 10 * PASSING_S, kept_up=True) is None
    failures.not_started(StartFailed(15.0, "setup raised", 5))
    assert failures.given_up(15.0, kept_up=True) == "setup raised"


TAKE = """
try:
    taken = bytearray(400_000_000)
except MemoryError:
    print("no memory")
"""


def said(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)


def test_an_allocation_beyond_the_limit_of_data_fails() -> None:
    done = said(f"from runtime.pools import limits\nlimits._limit_data(limits.Limits(200)){TAKE}")
    assert done.stdout.strip() == "no memory", done.stderr


def test_a_group_of_its_own_ends_a_process_that_takes_more() -> None:
    enter = "from runtime.pools import limits\nprint(limits._enter_group(limits.Limits(200)), flush=True)"
    done = said(f"{enter}{TAKE}taken[::4096] = b'x' * len(taken[::4096])")
    if "True" not in done.stdout:
        pytest.skip("no control group for memory can be made here")
    assert done.returncode == -9


def test_the_watch_ends_a_process_with_a_sentence() -> None:
    hold = "from runtime.pools.limits import Limits, hold\nimport time\nhold(Limits(100), 'w1')"
    done = said(f"{hold}\nkept = b'x' * 108_000_000\ntime.sleep(30)")
    assert done.returncode == 76
    assert "worker w1 (pid " in done.stderr
    assert "MB of memory, but worker_memory_mb is 100" in done.stderr


def test_freed_memory_goes_back_although_some_behind_it_is_in_use() -> None:
    own = Process()
    blocks = [bytes(range(100)) * 1_000 for _ in range(2_000)]  # each below what the allocator maps by itself
    kept, before = blocks[-1], own.memory_info().rss
    blocks.clear()
    trim()
    assert before - own.memory_info().rss > 50_000_000
    assert kept
