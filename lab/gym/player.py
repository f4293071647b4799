"""Play one policy on the plant: the real dispatcher, monitor and control loop, in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from compositions.enumeration import own_list
from compositions.model import Composition, concurrencies
from control.choices import Choices
from control.decisions import SwitchTo
from control.manager import Manager, TickResult
from control.settings import Measuring, Settings
from control.strategies import make_strategy
from lab.gym.model import Floats, Play, compose, windows_of
from lab.gym.plant import Plant
from lab.gym.policies.port import Given, Policy
from lab.gym.steering import Steered, given_of
from profiler.monitor import Monitor, MonitorSettings
from profiler.slo import Slo
from profiler.snapshot import Announcement, Demand
from runtime.dispatch.dispatcher import Dispatcher
from runtime.dispatch.outcomes import Delivered, Shed
from runtime.dispatch.settings import DispatcherSettings
from runtime.engine import Engine
from service.runner.loop import ControlLoop, LoopSettings

STEP_S = 1.0
"""Between two samples of the picture."""


@dataclass(frozen=True, slots=True)
class Strategy:
    """A strategy of the product, as its users get it: its own list of compositions, its own warm workers."""

    name: str
    first: str = "apart"
    """``merged``: it begins so, as its paper asks."""


Player = Strategy | Callable[[Given], Policy]
"""Who decides: a strategy of the product, or a policy."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the composition that was begun."""

    at_s: float
    composition: str
    reason: str


@dataclass(frozen=True, slots=True)
class Run:
    """What happened in one play. Arrays have a value an item, or a value each ``STEP_S``."""

    play: Play
    latency_s: Floats
    """From due to delivered; infinite for what has not come out."""
    alive: Floats
    """Workers that were asked for and have not ended."""
    extra: Floats
    """What workers cost beyond one each, for what they are bound to."""
    alive_s: float
    """Seconds of workers in the judged time, exactly."""
    changes: tuple[Change, ...]
    in_order: bool


def play_run(play: Play, player: Player, *, gives_up: bool = False) -> Run:
    """Play to the end, or ``gives_up`` when the objective does not hold any more; what follows is late then.

    Raises: RecomposeError if a policy fails, or wants what cannot be.
    """
    run = _Playing(play, player)
    while run.engine.now_s < play.duration_s and not (gives_up and run.failed):
        run.step()
    return run.ended()


class _Playing:
    def __init__(self, play: Play, player: Player) -> None:
        self._play = play
        self._plant = Plant(play.work, play.stages, play.machine)
        stages, machine = play.app_stages, play.machine
        merged = isinstance(player, Strategy) and player.first == "merged"
        groups = play.merged if merged else play.apart
        first = compose(groups, (1,) * len(groups) if merged else play.opening or (1,) * len(groups))
        monitor = Monitor(MonitorSettings(), [stage.name for stage in stages], machine.cores, concurrencies(stages))
        settings = Settings()
        if isinstance(player, Strategy):
            strategy = make_strategy(player.name)
            settings = Settings(measuring=Measuring(latency_from=strategy.latency_from), style=strategy.style)
            self.engine = Engine(Dispatcher(stages, first, DispatcherSettings()), self._plant)
            listed = own_list(stages, machine.most_workers / 2)
            slo = Slo("latency", 1e3 * play.bound_s, statistic="share", share=play.share)
            manager = Manager(settings, strategy, Choices(stages, listed, first), slo=slo)
            manager.announce([Announcement(each.from_s, each.until_s, each.rate_per_s) for each in play.announced])
            self._steered = None
        else:
            policy = player(given_of(play))
            warm = DispatcherSettings(spares=0, idle_worker_s=policy.WARM_S)
            self.engine = Engine(Dispatcher(stages, first, warm), self._plant)
            manager = self._steered = Steered(settings, Choices(stages, (), first), play, policy, self.engine.view)
        self._loop = ControlLoop(self.engine, monitor, manager, LoopSettings(machine.cores, settings.style), self._take)
        if self._steered is not None:
            self._loop.tap = self._steered.note
        self._source = _Source(play, self.engine, monitor)
        self._latency_s = np.full(len(play.work), np.inf)
        self._next_serial, self._in_order = 0, True
        windows = windows_of(play)
        self._window = windows.of_item.tolist()
        self._may_be_late = (np.floor((1 - play.share) * windows.items + 1e-9)).tolist()
        self.failed = False
        """More items of a window were late than may be."""
        self._prices = {stage.name: stage.price for stage in play.stages}
        steps = int(play.duration_s / STEP_S)
        self._alive, self._extra = np.zeros(steps), np.zeros(steps)
        self._sampled = 0
        self._changes: list[Change] = []
        self._turn: TickResult | None = None
        self.engine.start()

    def step(self) -> None:
        due_s = self._source.feed()
        sample_s = self._sampled * STEP_S
        self._loop.step(min(due_s, sample_s, self._play.duration_s))
        self._note_change()
        if self.engine.now_s >= sample_s and self._sampled < len(self._alive):
            self._sample()

    def ended(self) -> Run:
        windows = windows_of(self._play)
        alive_s = self._plant.alive_s(windows.starts_s[0], windows.end_s)
        changes = tuple(self._changes)
        return Run(self._play, self._latency_s, self._alive, self._extra, alive_s, changes, self._in_order)

    def _take(self, item: Delivered | Shed) -> None:
        if isinstance(item, Shed):
            return
        for serial, since_s in zip(item.serials, item.since_s, strict=True):
            self._in_order = self._in_order and serial == self._next_serial
            self._next_serial = serial + 1
            latency_s = item.at_s - since_s
            self._latency_s[serial] = latency_s
            if self._steered is not None:
                self._steered.left(latency_s)
            if latency_s > self._play.bound_s and (window := self._window[serial]) >= 0:
                self._may_be_late[window] -= 1
                self.failed = self.failed or self._may_be_late[window] < 0

    def _note_change(self) -> None:
        result = self._loop.result
        if result is None or result is self._turn:
            return
        self._turn = result
        for command in result.commands:
            if isinstance(command, SwitchTo):
                self._changes.append(Change(self.engine.now_s, command.composition.name, result.decision.reason))

    def _sample(self) -> None:
        view = self.engine.view()
        self._alive[self._sampled] = self._plant.alive
        self._extra[self._sampled] = sum(self._price(view.composition, worker.group) for worker in view.workers)
        self._sampled += 1

    def _price(self, composition: Composition, group: int | None) -> int:
        return 0 if group is None else sum(self._prices[stage] for stage in composition.groups[group].stages)


class _Source:
    """Items come at their own times; those for which there is no room wait outside, and are late from due on."""

    def __init__(self, play: Play, engine: Engine, monitor: Monitor) -> None:
        self._due_s = play.work.due_s.tolist()
        self._engine, self._monitor = engine, monitor
        self._came = self._admitted = 0

    def feed(self) -> float:
        """Admit what is due, and return when the next is."""
        now_s, due_s = self._engine.now_s, self._due_s
        while self._came < len(due_s) and due_s[self._came] <= now_s:
            self._monitor.record_arrivals((due_s[self._came],))
            self._came += 1
        while self._admitted < self._came and self._engine.has_room:
            each_s = due_s[self._admitted]
            self._engine.admit(None, (each_s,), (each_s,))
            self._admitted += 1
        lag_s = now_s - due_s[self._admitted] if self._admitted < self._came else 0.0
        self._monitor.record_demand(now_s, Demand(self._came, self._admitted, 0, lag_s))
        return due_s[self._came] if self._came < len(due_s) else float("inf")
