"""The watch over one started app: its end, its moves, what is stored before it is told, a full disk, races of a stop,
and runners that are found again."""

import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from full_disk import fill, free
from structlog.testing import capture_logs
from watchdog_bench import DURABLE, PUSH, Bench, Flaky, over, revive, up

from compositions.errors import RecomposeError
from compositions.model import Composition
from control.decisions import Mode, State
from profiler.slo import Slo
from service.daemon.store.store import Started
from service.daemon.supervision import watchdog
from service.daemon.supervision.restart_policy import BACK_OFF_S, Ended, Failed, Starting, Up
from service.runner.durable.values import Pushed
from service.runner.rpc.port import ANSWER_S
from service.runner.rpc.requests import PushMany, ReadStatus, Request, SetMode, SetSlo, Stop
from service.runner.validation.durable import open_journal
from service.schemas.figures import Worker
from service.schemas.refusals import UnavailableError
from service.schemas.spec import InputSpec, PlannedLoad, SourceSpec
from service.schemas.status import RunnerBody
from tests.support.bodies import having


def test_a_runner_that_is_to_move_delivers_what_it_has_and_another_goes_on(bench: Bench) -> None:
    first = bench.runner
    first.hold = True
    bench.watchdog.ask(PushMany((1,)))
    bench.watchdog.desired.move("node a is to go", 5.0)
    for _ in range(3):
        bench.step(0.5)
        assert bench.is_in(Up), "it goes on until another one has loaded what it needs"
        assert bench.watchdog.ask(ReadStatus()).items.delivered == 0
    (successor,) = bench.host.prepared
    successor.is_ready = True
    with capture_logs() as logged:
        bench.step(0.5)
        assert bench.is_in(Starting)
        assert first.killed
        bench.until(lambda: bench.is_in(Up))
    assert bench.watchdog.remembered.unfinished == 0
    events = [each["event"] for each in logged if each["log_level"] != "debug"]
    assert events == ["runner moves to another node", "runner is up"]
    origin = bench.runner.spec.origin
    assert (origin.epoch, origin.started_again) == (2, "node a is to go")
    assert bench.watchdog.condition.deaths.restarts == 0
    bench.step(0.5)
    assert (len(bench.host.runners), len(bench.host.prepared)) == (2, 1), "it moves once"


def test_a_runner_moves_after_its_workers(bench: Bench) -> None:
    """Starts of workers that are under way are lost with the runner that asked for them."""
    worker = Worker(id="w1", pid=2, node="a", group=0, outstanding=0, restarts=0)
    bench.runner.figures = {"runner": RunnerBody(node="a", pid=1, since="2026-11-28T00:00:00Z"), "workers": [worker]}
    bench.watchdog.desired.move("node a is to go", 60.0)
    bench.step(0.5)
    bench.host.prepared[0].is_ready = True
    bench.step(0.5)
    assert bench.is_in(Up)
    bench.runner.figures["workers"] = [worker.model_copy(update={"node": "b"})]
    bench.step(0.5)
    assert bench.is_in(Starting)


def test_a_move_does_not_wait_for_long_and_its_successor_is_of_use_after_a_death_too() -> None:
    late, died, stopped = up(Bench()), up(Bench()), up(Bench())
    late.watchdog.desired.move("node a is to go", 0.0)
    late.step(0.5)
    assert late.is_in(Starting)
    for bench in (died, stopped):
        bench.watchdog.desired.move("node a is to go", 60.0)
        bench.step(0.5)
    died.runner.killed = True
    died.until(lambda: len(died.host.runners) == 2)
    stopped.watchdog.stop()
    assert [bench.host.prepared[0].killed for bench in (died, stopped)] == [False, True]


def killed_at_its_stop(bench: Bench) -> None:
    bench.runner.silent = True
    bench.watchdog.stop()
    assert (bench.runner.killed, bench.is_in(Ended)) == (True, True)


def refused(bench: Bench) -> None:
    bench.runner.killed, bench.host.refuse = True, RecomposeError("no such composition")
    bench.until(lambda: bench.is_in(Failed))


@pytest.mark.logs_errors("app failed")
@pytest.mark.parametrize("end", [lambda bench: bench.watchdog.stop(), killed_at_its_stop, refused, over])
def test_what_is_kept_for_another_runner_ends_with_the_run_and_not_before(end: Callable[[Bench], None]) -> None:
    bench = up(Bench(DURABLE))
    revive(bench)
    assert bench.host.swept == [], "they are the next runner's"
    end(bench)
    assert bench.host.swept == ["name"]


def test_workers_of_a_run_that_begins_anew_end_with_a_runner_that_died_but_not_with_one_that_moved() -> None:
    died, moved = up(Bench()), up(Bench())
    died.runner.killed = True
    moved.watchdog.desired.move("node a is to go", 0.0)
    died.until(lambda: len(died.host.runners) == 2)
    moved.until(lambda: len(moved.host.runners) == 2)
    assert (died.host.swept, moved.host.swept) == (["name"], [])


def test_history_that_did_not_fit_is_stored_once_there_is_room(bench: Bench) -> None:
    fill(bench.store)
    for number in range(12):
        bench.runner.set_mode(Mode.AUTO, "75"[number % 2])
        bench.step(2.0)
    assert [each.to for each in bench.store.decisions("synthetic", 10)] == ["1"]
    assert (bench.is_in(Up), len(bench.host.runners), bench.runner.killed) == (True, 1, False)
    free(bench.store)
    bench.step(2.0)
    assert [each.to for each in bench.store.decisions("synthetic", 3)] == ["5", "7", "5"]
    assert bench.store.started()["synthetic"].spec.composition == "5"


def test_that_a_run_has_ended_is_stored_before_its_runner_goes(bench: Bench) -> None:
    bench.store.put_started("synthetic", Started(PUSH, 0))
    bench.watchdog.ask(PushMany(("last words",)))
    bench.runner.stop()
    fill(bench.store)
    for _ in range(6):
        bench.step(2.0)
    assert (bench.is_in(Up), bench.runner.killed) == (True, False)
    free(bench.store)
    bench.until(lambda: bench.is_in(Ended))
    assert bench.store.started() == {}
    assert bench.runner.killed
    (result,) = bench.watchdog.remembered.results
    assert (result.value, result.run) == ("last words", bench.runner.spec.origin.run)


def test_a_run_that_closes_for_half_a_minute_is_left_alone(bench: Bench) -> None:
    bench.runner.state = State.CLOSING
    for _ in range(60):
        bench.step(0.5)
    assert (bench.is_in(Up), len(bench.host.runners)) == (True, 1)
    bench.runner.state = State.STOPPED
    bench.until(lambda: bench.is_in(Ended))
    assert len(bench.host.runners) == 1


def test_a_mode_that_was_acknowledged_outlives_a_runner_that_was_not_there_yet(bench: Bench) -> None:
    """The status that was under way when the mode was set tells of the composition before."""
    bench.watchdog.change(SetMode(Mode.PINNED, "7"))
    bench.runner.active = next(each for each in PUSH.compositions if each.name == "1")
    bench.step(2.0)
    revive(bench)
    reborn = bench.runner.spec
    assert (reborn.mode, reborn.composition, bench.runner.active.name) == (Mode.PINNED, "7", "7")
    stored = bench.store.started()["synthetic"].spec
    assert (stored.mode, stored.composition) == (Mode.PINNED, "7")


FIVE = next(each for each in PUSH.compositions if each.name == "5")
OTHER = Composition("other", FIVE.groups)
LOAD = PlannedLoad(from_epoch_s=4e9, until_epoch_s=4.1e9, rate_per_s=80)
ASKED = {"slo": Slo("latency", 250.0), "input": InputSpec(rate_per_s=9), "announced": (LOAD,), "mode": Mode.PINNED}
WANTED = having(PUSH, {**ASKED, "compositions": (*PUSH.compositions, OTHER), "composition": "other"})


@pytest.mark.parametrize("started", [True, False])
def test_a_runner_that_is_found_again_is_started_and_told_what_was_asked_meanwhile(started: bool) -> None:
    bench = Bench(WANTED, attach=True)
    bench.host.left_over = runner = Flaky(PUSH)
    if started:
        runner.start()
    up(bench)
    assert (runner.spec, runner.active, runner.state) == (WANTED, OTHER, State.STABLE)
    assert [each.trigger for each in runner.decided] == ["start", "manual"]


def test_what_runs_under_a_name_is_not_replaced_by_what_it_means_by_now() -> None:
    bench = Bench(having(PUSH, {"compositions": (Composition("1", FIVE.groups),)}), attach=True, left_over=PUSH)
    up(bench)
    one = next(each for each in PUSH.compositions if each.name == "1")
    assert bench.host.left_over.spec.compositions == bench.watchdog.desired.spec.compositions == (one,)


def test_a_runner_that_is_found_again_and_does_not_answer_has_its_lease() -> None:
    bench = Bench(having(PUSH, {"settings": {"lease_s": 5}}), attach=True)
    hung = bench.host.left_over = Flaky(PUSH)
    hung.silent = True
    up(bench)
    bench.step(4.0)
    assert (hung.killed, bench.host.runners) == (False, [])
    bench.until(lambda: len(bench.host.runners) == 1)
    assert hung.killed


@pytest.mark.parametrize(("how", "value"), [("killed", True), ("silent", True), ("state", State.FAILED)])
def test_a_run_that_owes_something_is_kept_up_however_often_it_dies(tmp_path: Path, how: str, value: Any) -> None:
    durable = {"durability": "exactly-once", "journals": str(tmp_path), "run": "r", "settings": {"lease_s": 5}}
    bench = Bench(having(PUSH, durable))
    with closing(open_journal(str(tmp_path), "synthetic", "r", 1)) as journal:
        journal.store(None, [Pushed(0, ("acknowledged",))])
    for number in range(len(BACK_OFF_S) + 2):
        bench.until(lambda: bench.is_in(Up | Failed))
        assert bench.is_in(Up), (number, bench.watchdog.condition)
        setattr(bench.runner, how, value)
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
    assert logged[0]["event"] == "items not handed over by the runner are processed again"
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
