"""The watch over one started app, turned by hand with a clock of its own: deaths, leases and starts."""

from typing import Any
from unittest.mock import Mock

import pytest
from structlog.testing import capture_logs
from watchdog_bench import PUSH, Bench, revive, up

from compositions.errors import NotNow, RecomposeError
from control.decisions import Mode
from profiler.slo import Slo
from service.daemon.supervision import ticker
from service.daemon.supervision.history import Remembered
from service.daemon.supervision.restart_policy import BACK_OFF_S, HEALTHY_S, POSTPONED_S, Failed, Starting, Up, put_off
from service.daemon.supervision.ticker import Ticker
from service.runner.rpc.port import ANSWER_S
from service.runner.rpc.requests import PushMany, ReadStatus, SetBatching, SetInput, SetMode, SetSlo
from service.schemas.figures import Items, LostWorker
from service.schemas.refusals import UnavailableError
from service.schemas.spec import BatchingSpec, InputSpec
from service.schemas.status import RunnerBody
from tests.support.bodies import having


def test_a_dead_runner_comes_back_with_what_it_was_told(bench: Bench) -> None:
    slo = Slo("latency", 400.0)
    bench.watchdog.change(SetSlo(slo))
    bench.watchdog.change(SetInput(InputSpec(rate_per_s=7)))
    bench.watchdog.change(SetBatching(BatchingSpec(items=64)))
    bench.watchdog.change(SetMode(Mode.PINNED, "7"))
    bench.runner.killed = True
    bench.step(0.5)
    assert bench.is_in(Starting)
    bench.until(lambda: bench.is_in(Up))
    reborn = bench.runner.spec
    assert len(bench.host.runners) == 2
    assert reborn.batching.items == 64
    assert (reborn.slo, reborn.input.rate_per_s, reborn.mode, reborn.composition) == (slo, 7, Mode.PINNED, "7")
    assert bench.watchdog.condition.deaths.restarts == 1


def test_the_death_of_a_worker_and_of_a_runner_is_a_line_at_warning_with_place_and_reason(bench: Bench) -> None:
    loss = LostWorker(number=1, at="2026-11-23T20:00:00.000Z", id="w3", pid=4711, node="10.0.0.5", reason="SIGKILL")
    runner = RunnerBody(pid=42, node="10.0.0.7", since="2026-11-23T20:00:00.000Z")
    bench.runner.figures = {"losses": [loss], "runner": runner}
    with capture_logs() as logs:
        for _ in range(3):
            bench.step(2.0)
        bench.runner.killed = True
        bench.step(0.5)
    worker, died = (line for line in logs if line["log_level"] == "warning")
    assert (worker["event"], worker["worker"], worker["pid"], worker["node"]) == ("worker died", "w3", 4711, "10.0.0.5")
    assert worker["reason"] == "SIGKILL"
    assert "another worker is started" in worker["consequence"]
    assert (died["event"], died["pid"], died["node"]) == ("runner died", 42, "10.0.0.7")


def test_what_a_runner_had_not_delivered_is_told_with_its_death(bench: Bench) -> None:
    bench.step(2.0)
    last = bench.watchdog.ask(ReadStatus())
    seen = having(last, {"items": Items(accepted=9, delivered=5, failed=1, shed=0)})
    bench.watchdog.remembered = Remembered(seen)
    revive(bench)
    told = "ConnectionError: gone; 3 accepted items were not delivered yet"
    assert bench.runner.spec.origin.started_again == told
    assert bench.store.started()["synthetic"].spec.origin == bench.runner.spec.origin


def test_that_a_runner_was_started_again_is_among_the_decisions_with_its_reason(bench: Bench) -> None:
    bench.runner.set_mode(Mode.AUTO, "5")
    bench.step(2.0)
    revive(bench)
    bench.step(0.5)
    start, again, *earlier = decisions = bench.store.decisions("synthetic", 10)
    assert [each.id for each in decisions] == [4, 3, 2, 1]
    assert (again.trigger, again.from_, again.to) == ("failure", "5", "5")
    assert bench.runner.active.name == "5", "the last stable composition"
    assert again.reason == "the runner was started again: ConnectionError: gone"
    assert again.run == start.run == bench.runner.spec.origin.run
    assert {each.run for each in earlier} == {bench.host.runners[0].spec.origin.run}


def test_a_daemon_that_is_started_again_says_so_where_its_runner_ended_with_it(bench: Bench) -> None:
    later = up(Bench(bench.store.started()["synthetic"].spec))
    assert (later.runner.spec.origin.epoch, later.runner.spec.origin.run) != (1, bench.runner.spec.origin.run)
    later.step(0.5)
    again = later.store.decisions("synthetic", 10)[-1]
    assert (again.trigger, again.run) == ("failure", later.runner.spec.origin.run)
    assert "the service was started again" in again.reason


def test_a_runner_that_is_found_again_goes_on_with_its_run() -> None:
    known, its_own = having(PUSH, {"run": "known", "epoch": 3}), having(PUSH, {"run": "its own", "epoch": 4})
    bench = up(Bench(known, attach=True, left_over=its_own))
    assert bench.watchdog.desired.spec.origin == its_own.origin
    assert [(each.run, each.trigger) for each in bench.store.decisions("synthetic", 10)] == [("its own", "start")]


@pytest.mark.logs_errors("app failed")
def test_after_many_deaths_the_app_has_failed_and_says_why() -> None:
    bench = Bench()

    def failed() -> bool:
        for runner in bench.host.runners:
            runner.killed = True
        return bench.is_in(Failed)

    bench.until(failed, limit=100)
    assert len(bench.host.runners) == len(BACK_OFF_S) + 1
    assert f"died {len(BACK_OFF_S) + 1} times; last: ConnectionError" in str(bench.watchdog.condition.deaths.reason)
    assert bench.now_s >= sum(BACK_OFF_S)
    assert bench.step() is None
    with pytest.raises(UnavailableError, match="the runner of synthetic is failed"):
        bench.watchdog.ask(ReadStatus())


def test_a_runner_that_lived_long_gets_fresh_attempts(bench: Bench) -> None:
    for _ in range(3 * len(BACK_OFF_S)):
        bench.step(HEALTHY_S)
        bench.runner.killed = True
        bench.until(lambda: bench.is_in(Starting))
        bench.until(lambda: bench.is_in(Up))
    assert bench.is_in(Up)


@pytest.mark.logs_errors("app failed")
@pytest.mark.parametrize(
    ("durability", "items", "kept_up"), [("restart", 1, True), ("restart", 0, False), ("none", 1, False)]
)
def test_a_durable_run_that_gets_on_is_kept_up_whatever_dies(durability: Any, items: int, kept_up: bool) -> None:
    bench = Bench(having(PUSH, {"durability": durability}))
    for number in range(2 * len(BACK_OFF_S)):
        bench.until(lambda: bench.is_in(Up | Failed))
        if bench.is_in(Failed):
            break
        _push(bench, items * (number + 1))  # a fake one does not know what those before it did
        bench.runner.killed = True
        bench.until(lambda: bench.is_in(Starting | Failed))
    assert bench.is_in(Failed) is not kept_up
    assert (bench.now_s < sum(BACK_OFF_S)) is kept_up, "the next one began at once"


def _push(bench: Bench, count: int) -> None:
    for _ in range(count):
        bench.watchdog.ask(PushMany(("item",)))
    bench.until(lambda: bench.watchdog.remembered.out >= count)


@pytest.mark.logs_errors("app failed")
def test_a_refused_spec_is_not_tried_again() -> None:
    bench = Bench()
    bench.host.refuse = RecomposeError("no photos in '/x'; give a folder with photos")
    assert bench.step() is None
    assert (bench.is_in(Failed), len(bench.host.runners)) == (True, 1)
    assert bench.watchdog.condition.deaths.reason == "no photos in '/x'; give a folder with photos"


def test_a_start_that_is_put_off_is_made_when_it_can_be_and_told_once(bench: Bench) -> None:
    bench.host.refuse = NotNow("journal /j cannot be written now: database or disk is full")
    bench.runner.killed = True
    with capture_logs() as logs:
        bench.until(lambda: len(bench.host.runners) == 3 * len(BACK_OFF_S))
    assert bench.is_in(Starting)
    assert bench.now_s > sum(POSTPONED_S), "later and later"
    assert put_off(bench.watchdog.condition) == str(bench.host.refuse)
    assert [line["event"] for line in logs].count("runner cannot start now; starting it again later") == 1
    bench.host.refuse = None
    bench.until(lambda: bench.is_in(Up))
    deaths = bench.watchdog.condition.deaths
    assert (deaths.restarts, deaths.reason) == (1, "ConnectionError: gone")
    told = [each for each in bench.store.decisions("synthetic", 50) if each.trigger == "failure"]
    assert ["gone" in each.reason for each in told] == [True]


@pytest.mark.parametrize(
    ("how", "why"),
    [("silent", "hung: it has answered no request for 12 s"), ("cut_off", "cut off"), ("lost", "cut off")],
)
def test_a_silent_runner_is_replaced_when_its_lease_is_over_and_not_before(how: str, why: str) -> None:
    bench = up(Bench(having(PUSH, {"settings": {"lease_s": 12}})))
    silent = bench.runner
    if how == "lost":  # nothing can be known of it
        silent.silent, silent.vital = True, Mock(side_effect=OSError("Name or service not known"))
    setattr(silent, how, True)
    began_s = bench.now_s
    while bench.now_s < began_s + 12:
        bench.step(0.5)
        assert (bench.is_in(Up), silent.killed) == (True, False)
        with pytest.raises(UnavailableError, match="does not answer"):
            bench.watchdog.ask(ReadStatus())
    bench.step(0.5)
    assert silent.killed
    bench.until(lambda: len(bench.host.runners) == 2 and bench.is_in(Up))
    assert why in str(bench.watchdog.condition.deaths.reason)


@pytest.mark.logs_errors("periodic work failed")
def test_a_watch_goes_on_after_a_turn_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ticker, "AFTER_ERROR_S", 0.0)
    turn = Mock(side_effect=[OSError("no more open files"), ValueError("a bug"), None])
    ticks = Ticker("watchdog")
    ticks.start(turn)
    ticks.join(ANSWER_S)
    assert turn.call_count == 3


@pytest.mark.parametrize("durability", ["none", "restart"])
def test_a_cut_that_is_shorter_than_the_lease_costs_nothing(durability: str) -> None:
    bench = up(Bench(having(PUSH, {"durability": durability})))
    before = bench.watchdog.desired.spec
    with capture_logs() as logs:
        for cut_off in (True, False):
            bench.runner.cut_off = cut_off
            for _ in range(20):
                bench.step(0.5)
    assert (bench.is_in(Up), len(bench.host.runners), bench.runner.killed) == (True, 1, False)
    assert bench.watchdog.desired.spec.origin == before.origin
    warned = [(line["event"], line["seen"]) for line in logs if line["log_level"] == "warning"]
    assert warned == [("runner does not answer", "cut off")]
