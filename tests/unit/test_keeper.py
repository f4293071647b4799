"""The watch over one started app, turned by hand with a clock of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from apps import registry
from compositions.errors import RecomposeError
from control.decisions import Mode
from profiler.slo import Slo
from service.bodies.refusals import UnavailableError
from service.bodies.results import Result
from service.bodies.spec import InputSpec, RunSpec, SourceSpec
from service.daemon.fake_runner import FakeRunner
from service.daemon.hosts import CALL_TIMEOUT_S, RunnerHandle
from service.daemon.keeper import BACK_OFF_S, HEALTHY_S, SILENT_LIMIT, Keeper, Phase
from service.daemon.store import Started, State
from service.running.shipped import choices_for

PUSH = RunSpec(
    app="synthetic",
    source=SourceSpec(kind="push"),
    compositions=choices_for(registry.create("synthetic")),
)


class Handle:
    """A fake runner that can be made to die, to hang, and to refuse its start."""

    def __init__(self, runner: FakeRunner, refuse: Exception | None = None) -> None:
        self.runner, self.refuse = runner, refuse
        self.dead = self.silent = False

    def call(self, method: str, *args: Any, timeout_s: float = CALL_TIMEOUT_S) -> Any:
        if self.dead:
            raise ConnectionError("gone")
        if self.silent:
            raise TimeoutError("silent")
        if method == "start" and self.refuse:
            raise self.refuse
        return getattr(self.runner, method)(*args)

    def alive(self) -> bool:
        return not self.dead

    def kill(self) -> None:
        self.dead = True


class Host:
    def __init__(self) -> None:
        self.handles: list[Handle] = []
        self.left_over: Handle | None = None
        self.refuse: Exception | None = None

    def spawn(self, name: str, spec: RunSpec) -> RunnerHandle:
        self.handles.append(Handle(FakeRunner(spec), self.refuse))
        return self.handles[-1]

    def find(self, name: str) -> RunnerHandle | None:
        return self.left_over

    def ready(self) -> bool:
        return True

    def close(self) -> None: ...


class Bench:
    """A keeper with everything around it in reach."""

    def __init__(self, spec: RunSpec = PUSH, *, attach: bool = False, first_decision: int = 0) -> None:
        self.now_s = 0.0
        self.state, self.host = State(None), Host()
        started = Started(spec, first_decision)
        self.keeper = Keeper("name", started, self.host, self.state, attach=attach, clock=lambda: self.now_s)

    @property
    def handle(self) -> Handle:
        return self.host.handles[-1]

    def step(self, after_s: float = 0.0) -> float | None:
        self.now_s += after_s
        return self.keeper.step()

    def until(self, condition: Callable[[], bool], *, limit: int = 50) -> None:
        """Steps as the watch would, each after the delay the last one asked for."""
        delay: float | None = 0.0
        for _ in range(limit):
            if condition() or delay is None:
                break
            delay = self.step(delay)
        assert condition()


def up(bench: Bench) -> Bench:
    bench.until(lambda: bench.keeper.phase is Phase.UP)
    bench.step()
    return bench


def test_decisions_go_to_the_state_file() -> None:
    bench = up(Bench())
    bench.handle.runner.set_mode(Mode.PINNED, "7")
    bench.step(0.5)
    assert [each.to for each in bench.state.decisions("synthetic", 10)] == ["7", "1"]


def test_a_dead_runner_comes_back_with_what_it_was_told() -> None:
    bench = up(Bench())
    slo = Slo("latency", 400.0)
    bench.keeper.change("set_slo", (slo,), slo=slo)
    bench.keeper.change("set_input", (InputSpec(rate_per_s=7),), input=InputSpec(rate_per_s=7))
    bench.keeper.change("set_mode", (Mode.PINNED, "7"), mode=Mode.PINNED, composition="7")
    bench.handle.dead = True
    bench.step(0.5)
    assert bench.keeper.phase is Phase.STARTING
    bench.until(lambda: bench.keeper.phase is Phase.UP)
    reborn = bench.handle.runner.spec
    assert len(bench.host.handles) == 2
    assert (reborn.slo, reborn.input.rate_per_s, reborn.mode, reborn.composition) == (slo, 7, Mode.PINNED, "7")
    assert bench.keeper.restarts == 1


def test_a_dead_runner_comes_back_in_its_last_stable_composition() -> None:
    bench = up(Bench())
    bench.handle.runner.set_mode(Mode.AUTO, "5")
    bench.step(2.0)
    bench.handle.dead = True
    bench.until(lambda: len(bench.host.handles) == 2)
    assert bench.handle.runner.active.name == "5"


def test_ids_of_decisions_go_on_after_a_restart() -> None:
    bench = up(Bench())
    bench.handle.dead = True
    bench.until(lambda: len(bench.host.handles) == 2)
    bench.step(0.5)
    assert [each.id for each in bench.state.decisions("synthetic", 10)] == [2, 1]


@pytest.mark.logs_errors("app failed")
def test_after_many_deaths_the_app_has_failed_and_says_why() -> None:
    bench = Bench()
    bench.until(lambda: bench.keeper.phase is Phase.FAILED or _kill(bench), limit=100)
    assert len(bench.host.handles) == len(BACK_OFF_S) + 1
    assert bench.keeper.error == f"the runner died {len(BACK_OFF_S) + 1} times; last: ConnectionError: gone"
    assert bench.now_s >= sum(BACK_OFF_S)
    assert bench.step() is None
    with pytest.raises(UnavailableError, match="the runner of synthetic is failed"):
        bench.keeper.call("status")


def _kill(bench: Bench) -> bool:
    if bench.host.handles:
        bench.handle.dead = True
    return False


def test_a_runner_that_lived_long_gets_fresh_attempts() -> None:
    bench = up(Bench())
    for _ in range(3 * len(BACK_OFF_S)):
        bench.step(HEALTHY_S)
        bench.handle.dead = True
        bench.until(lambda: bench.keeper.phase is Phase.STARTING)
        bench.until(lambda: bench.keeper.phase is Phase.UP)
    assert bench.keeper.phase is Phase.UP


@pytest.mark.logs_errors("app failed")
def test_a_refused_spec_is_not_tried_again() -> None:
    bench = Bench()
    bench.host.refuse = RecomposeError("no photos in '/x'; give a folder with photos")
    assert bench.step() is None
    assert (bench.keeper.phase, len(bench.host.handles)) == (Phase.FAILED, 1)
    assert bench.keeper.error == "no photos in '/x'; give a folder with photos"


def test_a_hung_runner_is_replaced_after_some_silence() -> None:
    bench = up(Bench())
    hung = bench.handle
    hung.silent = True
    for _ in range(SILENT_LIMIT - 1):
        bench.step(0.5)
        assert bench.keeper.phase is Phase.UP
    with pytest.raises(UnavailableError, match="does not answer"):
        bench.keeper.call("status")
    bench.step(0.5)
    assert hung.dead
    bench.until(lambda: bench.keeper.phase is Phase.UP)


def test_a_runner_that_was_left_running_is_found_again() -> None:
    bench = Bench(attach=True, first_decision=10)
    bench.host.left_over = Handle(FakeRunner(PUSH))
    bench.host.left_over.runner.start()
    up(bench)
    bench.step(0.5)
    assert bench.host.handles == []
    assert [each.id for each in bench.state.decisions("synthetic", 10)] == [11]


def test_what_is_asked_during_the_start_is_told_after_it() -> None:
    bench = Bench()
    slo = Slo("throughput", "input_rate")
    bench.keeper.change("set_slo", (slo,), slo=slo)
    bench.step()
    bench.handle.runner.state = type(bench.handle.runner.state)("starting")
    bench.keeper.change("set_input", (InputSpec(rate_per_s=3),), input=InputSpec(rate_per_s=3))
    assert bench.handle.runner.spec.input.rate_per_s is None
    bench.handle.runner.state = type(bench.handle.runner.state)("stable")
    bench.step(2.0)
    assert (bench.handle.runner.spec.slo, bench.handle.runner.spec.input.rate_per_s) == (slo, 3)


def test_the_end_of_a_run_leaves_its_results_and_frees_the_runner() -> None:
    bench = up(Bench())
    bench.keeper.call("push", "last words")
    bench.handle.runner.stop()
    bench.until(lambda: bench.keeper.phase is Phase.ENDED)
    assert bench.handle.dead
    assert bench.keeper.last_results == [Result(serial=0, value="last words")]
    assert bench.state.started() == {}


def test_stop_drains_and_keeps_what_came_out() -> None:
    bench = up(Bench())
    bench.handle.runner.hold = True
    bench.keeper.call("push", 1)
    bench.keeper.stop()
    assert bench.keeper.last_results == [Result(serial=0, value=1)]
    assert bench.keeper.last_status is not None
    assert bench.keeper.last_status.items.delivered == 1
    assert bench.handle.dead


def test_a_runner_that_cannot_stop_is_killed() -> None:
    bench = up(Bench())
    bench.handle.silent = True
    bench.keeper.stop()
    assert bench.handle.dead
    assert bench.keeper.phase is Phase.ENDED
