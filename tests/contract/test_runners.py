"""Hold runners, wherever they live, to one port: one suite."""

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from apps import registry
from apps.rates import Fixed
from compositions.errors import RecomposeError
from control.decisions import Grant, Mode
from profiler.budget import Budget
from profiler.slo import Slo
from service.daemon.supervision.ray_host import RayHost
from service.runner.rpc import requests as ask
from service.runner.rpc.port import RunnerPort
from service.runner.rpc.vital import Vital
from service.runner.runner import Runner
from service.runner.validation.resolution import choices_for
from service.schemas.refusals import ResultsGoneError
from service.schemas.spec import BatchingSpec, InputSpec, PlannedLoad, RunSpec, SourceSpec
from service.schemas.status import Status
from tests.support.bodies import having
from tests.support.fakes import FakeRunner
from tests.support.waiting import eventually

PATIENCE_S = 60.0
CHOICES = choices_for(registry.create("synthetic"))
SPEC = RunSpec(
    app="synthetic",
    source=SourceSpec(kind="push"),
    compositions=CHOICES,
    options={"compute": "wait", "total_ms": 6},
    settings={"spares": 0, "orphan_s": 0},  # nobody loses a worker here, and no runner is followed by another
)
MakeRunner = Callable[[RunSpec], RunnerPort]


def on_ray(spec: RunSpec) -> RunnerPort:
    return RayHost(os.environ.get("RAY_ADDRESS")).spawn("contract", spec)


MAKERS: Any = {"fake": FakeRunner, "local": lambda spec: Runner(having(spec, {"pool": "local"})), "ray": on_ray}


@pytest.fixture(params=sorted(MAKERS))
def make(request: pytest.FixtureRequest) -> Iterator[MakeRunner]:
    """Makes runners that end with the test."""
    made: list[RunnerPort] = []

    def kept(spec: RunSpec) -> RunnerPort:
        made.append(MAKERS[request.param](spec))
        return made[-1]

    yield kept
    for runner in made:
        runner.kill()


def until(runner: RunnerPort, true: Callable[[Status], bool]) -> Status:
    return eventually(lambda: runner.ask(ask.ReadStatus()), true, PATIENCE_S)


def started(make: MakeRunner) -> RunnerPort:
    runner = make(SPEC)
    runner.ask(ask.Start(), timeout_s=PATIENCE_S)
    until(runner, lambda status: status.state not in ("starting", "failed"))
    return runner


GRANT = Grant(Budget(workers=4), Budget(workers=8), "it gains most")
READS: list[ask.Request[Any]] = [
    ask.ReadSpec(), ask.ReadStatus(), ask.ReadDecisions(-1, 10), ask.ReadNoChanges(10), ask.ReadResults(-1, 10),
    ask.ReadCompositions(), ask.ReadHistory(60.0), ask.ReadSummary(),
    ask.ReadSizes(10), ask.AskBid((Budget(workers=4),)),
]  # fmt: skip
CHANGES: list[ask.Request[None]] = [
    ask.SetSlo(Slo("latency", 400.0)), ask.SetInput(InputSpec(rate_per_s=20)), ask.SetRate(Fixed(20.0)),
    ask.SetPlannedLoads((PlannedLoad(from_epoch_s=1e9, until_epoch_s=2e9, rate_per_s=80.0),)), ask.SetGrant(GRANT),
    ask.SetBatching(BatchingSpec(items=8)), ask.SetMode(Mode.AUTO), ask.SetCompositions(CHOICES), ask.ResetGaps(),
]  # fmt: skip


def test_every_request_is_answered_before_during_and_after_a_run(make: MakeRunner) -> None:
    runner = make(SPEC)
    kinds: list[list[type]] = []
    for turn in (lambda: None, lambda: runner.ask(ask.Start()), lambda: runner.ask(ask.Stop(), timeout_s=PATIENCE_S)):
        turn()
        assert [runner.ask(change) for change in CHANGES] == [None] * len(CHANGES)
        kinds.append([type(runner.ask(read)) for read in READS])
    assert kinds[0] == kinds[1] == kinds[2]


def test_every_kind_of_request_is_in_this_suite() -> None:
    others = {"ReadList", "Start", "Stop", "PushMany", "ReadWhatIf"}
    tried = {type(each).__name__ for each in [*READS, *CHANGES]}
    assert tried | others == {each.__name__ for each in _kinds_of(ask.Request)}


def _kinds_of(request: type[Any]) -> Iterator[type[Any]]:
    for each in request.__subclasses__():
        yield from _kinds_of(each) if each.__subclasses__() else [each]


def test_what_is_pushed_comes_out_in_order_and_can_still_be_read_after_the_end(make: MakeRunner) -> None:
    runner = started(make)
    assert [runner.ask(ask.PushMany((number,))).serial for number in range(3)] == [0, 1, 2]
    runner.ask(ask.Stop(drain=True, timeout_s=PATIENCE_S), timeout_s=PATIENCE_S)
    status = runner.ask(ask.ReadStatus())
    assert (status.state, status.items.delivered) == ("stopped", 3)
    assert [each.serial for each in runner.ask(ask.ReadResults(-1, 10))] == [0, 1, 2]
    assert [each.serial for each in runner.ask(ask.ReadResults(0, 1))] == [1]


def test_a_runner_tells_what_it_was_told_and_starts_once(make: MakeRunner) -> None:
    runner = started(make)
    runner.ask(ask.Start())
    changes: list[ask.Change] = [
        ask.SetSlo(Slo("latency", 250.0)),
        ask.SetMode(Mode.PINNED, "7"),
        ask.SetInput(InputSpec(rate_per_s=9)),
        ask.SetBatching(BatchingSpec(items=64, linger_ms=2)),
    ]
    wanted = runner.ask(ask.ReadSpec())
    for change in changes:
        runner.ask(change)
        wanted = ask.changed(wanted, change)
    assert runner.ask(ask.ReadSpec()) == wanted


def test_a_cursor_of_another_run_is_told_what_is_kept(make: MakeRunner) -> None:
    runner = make(having(SPEC, {"run": "this one"}))
    runner.ask(ask.Start(), timeout_s=PATIENCE_S)
    runner.ask(ask.PushMany((1,)))
    status = until(runner, lambda status: status.items.delivered == 1)
    assert (status.origin.run, status.origin.epoch) == ("this one", 1)
    assert [each.run for each in runner.ask(ask.ReadResults(None, 10, "this one"))] == ["this one"]
    for cursor in (ask.ReadResults(0, 10, "another one"), ask.ReadResults(500, 10)):
        with pytest.raises(ResultsGoneError, match="continue from there with run=this one") as error:
            runner.ask(cursor)
        assert (error.value.run, error.value.first, error.value.last) == ("this one", 0, 0)


def test_what_a_change_says_is_in_the_status(make: MakeRunner) -> None:
    runner = started(make)
    runner.ask(ask.SetSlo(Slo("latency", 250.0)))
    slo = runner.ask(ask.ReadStatus()).requested.slo
    assert (slo.metric, slo.target) == ("latency", 250.0)
    runner.ask(ask.SetMode(Mode.PINNED, "7"))
    status = until(runner, lambda status: bool(status.composition and status.composition.name == "7"))
    assert status.requested.mode is Mode.PINNED
    until(runner, lambda status: bool(status.changes.last_decision and status.changes.last_decision.to == "7"))
    assert "7" in [each.to for each in runner.ask(ask.ReadDecisions(-1, 10))]


def test_a_grant_and_a_mode_are_kept_told_before_the_start_or_after_it(make: MakeRunner) -> None:
    runner = make(SPEC)
    runner.ask(ask.SetMode(Mode.PINNED, "7"))
    runner.ask(ask.SetGrant(GRANT))
    assert runner.ask(ask.AskBid((Budget(workers=4),))).grant == GRANT
    runner.ask(ask.Start(), timeout_s=PATIENCE_S)
    status = until(runner, lambda status: bool(status.composition and status.composition.name == "7"))
    assert (status.resources.grant.workers, status.resources.grant.reason) == (4, "it gains most")
    runner.ask(ask.SetGrant(None))
    assert runner.ask(ask.AskBid((Budget(workers=4),))).grant is None
    assert runner.ask(ask.ReadStatus()).resources.grant is None


def test_a_killed_runner_is_gone(make: MakeRunner) -> None:
    runner = started(make)
    assert runner.vital() is Vital.REACHABLE
    runner.kill()
    assert runner.vital() is Vital.DEAD
    with pytest.raises(ConnectionError):
        runner.ask(ask.ReadStatus())


def test_of_many_items_those_before_one_that_is_refused_are_taken(make: MakeRunner) -> None:
    runner = started(make)
    taken = runner.ask(ask.PushMany((1, 2, "refuse me", 3)))
    assert taken.serials == [0, 1]
    with pytest.raises(RecomposeError, match="refuse me"):
        _ = taken.serial
    assert runner.ask(ask.PushMany((4, 5))) == ask.Taken([2, 3], None, runner.ask(ask.ReadStatus()).origin.run)
