"""A watchdog turned by hand, its runners, and the host that makes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from apps import registry
from service.daemon.store.store import DaemonStore, Started
from service.daemon.supervision import runner_slot
from service.daemon.supervision.desired_state import DesiredState
from service.daemon.supervision.history import HistoryPuller
from service.daemon.supervision.restart_policy import Condition, Ended, Up
from service.daemon.supervision.runner_slot import GivenUp, RunnerSlot, StartQueue, waited_for
from service.daemon.supervision.ticker import Ticker
from service.daemon.supervision.watchdog import Watchdog
from service.runner.rpc.port import ANSWER_S, RunnerPort
from service.runner.rpc.requests import Request, Start
from service.runner.rpc.vital import Vital
from service.runner.validation.resolution import choices_for
from service.schemas.spec import RunSpec, SourceSpec
from service.schemas.status import Status
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
        self.figures: dict[str, Any] = {}

    def ask(self, request: Request[A], *, timeout_s: float = ANSWER_S) -> A:
        if self.killed:
            raise ConnectionError("gone")
        if self.silent or self.cut_off:
            raise TimeoutError("silent")
        if isinstance(request, Start) and self.refuse:
            raise self.refuse
        answer = super().ask(request)
        return having(answer, self.figures) if isinstance(answer, Status) else answer

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
        queue: StartQueue | None = None,
        name: str = "name",
    ) -> None:
        self.now_s = 0.0
        self.store, self.host = DaemonStore(None), Host()
        if left_over is not None:
            self.host.left_over = Flaky(left_over)
            self.host.left_over.start()
        slot = RunnerSlot(name, self.host, queue, attach=attach)
        started = Started(spec, 0)
        history = HistoryPuller(spec.app, slot, self.store, 0)
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


def over(bench: Bench) -> None:
    bench.runner.stop()
    bench.until(lambda: bench.is_in(Ended))
