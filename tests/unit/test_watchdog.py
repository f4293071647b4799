"""The watch over one started app, turned by hand with a clock of its own."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import pytest
from full_disk import fill, free
from structlog.testing import capture_logs

from apps import registry
from compositions.errors import NotNow, RecomposeError
from compositions.model import Composition
from control.decisions import Mode, State
from profiler.slo import Slo
from service.daemon.store.store import DaemonStore, Started
from service.daemon.supervision import runner_slot, ticker
from service.daemon.supervision.desired_state import DesiredState
from service.daemon.supervision.history import HistoryPuller, Remembered
from service.daemon.supervision.restart_policy import (
    BACK_OFF_S,
    HEALTHY_S,
    Condition,
    Ended,
    Failed,
    Starting,
    Up,
    put_off,
)
from service.daemon.supervision.runner_slot import GivenUp, RunnerSlot, StartQueue, waited_for
from service.daemon.supervision.ticker import Ticker
from service.daemon.supervision.watchdog import Watchdog
from service.runner.durable.values import Pushed
from service.runner.rpc.port import ANSWER_S, RunnerPort
from service.runner.rpc.requests import (
    PushMany,
    ReadStatus,
    Request,
    SetBatching,
    SetInput,
    SetMode,
    SetSlo,
    Start,
)
from service.runner.rpc.vital import Vital
from service.runner.validation.durable import open_journal
from service.runner.validation.resolution import choices_for
from service.schemas.figures import Items, LostWorker
from service.schemas.refusals import UnavailableError
from service.schemas.results import Result
from service.schemas.spec import BatchingSpec, InputSpec, PlannedLoad, RunSpec, SourceSpec
from service.schemas.status import RunnerBody, Status
from tests.support.bodies import having
from tests.support.fakes import FakeRunner

A = TypeVar("A")
PUSH = RunSpec(app="synthetic", source=SourceSpec(kind="push"), compositions=choices_for(registry.create("synthetic")))
DURABLE = having(PUSH, {"durability": "exactly-once"})


class Flaky(FakeRunner):
    """Can be made to die, to hang, and to refuse its start."""

    def __init__(self, spec: RunSpec, refuse: Exception | None = None) -> None:
        super().__init__(spec)
        self.refuse, self.silent, self.cut_off = refuse, False, False
        self.failure: str | None = None
        self.figures: dict[str, Any] = {}

    def ask(self, request: Request[A], *, timeout_s: float = ANSWER_S) -> A:
        if self.killed:
            raise ConnectionError("gone")
        if self.silent or self.cut_off:
            raise TimeoutError("silent")
        if isinstance(request, Start) and self.refuse:
            raise self.refuse
        answer = super().ask(request)
        told = {"failure": self.failure, **self.figures}
        return having(answer, told) if isinstance(answer, Status) else answer

    def vital(self) -> Vital:
        return Vital.CUT_OFF if self.cut_off else super().vital()


class Prepared:
    """The process of a successor."""

    def __init__(self, host: Host, name: str) -> None:
        self.host, self.name, self.is_ready, self.killed = host, name, False, False

    def become(self, spec: RunSpec, given_up: GivenUp) -> RunnerPort:
        return self.host.spawn(self.name, spec, given_up)

    def kill(self) -> None:
        self.killed = True


class Host(runner_slot.Host):
    def __init__(self) -> None:
        self.prepared: list[Prepared] = []
        self.runners: list[Flaky] = []
        self.left_over: Flaky | None = None
        self.refuse: Exception | None = None
        self.swept: list[str] = []
        """Of which names what was left for another runner was ended."""

    def spawn(self, name: str, spec: RunSpec, given_up: GivenUp = waited_for) -> RunnerPort:
        self.runners.append(Flaky(spec, self.refuse))
        return self.runners[-1]

    def prepare(self, name: str, spec: RunSpec) -> Prepared:
        self.prepared.append(Prepared(self, name))
        return self.prepared[-1]

    def find(self, name: str) -> RunnerPort | None:
        return self.left_over

    def sweep(self, name: str) -> None:
        self.swept.append(name)


class Bench:
    """A watchdog with everything around it in reach."""

    def __init__(
        self,
        spec: RunSpec = PUSH,
        *,
        attach: bool = False,
        left_over: RunSpec | None = None,
        first_decision: int = 0,
        queue: StartQueue | None = None,
        name: str = "name",
    ) -> None:
        self.now_s = 0.0
        self.store, self.host = DaemonStore(None), Host()
        if left_over is not None:
            self.host.left_over = Flaky(left_over)
            self.host.left_over.start()
        slot = RunnerSlot(name, self.host, queue, attach=attach)
        started = Started(spec, first_decision)
        history = HistoryPuller(spec.app, slot, self.store, first_decision)
        wanted = DesiredState(started, self.store)
        self.watchdog = Watchdog(wanted, slot, history, Ticker("watchdog"), clock=lambda: self.now_s)

    @property
    def runner(self) -> Flaky:
        return self.host.runners[-1]

    def is_in(self, condition: type[Condition]) -> bool:
        return isinstance(self.watchdog.condition, condition)

    def step(self, after_s: float = 0.0) -> float | None:
        self.now_s += after_s
        return self.watchdog.step()

    def until(self, condition: Callable[[], bool], *, limit: int = 50) -> None:
        """Steps as the watch would, each after the delay the last one asked for."""
        delay: float | None = 0.0
        for _ in range(limit):
            if condition() or delay is None:
                break
            delay = self.step(delay)
        assert condition()


def up(bench: Bench) -> Bench:
    bench.until(lambda: bench.is_in(Up))
    bench.step()
    return bench


def revive(bench: Bench) -> None:
    """The runner dies, and another one comes up."""
    bench.runner.killed = True
    bench.until(lambda: len(bench.host.runners) == 2 and bench.is_in(Up))


def test_decisions_go_to_the_state_file() -> None:
    bench = up(Bench())
    bench.runner.set_mode(Mode.PINNED, "7")
    bench.step(0.5)
    assert [each.to for each in bench.store.decisions("synthetic", 10)] == ["7", "1"]


def test_a_dead_runner_comes_back_with_what_it_was_told() -> None:
    bench = up(Bench())
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


def test_a_dead_runner_comes_back_in_its_last_stable_composition() -> None:
    bench = up(Bench())
    bench.runner.set_mode(Mode.AUTO, "5")
    bench.step(2.0)
    revive(bench)
    assert bench.runner.active.name == "5"


def test_the_death_of_a_worker_and_of_a_runner_is_a_line_at_warning_with_place_and_reason() -> None:
    bench = up(Bench())
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


def test_each_runner_has_a_run_of_its_own_and_says_why_it_is_another_one() -> None:
    bench = up(Bench())
    first = bench.runner.spec
    revive(bench)
    second = bench.runner.spec
    assert (first.origin.epoch, first.origin.started_again) == (1, None)
    assert (second.origin.epoch, second.origin.started_again) == (2, "ConnectionError: gone")
    assert None is not first.origin.run != second.origin.run is not None
    status = bench.watchdog.ask(ReadStatus())
    assert (status.origin.run, status.origin.epoch, status.origin.started_again) == (
        second.origin.run,
        2,
        "ConnectionError: gone",
    )
    assert bench.store.started()["synthetic"].spec.origin.run == second.origin.run


def test_what_a_runner_had_not_delivered_is_told_with_its_death() -> None:
    bench = up(Bench())
    bench.step(2.0)
    last = bench.watchdog.ask(ReadStatus())
    seen = having(last, {"items": Items(accepted=9, delivered=5, failed=1, shed=0)})
    bench.watchdog.remembered = Remembered(seen)
    revive(bench)
    told = "ConnectionError: gone; of what it had accepted 3 items were not out yet"
    assert bench.runner.spec.origin.started_again == told


def test_that_a_runner_was_started_again_is_among_the_decisions_with_its_reason() -> None:
    bench = up(Bench())
    bench.runner.set_mode(Mode.AUTO, "5")
    bench.step(2.0)
    revive(bench)
    bench.step(0.5)
    start, again, *earlier = bench.store.decisions("synthetic", 10)
    assert (again.trigger, again.from_, again.to) == ("failure", "5", "5")
    assert again.reason == "the runner was started again: ConnectionError: gone"
    assert again.run == start.run == bench.runner.spec.origin.run
    assert {each.run for each in earlier} == {bench.host.runners[0].spec.origin.run}


def test_a_daemon_that_is_started_again_says_so_where_its_runner_ended_with_it() -> None:
    bench = up(Bench())
    later = up(Bench(bench.store.started()["synthetic"].spec))
    assert (later.runner.spec.origin.epoch, later.runner.spec.origin.run) != (1, bench.runner.spec.origin.run)
    later.step(0.5)
    again = later.store.decisions("synthetic", 10)[-1]
    assert (again.trigger, again.run) == ("failure", later.runner.spec.origin.run)
    assert "the service was started again" in again.reason


def test_a_runner_that_is_found_again_goes_on_with_its_run() -> None:
    bench = Bench(
        having(PUSH, {"run": "known", "epoch": 3}), attach=True, left_over=having(PUSH, {"run": "its own", "epoch": 4})
    )
    up(bench)
    assert (bench.watchdog.desired.spec.origin.run, bench.watchdog.desired.spec.origin.epoch) == ("its own", 4)
    assert {each.run for each in bench.store.decisions("synthetic", 10)} == {"its own"}
    assert [each.trigger for each in bench.store.decisions("synthetic", 10)] == ["start"]


@pytest.mark.logs_errors("app failed")
def test_after_many_deaths_the_app_has_failed_and_says_why() -> None:
    bench = Bench()
    bench.until(lambda: bench.is_in(Failed) or _kill(bench), limit=100)
    assert len(bench.host.runners) == len(BACK_OFF_S) + 1
    assert (
        bench.watchdog.condition.deaths.reason
        == f"the runner died {len(BACK_OFF_S) + 1} times; last: ConnectionError: gone"
    )
    assert bench.now_s >= sum(BACK_OFF_S)
    assert bench.step() is None
    with pytest.raises(UnavailableError, match="the runner of synthetic is failed"):
        bench.watchdog.ask(ReadStatus())


def _kill(bench: Bench) -> bool:
    if bench.host.runners:
        bench.runner.killed = True
    return False


def test_a_runner_that_lived_long_gets_fresh_attempts() -> None:
    bench = up(Bench())
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
def test_a_durable_run_that_gets_on_is_kept_up_however_often_its_runner_dies(
    durability: Any, items: int, kept_up: bool
) -> None:
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


@pytest.mark.parametrize("how", ["killed", "silent"])
def test_a_run_that_owes_something_is_kept_up_however_often_its_runner_dies_while_it_is_up(
    tmp_path: Path, how: str
) -> None:
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


def over(bench: Bench) -> None:
    bench.runner.stop()
    bench.until(lambda: bench.is_in(Ended))


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


def test_a_start_that_is_put_off_is_made_when_it_can_be_and_told_once() -> None:
    bench = up(Bench())
    bench.host.refuse = NotNow("journal /j cannot be written now: database or disk is full")
    bench.runner.killed = True
    with capture_logs() as logs:
        bench.until(lambda: len(bench.host.runners) == 3 * len(BACK_OFF_S))
    assert bench.is_in(Starting)
    assert put_off(bench.watchdog.condition) == str(bench.host.refuse)
    assert [line["event"] for line in logs].count("runner cannot start now and is tried again") == 1
    bench.host.refuse = None
    bench.until(lambda: bench.is_in(Up))
    deaths = bench.watchdog.condition.deaths
    assert (deaths.restarts, deaths.reason) == (1, "ConnectionError: gone")
    told = [each for each in bench.store.decisions("synthetic", 50) if each.trigger == "failure"]
    assert ["gone" in each.reason for each in told] == [True]


@pytest.mark.parametrize("how", ["silent", "cut_off"])
def test_a_silent_runner_is_replaced_when_its_lease_is_over_and_not_before(how: str) -> None:
    bench = up(Bench(having(PUSH, {"settings": {"lease_s": 12}})))
    silent = bench.runner
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
    reason = bench.watchdog.condition.deaths.reason or ""
    assert ("hung: it has answered nothing for 12 s" if how == "silent" else "cut off: nothing was heard") in reason


@pytest.mark.logs_errors("turn failed")
def test_a_watch_goes_on_after_a_turn_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ticker, "AFTER_ERROR_S", 0.0)
    turns = iter([OSError("no more open files"), ValueError("a bug"), None])
    ticks = Ticker("watchdog")
    taken: list[object] = []

    def turn() -> None:
        taken.append(error := next(turns))
        if error is not None:
            raise error

    ticks.start(turn)
    ticks.join(ANSWER_S)
    assert [type(each) for each in taken] == [OSError, ValueError, type(None)]


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
    assert (bench.watchdog.desired.spec.origin.run, bench.watchdog.desired.spec.origin.epoch) == (
        before.origin.run,
        before.origin.epoch,
    )
    warned = [(line["event"], line["seen"]) for line in logs if line["log_level"] == "warning"]
    assert warned == [("runner does not answer", "cut off")]


def test_what_is_asked_during_the_start_is_told_after_it() -> None:
    bench = Bench()
    slo = Slo("throughput", "input_rate")
    bench.watchdog.change(SetSlo(slo))
    bench.step()
    bench.runner.state = State("starting")
    bench.watchdog.change(SetInput(InputSpec(rate_per_s=3)))
    assert bench.runner.spec.input.rate_per_s is None
    bench.runner.state = State("stable")
    bench.step(2.0)
    assert (bench.runner.spec.slo, bench.runner.spec.input.rate_per_s) == (slo, 3)


def test_the_end_of_a_run_leaves_its_results_and_frees_the_runner() -> None:
    bench = up(Bench())
    bench.watchdog.ask(PushMany(("last words",)))
    bench.runner.stop()
    bench.until(lambda: bench.is_in(Ended))
    assert bench.runner.killed
    assert list(bench.watchdog.remembered.results) == [
        Result(serial=0, value="last words", run=bench.runner.spec.origin.run)
    ]
    assert bench.store.started() == {}


def test_stop_drains_and_keeps_what_came_out() -> None:
    bench = up(Bench())
    bench.runner.hold = True
    bench.watchdog.ask(PushMany((1,)))
    bench.watchdog.stop()
    assert list(bench.watchdog.remembered.results) == [Result(serial=0, value=1, run=bench.runner.spec.origin.run)]
    assert bench.watchdog.remembered.status is not None
    assert bench.watchdog.remembered.status.items.delivered == 1
    assert bench.runner.killed


def test_a_runner_that_is_to_move_delivers_what_it_has_and_another_goes_on() -> None:
    bench = up(Bench())
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
    assert [each["event"] for each in logged if each["log_level"] != "debug"] == ["runner moves", "runner up"]
    origin = bench.runner.spec.origin
    assert (origin.epoch, origin.started_again) == (2, "node a is to go")
    assert bench.watchdog.condition.deaths.restarts == 0
    bench.step(0.5)
    assert (len(bench.host.runners), len(bench.host.prepared)) == (2, 1), "it moves once"


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


def test_a_runner_that_cannot_stop_is_killed() -> None:
    bench = up(Bench())
    bench.runner.silent = True
    bench.watchdog.stop()
    assert bench.runner.killed
    assert bench.is_in(Ended)


def killed_at_its_stop(bench: Bench) -> None:
    bench.runner.silent = True
    bench.watchdog.stop()


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


def test_a_full_disk_costs_history_not_the_stream() -> None:
    bench = up(Bench())
    fill(bench.store)
    for number in range(12):
        bench.runner.set_mode(Mode.AUTO, "57"[number % 2])
        bench.step(2.0)
    assert bench.is_in(Up)
    assert (len(bench.host.runners), bench.runner.killed) == (1, False)
    free(bench.store)
    revive(bench)
    assert bench.runner.active.name == "7"


def test_history_that_did_not_fit_is_stored_once_there_is_room() -> None:
    bench = up(Bench())
    fill(bench.store)
    bench.runner.set_mode(Mode.AUTO, "5")
    bench.step(2.0)
    assert [each.to for each in bench.store.decisions("synthetic", 10)] == ["1"]
    free(bench.store)
    bench.step(2.0)
    assert [each.to for each in bench.store.decisions("synthetic", 10)] == ["5", "1"]
    assert bench.store.started()["synthetic"].spec.composition == "5"


def test_that_a_run_has_ended_is_stored_before_its_runner_goes() -> None:
    bench = up(Bench())
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
    assert [each.value for each in bench.watchdog.remembered.results] == ["last words"]


def test_a_run_that_closes_for_half_a_minute_is_left_alone() -> None:
    bench = up(Bench())
    bench.runner.state = State.CLOSING
    for _ in range(60):
        bench.step(0.5)
    assert (bench.is_in(Up), len(bench.host.runners)) == (True, 1)
    bench.runner.state = State.STOPPED
    bench.until(lambda: bench.is_in(Ended))
    assert len(bench.host.runners) == 1


def test_a_mode_that_was_acknowledged_outlives_a_runner_that_was_not_there_yet() -> None:
    """The status that was under way when the mode was set tells of the composition before."""
    bench = up(Bench())
    bench.watchdog.change(SetMode(Mode.PINNED, "7"))
    bench.runner.active = next(each for each in PUSH.compositions if each.name == "1")
    bench.step(2.0)
    revive(bench)
    reborn = bench.runner.spec
    assert (reborn.mode, reborn.composition, bench.runner.active.name) == (Mode.PINNED, "7", "7")
    stored = bench.store.started()["synthetic"].spec
    assert (stored.mode, stored.composition) == (Mode.PINNED, "7")


def test_what_the_runner_does_not_take_is_stored_no_more() -> None:
    bench = up(Bench())
    bench.runner.silent = True
    with pytest.raises(UnavailableError):
        bench.watchdog.change(SetMode(Mode.PINNED, "7"))
    assert bench.store.started()["synthetic"].spec.mode is Mode.AUTO
    assert bench.watchdog.desired.spec.mode is Mode.AUTO


def left_running(*, started: bool = True) -> Bench:
    """An earlier daemon's runner, and a daemon that was told other things while it was away from it."""
    bench = Bench(WANTED, attach=True)
    bench.host.left_over = Flaky(PUSH)
    if started:
        bench.host.left_over.start()
    return up(bench)


FIVE = next(each for each in PUSH.compositions if each.name == "5")
OTHER = Composition("other", FIVE.groups)
WANTED = having(
    PUSH,
    {
        "slo": Slo("latency", 250.0),
        "input": InputSpec(rate_per_s=9),
        "announced": (PlannedLoad(from_epoch_s=4e9, until_epoch_s=4.1e9, rate_per_s=80),),
        "compositions": (*PUSH.compositions, OTHER),
        "mode": Mode.PINNED,
        "composition": "other",
    },
)


def test_a_runner_that_is_found_again_is_told_what_was_asked_while_the_daemon_was_away() -> None:
    runner = left_running().host.left_over
    assert runner is not None
    assert runner.spec == WANTED
    assert runner.active == OTHER


def test_a_runner_that_was_built_and_not_started_is_started_by_the_next_daemon() -> None:
    runner = left_running(started=False).host.left_over
    assert runner is not None
    assert runner.state is State.STABLE
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
