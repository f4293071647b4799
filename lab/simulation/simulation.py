"""A whole run in virtual time: the real dispatcher, monitor, manager and loop on simulated workers."""

from __future__ import annotations

from collections import deque

from control.decisions import Mode
from control.manager import Manager
from lab.simulation.gathering import SimulatedDoor, SimulatedInlet
from lab.simulation.pool import SimulatedPool
from lab.simulation.run import loop_on, pool_of
from lab.simulation.scenario import Happening, Scenario
from lab.simulation.trace import Trace
from profiler.snapshot import Announcement
from runtime.dispatch.outcomes import Delivered, Shed
from service.runner.bundling import Bundling
from service.runner.loop import ControlLoop


def simulate(scenario: Scenario) -> Trace:
    """Run ``scenario`` to its end."""
    run = SimulatedRun(scenario)
    run.advance(scenario.duration_s)
    return run.finish()


class SimulatedRun:
    """A run of a scenario, step by step."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._pool = pool_of(scenario)
        inlet = SimulatedInlet(scenario.rate)
        self._bundling = bundling = Bundling(inlet, scenario.batching, scenario.opening)
        self._loop = loop = loop_on(self._pool, scenario, self._take, bundling)
        self._engine, self._manager = loop.engine, loop.manager
        door = SimulatedDoor(loop.engine, inlet, bundling.admitted, bundling.tell)
        self._source = scenario.stream.source(door, loop.monitor, from_due=scenario.from_due)
        self._happenings = deque(sorted(scenario.happenings, key=lambda happening: happening.at_s))
        self._announced: list[Announcement] = []
        self._trace = Trace(loop.journal, bundling.runs)
        self._engine.start()

    @property
    def loop(self) -> ControlLoop:
        return self._loop

    @property
    def manager(self) -> Manager:
        return self._manager

    @property
    def pool(self) -> SimulatedPool:
        return self._pool

    def advance(self, until_s: float) -> None:
        """Advance until then, or until it is over."""
        while self._engine.now_s < until_s and not self._over():
            self._happen()
            due_s = self._source.feed()
            self._loop.step(min(due_s, until_s))
            self._note()

    def finish(self) -> Trace:
        """Return its trace."""
        self._trace.accepted = self._engine.view().accepted
        snapshot = self._loop.snapshot
        self._trace.offered = snapshot.demand.offered if snapshot is not None and snapshot.demand is not None else None
        return self._trace

    def _take(self, item: Delivered | Shed) -> None:
        if isinstance(item, Delivered):
            self._trace.take(item)

    def _over(self) -> bool:
        limit_s, items = self._scenario.until_settled_s, self._scenario.items
        settled = limit_s is not None and self._engine.now_s - self._trace.quiet_since_s > limit_s
        return settled or (items is not None and len(self._trace.delivered) >= items)

    def _note(self) -> None:
        snapshot, result = self._loop.snapshot, self._loop.result
        if snapshot is not None and result is not None and snapshot.now_s > self._trace.noted_s:
            self._trace.note(snapshot, result, self._engine.view().composition, self._manager.slo)

    def _happen(self) -> None:
        while self._happenings and self._happenings[0].at_s <= self._engine.now_s:
            self._do(self._happenings.popleft())

    def _do(self, happening: Happening) -> None:
        match happening.action:
            case "lose_worker":
                self._pool.lose(self._engine.view().workers[0].worker)
            case "slo":
                self._manager.set_slo(happening.slo)
            case "announce" if happening.announcement is not None:
                self._announced.append(happening.announcement)
                self._manager.announce(self._announced)
            case "compositions":
                self._manager.set_compositions(happening.compositions)
            case "pin":
                self._manager.set_mode(Mode.PINNED, happening.name)
            case "cores":
                self._pool.set_cores(happening.cores)
            case "batch":
                self._bundling.set(happening.batching)
            case "auto" | "observe":
                self._manager.set_mode(Mode(happening.action))
