"""The life of a runner on local workers, its start, its stages and its end held by the test; and its summary. Requests
are served in order, refused where they were asked, taken back when late."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from apps import registry
from apps.contract import App
from compositions.model import Stage
from control.decisions import State
from profiler.slo import parse_slo, together
from service.cli.run import summary_rows
from service.runner.rpc.port import Answers, Mailbox, Patient
from service.runner.rpc.requests import PushMany, ReadResults, ReadStatus, ReadSummary, Request, Start, Stop
from service.runner.runner import Runner
from service.schemas.results import CheckedItems, Summary
from service.schemas.spec import InputSpec, RunSpec, SourceSpec

PATIENCE_S = 30.0
Begin = Callable[..., Runner]
TWENTY = {"app": "synthetic", "options": {"total_ms": 0, "items": 20}, "pool": "local"}


class Gate:
    """Shut where a test shuts it; tells who has come to it."""

    def __init__(self) -> None:
        self.entered, self._open = threading.Event(), threading.Event()
        self.open, self.shut = self._open.set, self._open.clear
        self.open()

    def pass_through(self) -> None:
        self.entered.set()
        assert self._open.wait(PATIENCE_S)

    def wait_for_someone(self) -> None:
        assert self.entered.wait(PATIENCE_S)


class Plan:
    def __init__(self) -> None:
        self.gates = self.setup, self.work, self.write, self.close = Gate(), Gate(), Gate(), Gate()
        self.close_error: Exception | None = None


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
        return value

    def open_output(self, path: Path) -> Any:
        return SimpleNamespace(write=lambda *_: self.plan.write.pass_through(), close=self.close_output)

    def close_output(self) -> None:
        self.plan.close.pass_through()
        if self.plan.close_error is not None:
            raise self.plan.close_error


@pytest.fixture
def plan() -> Plan:
    return Plan()


@pytest.fixture
def start(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> Iterator[Begin]:
    monkeypatch.setattr(registry, "create", lambda *_: Held(plan))
    runners: list[Runner] = []

    def make(**spec: Any) -> Runner:
        given = {"source": SourceSpec(loop=False), "out_path": "held.out"} | spec
        runners.append(Runner(RunSpec(app="held", pool="local", **given)))
        runners[-1].ask(Start())
        return runners[-1]

    yield make
    for gate in plan.gates:
        gate.open()
    for runner in runners:
        runner.kill()
        assert runner.wait(PATIENCE_S)


def ended(runner: Runner) -> Runner:
    assert runner.wait(PATIENCE_S), runner.ask(ReadStatus())
    return runner


def test_an_error_while_closing_ends_the_run_and_says_so(plan: Plan, start: Begin) -> None:
    plan.close_error = OSError(28, "No space left on device")
    with capture_logs() as lines:
        runner = ended(start())
    status = runner.ask(ReadStatus())
    assert status.state is State.FAILED
    (failed,) = [line for line in lines if line["event"] == "run failed"]
    assert failed["reason"] == "OSError: [Errno 28] No space left on device"
    assert failed["detail"] == status.health.failure, "with the stack"
    assert runner.ask(ReadSummary()).items is not None
    assert len(runner.ask(ReadResults(-1, 10))) == 5


def test_a_run_that_takes_long_to_close_answers_and_says_what_it_does(plan: Plan, start: Begin) -> None:
    plan.close.shut()
    runner = start()
    plan.close.wait_for_someone()
    status = runner.ask(ReadStatus())
    assert status.state is State.CLOSING
    assert status.items.delivered == 5
    assert not runner.wait(0)
    plan.close.open()
    assert ended(runner).ask(ReadStatus()).state is State.STOPPED


def test_a_run_whose_output_blocks_is_waited_for_and_told_once(
    plan: Plan, start: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan.write.shut()
    runner = start()
    plan.write.wait_for_someone()
    ask, late = runner.ask, list[Exception]()

    def asked(request: Request[Any], *, timeout_s: float) -> Any:
        try:
            return ask(request, timeout_s=timeout_s)
        except TimeoutError as error:
            late.append(error)
            plan.write.open()
            raise

    monkeypatch.setattr(runner, "ask", asked)
    with capture_logs() as logs:
        Patient(runner, answer_s=0.05).ask(ReadStatus())
    assert (len(late) >= 1, len(logs)) == (True, 1)
    items = ended(runner).ask(ReadSummary(), timeout_s=PATIENCE_S).items
    assert (items.delivered, items.lost) == (5, 0)


def test_a_stop_does_not_wait_for_workers_that_are_still_at_their_setup(plan: Plan, start: Begin) -> None:
    plan.setup.shut()
    runner = start()
    plan.setup.wait_for_someone()
    threading.Thread(target=runner.ask, args=(Stop(drain=True, timeout_s=10 * PATIENCE_S),)).start()
    assert ended(runner).ask(ReadStatus()).state is State.STOPPED


def test_what_was_pushed_before_the_workers_came_is_delivered_by_a_draining_stop(plan: Plan, start: Begin) -> None:
    plan.setup.shut()
    runner = start(source=SourceSpec(kind="push"))
    plan.setup.wait_for_someone()
    assert runner.ask(PushMany(("early",))).serial == 0
    threading.Timer(0.05, plan.setup.open).start()
    runner.ask(Stop(drain=True, timeout_s=PATIENCE_S))
    assert [each.value for each in runner.ask(ReadResults(-1, 10))] == ["early"]


@pytest.mark.logs_errors("run failed")
def test_a_drain_past_its_limit_tells_what_it_gave_up(plan: Plan, start: Begin) -> None:
    plan.work.shut()
    runner = start(source=SourceSpec(kind="push"))
    assert [runner.ask(PushMany((k,))).serial for k in range(8)] == list(range(8))
    plan.work.wait_for_someone()
    runner.ask(Stop(drain=True, timeout_s=0.2))
    status = ended(runner).ask(ReadStatus())
    assert status.state is State.FAILED
    assert "8 accepted items undelivered, serial numbers 0, 1, 2, 3, 4 and 3 more" in str(status.health.failure)


def test_a_stop_that_is_not_to_drain_gives_up_without_a_word(plan: Plan, start: Begin) -> None:
    plan.work.shut()
    runner = start(source=SourceSpec(kind="push"))
    runner.ask(PushMany((1,)))
    plan.work.wait_for_someone()
    runner.ask(Stop(drain=False, timeout_s=PATIENCE_S))
    assert ended(runner).ask(ReadStatus()).health.failure is None


def test_of_two_stops_the_tighter_one_holds_whichever_comes_first(plan: Plan, start: Begin) -> None:
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


def test_throughput_leaves_the_start_out(plan: Plan, start: Begin) -> None:
    plan.setup.shut()
    runner = start()
    plan.setup.wait_for_someone()
    while not runner.ask(ReadSummary()).elapsed_s:
        assert not runner.wait(0.01), "it ended without workers"
    plan.setup.open()
    summary = ended(runner).ask(ReadSummary())
    assert summary.workers == 1
    assert summary.throughput_per_s > 5 / summary.elapsed_s


def summary(delivered: int, **known: Any) -> Summary:
    items = CheckedItems(accepted=delivered, delivered=delivered, failed=0, shed=0, lost=0, misordered=0)
    return Summary(items=items, **known)


def summary_of_a_run(**spec: Any) -> Summary:
    runner = Runner(RunSpec(**TWENTY, source=SourceSpec(loop=False), **spec))
    runner.ask(Start())
    assert runner.wait(PATIENCE_S)
    return runner.ask(ReadSummary())


@pytest.mark.parametrize("input", [InputSpec(), InputSpec(rate_per_s=1000)])
def test_a_source_that_was_read_to_its_end_was_asked_for_what_it_had(input: InputSpec) -> None:
    known = summary_of_a_run(input=input)
    assert (known.admitted, known.missed, known.lag_s) == (20, known.missed, 0.0)
    assert known.offered == 20 + (known.missed or 0)
    assert known.bundle_sizes[0] == 1


@pytest.mark.parametrize(
    ("known", "row", "told"),
    [
        (
            {"offered": 100, "admitted": 60, "missed": 30, "lag_s": 10.04},
            *("load", "offered 100, admitted 60, missed 30; the next item is overdue by 10.0 s"),
        ),
        ({"bundle_sizes": [1]}, "maximum bundle sizes", None),
        ({"bundle_sizes": [1, 2048]}, "maximum bundle sizes", "1, then 2,048"),
        ({"bundle_sizes": [1, 9, 7, 8, 9, 10]}, "maximum bundle sizes", "1, then 9, then 3 others, then 10"),
    ],
)
def test_the_table_of_a_run_tells_what_did_not_come_out_and_how_large_bundles_were(
    known: dict[str, Any], row: str, told: str | None
) -> None:
    assert dict(summary_rows(summary(60, **known))).get(row) == told


def test_a_run_leads_with_the_figures_that_were_asked_for() -> None:
    slo = together([parse_slo(text) for text in ("p95=400ms", "share95=300ms", "throughput=input_rate")])
    (p95, share, throughput, *_) = summary_rows(summary_of_a_run(input=InputSpec(rate_per_s=10), slo=slo))
    assert (p95[0], p95[1].endswith(" ms")) == ("p95 latency ≤ 400 ms", True)
    assert (share[0], share[1][:20]) == ("latency of 95 % of the items ≤ 300 ms", "100 % of the items; ")
    assert (throughput[0], throughput[1].endswith(" items/s")) == ("throughput ≥ the input rate", True)


class Loop:
    """Serves when it is woken, in a thread of its own, until it is closed."""

    def __init__(self, push: Callable[[PushMany], int]) -> None:
        self.mailbox, self._woken, self._over = Mailbox(), threading.Semaphore(0), False
        self.mailbox.open(Answers(PushMany.by(push)), self._woken.release)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._over:
            self.mailbox.serve()
            self._woken.acquire()
        self.mailbox.close()

    def close(self) -> None:
        self._over = True
        self._woken.release()
        self._thread.join()


def test_a_request_that_is_not_served_in_time_says_so_and_is_never_carried_out() -> None:
    mailbox, seen = Mailbox(), []
    mailbox.open(Answers(PushMany.by(lambda request: seen.append(request.values[0]) or 0)), lambda: None)
    with pytest.raises(TimeoutError, match=r"the runner did not answer PushMany within 0\.01 s"):
        mailbox.ask(PushMany(("late",)), 0.01)
    mailbox.serve()
    assert seen == []


def test_a_request_that_comes_while_the_loop_ends_is_not_lost() -> None:
    entered, go_on = threading.Event(), threading.Event()

    def push(request: PushMany) -> int:
        entered.set()
        assert go_on.wait(PATIENCE_S)
        return int(request.values[0])

    loop = Loop(push)
    with ThreadPoolExecutor(4) as askers:
        answers = [askers.submit(loop.mailbox.ask, PushMany((number,)), PATIENCE_S) for number in range(4)]
        assert entered.wait(PATIENCE_S)
        threading.Timer(0.0, go_on.set).start()
        loop.close()
        assert [each.result(PATIENCE_S) for each in answers] == [0, 1, 2, 3]
