"""The life of a runner on local workers, its start, its stages and its end held by the test."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from apps import registry
from apps.contract import App
from compositions.model import Stage
from control.decisions import State
from service.runner.rpc.requests import PushMany, ReadResults, ReadStatus, ReadSummary, Start, Stop
from service.runner.runner import Runner
from service.schemas.spec import RunSpec, SourceSpec

PATIENCE_S = 30.0


class Gate:
    """Shut where a test shuts it; tells who has come to it."""

    def __init__(self) -> None:
        self.entered, self._open = threading.Event(), threading.Event()
        self._open.set()

    def shut(self) -> None:
        self._open.clear()

    def open(self) -> None:
        self._open.set()

    def pass_through(self) -> None:
        self.entered.set()
        assert self._open.wait(PATIENCE_S)

    def wait_for_someone(self) -> None:
        assert self.entered.wait(PATIENCE_S)


class Plan:
    """What happens where."""

    def __init__(self) -> None:
        self.setup, self.work, self.close = Gate(), Gate(), Gate()
        self.close_error: Exception | None = None
        self.item_error: Exception | None = None
        self.result: Any = None


class Held(App):
    name = "held"
    stages = (Stage("work"),)

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.plan = plan

    def setup(self) -> None:
        self.plan.setup.pass_through()

    def items(self, path: Path | None) -> Iterator[Any]:
        return iter(range(5))

    def work(self, value: Any) -> Any:
        self.plan.work.pass_through()
        if self.plan.item_error is not None:
            raise self.plan.item_error
        return self.plan.result if self.plan.result is not None else value

    def open_output(self, path: Path) -> Output:
        return Output(self.plan)


class Output:
    """Of ``--out``: keeps nothing, and ends as the plan says."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def write(self, serial: int, value: Any) -> None: ...

    def close(self) -> None:
        self.plan.close.pass_through()
        if self.plan.close_error is not None:
            raise self.plan.close_error


@pytest.fixture
def plan() -> Iterator[Plan]:
    plan = Plan()
    yield plan
    for gate in (plan.setup, plan.work, plan.close):
        gate.open()


@pytest.fixture
def start(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Runner]]:
    monkeypatch.setattr(registry, "create", lambda *_: Held(plan))
    runners: list[Runner] = []

    def make(**spec: Any) -> Runner:
        given = {"source": SourceSpec(loop=False), "out_path": "held.out"} | spec
        runners.append(Runner(RunSpec(app="held", pool="local", **given)))
        runners[-1].ask(Start())
        return runners[-1]

    yield make
    for gate in (plan.setup, plan.work, plan.close):
        gate.open()
    for runner in runners:
        runner.kill()
        assert runner.wait(PATIENCE_S)


def ended(runner: Runner) -> Runner:
    assert runner.wait(PATIENCE_S), runner.ask(ReadStatus())
    return runner


@pytest.mark.logs_errors("run failed")
def test_an_error_while_closing_ends_the_run_and_says_so(plan: Plan, start: Callable[..., Runner]) -> None:
    plan.close_error = OSError(28, "No space left on device")
    runner = ended(start())
    status = runner.ask(ReadStatus())
    assert status.state is State.FAILED
    assert "No space left on device" in str(status.health.failure)
    assert runner.ask(ReadSummary()).items is not None
    assert len(runner.ask(ReadResults(-1, 10))) == 5


def test_the_log_says_in_one_line_why_a_run_failed_and_has_the_stack_beside_it(
    plan: Plan, start: Callable[..., Runner]
) -> None:
    plan.close_error = ZeroDivisionError("odd")
    with capture_logs() as lines:
        status = ended(start()).ask(ReadStatus())
    (failed,) = [line for line in lines if line["event"] == "run failed"]
    assert failed["reason"] == "ZeroDivisionError: odd"
    assert failed["detail"] == status.health.failure


def test_a_run_that_takes_long_to_close_answers_and_says_what_it_does(plan: Plan, start: Callable[..., Runner]) -> None:
    plan.close.shut()
    runner = start()
    plan.close.wait_for_someone()
    status = runner.ask(ReadStatus())
    assert status.state is State.CLOSING
    assert status.items.delivered == 5
    assert not runner.wait(0)
    plan.close.open()
    assert ended(runner).ask(ReadStatus()).state is State.STOPPED


def test_a_stop_does_not_wait_for_workers_that_are_still_at_their_setup(
    plan: Plan, start: Callable[..., Runner]
) -> None:
    plan.setup.shut()
    runner = start()
    plan.setup.wait_for_someone()
    threading.Thread(target=runner.ask, args=(Stop(drain=True, timeout_s=10 * PATIENCE_S),)).start()
    assert ended(runner).ask(ReadStatus()).state is State.STOPPED


def test_what_was_pushed_before_the_workers_came_is_delivered_by_a_draining_stop(
    plan: Plan, start: Callable[..., Runner]
) -> None:
    plan.setup.shut()
    runner = start(source=SourceSpec(kind="push"))
    plan.setup.wait_for_someone()
    assert runner.ask(PushMany(("early",))).serial == 0
    threading.Timer(0.05, plan.setup.open).start()
    runner.ask(Stop(drain=True, timeout_s=PATIENCE_S))
    assert [each.value for each in runner.ask(ReadResults(-1, 10))] == ["early"]


@pytest.mark.logs_errors("run failed")
def test_a_drain_past_its_limit_tells_what_it_gave_up(plan: Plan, start: Callable[..., Runner]) -> None:
    plan.work.shut()
    runner = start(source=SourceSpec(kind="push"))
    assert [runner.ask(PushMany((k,))).serial for k in range(8)] == list(range(8))
    plan.work.wait_for_someone()
    runner.ask(Stop(drain=True, timeout_s=0.2))
    status = ended(runner).ask(ReadStatus())
    assert status.state is State.FAILED
    assert status.health.failure == (
        "the time to drain was over with 8 accepted items not delivered, serial numbers 0, 1, 2, 3, 4 and 3 more; "
        "give them again, or give the stop more time"
    )


def test_a_stop_that_is_not_to_drain_gives_up_without_a_word(plan: Plan, start: Callable[..., Runner]) -> None:
    plan.work.shut()
    runner = start(source=SourceSpec(kind="push"))
    runner.ask(PushMany((1,)))
    plan.work.wait_for_someone()
    runner.ask(Stop(drain=False, timeout_s=PATIENCE_S))
    assert ended(runner).ask(ReadStatus()).health.failure is None


def test_of_two_stops_the_tighter_one_holds_whichever_comes_first(plan: Plan, start: Callable[..., Runner]) -> None:
    plan.work.shut()
    runner = Runner(RunSpec(app="held", pool="local", source=SourceSpec(kind="push")))
    runner.ask(PushMany((1,)))
    for stop in (Stop(drain=False, timeout_s=0.0), Stop(drain=True, timeout_s=10 * PATIENCE_S)):
        runner.ask(stop)  # it is not started yet: both are noted before it takes a turn
    runner.ask(Start())
    try:
        assert ended(runner).ask(ReadStatus()).items.delivered == 0
    finally:
        runner.kill()


def test_a_result_that_is_no_json_is_a_failed_item_with_the_cure(plan: Plan, start: Callable[..., Runner]) -> None:
    plan.result = object()
    runner = ended(start())
    items = runner.ask(ReadStatus()).items
    assert (items.accepted, items.delivered, items.failed) == (5, 0, 5)
    summary = runner.ask(ReadSummary())
    assert summary.unwritten == 5
    assert "item 0: the result cannot be written: TypeError" in str(summary.first_error)
    assert "let encode_result of app 'held' return plain JSON data" in str(summary.first_error)


def test_throughput_leaves_the_start_out(plan: Plan, start: Callable[..., Runner]) -> None:
    plan.setup.shut()
    runner = start()
    plan.setup.wait_for_someone()
    while not runner.ask(ReadSummary()).elapsed_s:
        assert not runner.wait(0.01), "it ended without workers"
    plan.setup.open()
    summary = ended(runner).ask(ReadSummary())
    assert summary.workers == 1
    assert summary.throughput_per_s is not None
    assert summary.elapsed_s is not None
    assert summary.throughput_per_s > 5 / summary.elapsed_s
