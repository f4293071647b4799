"""The watch over one started app: what is stored before it is told, a full disk, and races of a stop."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from full_disk import fill
from structlog.testing import capture_logs
from watchdog_bench import PUSH, Bench, over, up

from control.decisions import Mode
from profiler.slo import Slo
from service.daemon.supervision import watchdog
from service.daemon.supervision.restart_policy import BACK_OFF_S, Ended, Failed, Up
from service.runner.durable.values import Pushed
from service.runner.rpc.port import ANSWER_S
from service.runner.rpc.requests import Request, SetMode, SetSlo, Stop
from service.runner.validation.durable import open_journal
from service.schemas.refusals import DiskFullError, UnavailableError
from service.schemas.spec import SourceSpec
from tests.support.bodies import having


@pytest.mark.parametrize("how", ["killed", "silent"])
def test_a_run_that_owes_something_is_kept_up_however_often_it_dies(tmp_path: Path, how: str) -> None:
    durable = {"durability": "exactly-once", "journals": str(tmp_path), "run": "r", "settings": {"lease_s": 5}}
    bench = Bench(having(PUSH, durable))
    with closing(open_journal(str(tmp_path), "synthetic", "r", 1)) as journal:
        journal.store(None, [Pushed(0, ("acknowledged",))])
    for number in range(len(BACK_OFF_S) + 2):
        bench.until(lambda: bench.is_in(Up | Failed))
        assert bench.is_in(Up), (number, bench.watchdog.condition)
        setattr(bench.runner, how, True)
        bench.until(lambda: not bench.is_in(Up))
    assert bench.watchdog.condition.deaths.restarts == len(BACK_OFF_S) + 2


@pytest.mark.parametrize("end", [lambda bench: bench.watchdog.stop(), over])
@pytest.mark.parametrize("owes", [True, False])
def test_what_a_durable_run_is_of_is_stored_before_its_runner_begins_for_as_long_as_it_may_owe(
    tmp_path: Path, owes: bool, end: Callable[[Bench], None]
) -> None:
    bench = up(Bench(having(PUSH, {"durability": "exactly-once", "journals": str(tmp_path)})))
    spec = bench.runner.spec
    assert bench.store.durable_runs.is_same(spec, str(spec.origin.run)) is True
    another = having(spec, {"source": SourceSpec(kind="replay")})
    assert bench.store.durable_runs.is_same(another, str(spec.origin.run)) is False
    with closing(open_journal(str(tmp_path), "synthetic", str(spec.origin.run), 1)) as journal:
        journal.store(None, [Pushed(0, ("acknowledged",))] if owes else [])
    end(bench)
    assert bench.is_in(Ended)
    assert bench.store.durable_runs.is_same(spec, str(spec.origin.run)) is (True if owes else None)


def test_a_runner_that_cannot_hand_over_is_replaced_as_after_a_loss(bench: Bench) -> None:
    bench.runner.silent = True
    bench.watchdog.desired.move("node a is to go", 0.0)
    with capture_logs() as logged:
        bench.step(0.5)
        bench.until(lambda: bench.is_in(Up))
    assert logged[0]["event"] == "runner did not hand over by itself"
    assert len(bench.host.runners) == 2


def test_a_runner_that_is_retired_is_not_killed_by_a_second_stop(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "END_S", 0.0)
    retiring, hurried, killed = threading.Event(), threading.Event(), threading.Event()
    ask, kill = bench.runner.ask, bench.runner.kill
    early: list[bool] = []

    def pull_all() -> None:
        retiring.set()
        assert hurried.wait(ANSWER_S)
        early.append(killed.wait(0.3))

    def asked(request: Request[Any], *, timeout_s: float = ANSWER_S) -> Any:
        answer = ask(request, timeout_s=timeout_s)
        if retiring.is_set() and isinstance(request, Stop):
            hurried.set()
        return answer

    monkeypatch.setattr(bench.watchdog.history, "pull_all", pull_all)
    monkeypatch.setattr(bench.runner, "ask", asked)
    monkeypatch.setattr(bench.runner, "kill", lambda: (killed.set(), kill()))
    first = threading.Thread(target=bench.watchdog.stop)
    first.start()
    assert retiring.wait(ANSWER_S)
    bench.watchdog.stop(Stop(drain=False, timeout_s=0.0), 0.0)
    first.join(ANSWER_S)
    assert (early, killed.is_set(), bench.is_in(Ended)) == ([False], True, True)
    assert bench.watchdog.remembered.status is not None


def test_what_the_runner_is_told_was_stored_before(bench: Bench) -> None:
    told: list[Mode] = []
    hear = bench.runner.set_mode

    def set_mode(mode: Mode, composition: str | None) -> None:
        told.append(bench.store.started()["synthetic"].spec.mode)
        hear(mode, composition)

    bench.runner.set_mode = set_mode  # type: ignore[method-assign]
    bench.watchdog.change(SetMode(Mode.PINNED, "7"))
    assert told == [Mode.PINNED]


def test_what_cannot_be_stored_is_not_told(bench: Bench) -> None:
    fill(bench.store)
    with pytest.raises(DiskFullError):
        bench.watchdog.change(SetMode(Mode.PINNED, "7"))
    assert (bench.runner.spec.mode, bench.watchdog.desired.spec.mode) == (Mode.AUTO, Mode.AUTO)


def test_what_the_runner_does_not_take_is_stored_no_more(bench: Bench) -> None:
    bench.runner.silent = True
    with pytest.raises(UnavailableError):
        bench.watchdog.change(SetMode(Mode.PINNED, "7"))
    assert bench.store.started()["synthetic"].spec.mode is Mode.AUTO
    assert bench.watchdog.desired.spec.mode is Mode.AUTO


def test_a_change_that_may_have_reached_a_silent_runner_is_taken_back_when_it_answers_again(bench: Bench) -> None:
    hear = bench.runner.set_slo

    def set_slo(slo: Slo | None) -> None:
        hear(slo)
        raise TimeoutError

    bench.runner.set_slo = set_slo  # type: ignore[method-assign]
    with pytest.raises(UnavailableError):
        bench.watchdog.change(SetSlo(Slo("latency", 1.0)))
    assert bench.runner.spec.slo == Slo("latency", 1.0)
    bench.runner.set_slo = hear  # type: ignore[method-assign]
    bench.step(2.0)
    assert bench.runner.spec.slo is None
