"""Play one policy on the plant: the real dispatcher, monitor and control loop, in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from compositions.model import Composition
from control.strategies import base, make_strategy
from lab.gym.model import Floats, Play, compose, windows_of
from lab.gym.plant import Plant
from lab.gym.policies.port import Given, Policy
from lab.gym.steering import ByPolicy, ByStrategy, Change, Steering, given_of
from profiler.snapshot import Demand
from runtime.dispatch.dispatcher import Dispatcher
from runtime.dispatch.outcomes import Delivered, Shed
from runtime.dispatch.settings import DispatcherSettings
from runtime.engine import Engine

STEP_S = 1.0
"""Time between two samples of the picture."""


@dataclass(frozen=True, slots=True)
class Strategy:
    """A strategy of the product in its users' form: with its own list of compositions and its own warm workers."""

    name: str
    first: str = "apart"
    """Composition at the beginning; ``merged`` as the strategy's paper requires."""
    make: Callable[[], base.Strategy] | None = None
    """Function that creates it with other settings than users get."""

    def made(self) -> base.Strategy:
        return self.make() if self.make else make_strategy(self.name)


@dataclass(frozen=True, slots=True)
class Knowing:
    """A policy that knows the play: a bound for the others, not a competitor."""

    make: Callable[[Play], Callable[[Given], Policy]]


Player = Strategy | Knowing | Callable[[Given], Policy]
"""A strategy of the product, or a policy."""


@dataclass(frozen=True, slots=True)
class Run:
    """The outcome of one play. Arrays have a value per item, or a value per ``STEP_S``."""

    play: Play
    latency_s: Floats
    """Time from due to delivered; infinite for items that were not delivered."""
    alive: Floats
    """Workers that were requested and have not ended."""
    extra: Floats
    """Extra cost of workers for the stages they are bound to."""
    alive_s: float
    """Seconds of workers in the judged time, exactly."""
    changes: tuple[Change, ...]
    in_order: bool


def play_run(play: Play, player: Player, *, gives_up: bool = False) -> Run:
    """Play to the end, or until the objective can no longer hold if ``gives_up``; later items then count as late.

    Raises: RecomposeError if a policy fails, or requests something impossible.
    """
    run = _Playing(play, player)
    while run.engine.now_s < play.duration_s and not (gives_up and run.failed):
        run.step()
    return run.ended()


class _Playing:
    def __init__(self, play: Play, player: Player) -> None:
        self._play = play
        self._plant = Plant(play.work, play.stages, play.machine)
        if isinstance(player, Strategy):
            settings, strategy = DispatcherSettings(), player.made()
            first = _first(play, player.first, cheap=strategy.begins_cheap)
            if not strategy.keeps_warm:
                settings = settings.lean
            self.engine = Engine(Dispatcher(play.app_stages, first, settings), self._plant)
            self._steering: Steering = ByStrategy(play, strategy, self.engine, first, self._take)
        else:
            make = player.make(play) if isinstance(player, Knowing) else player
            policy, first = make(given_of(play)), _first(play)
            warm = DispatcherSettings(spares=0, idle_worker_s=policy.WARM_S)
            self.engine = Engine(Dispatcher(play.app_stages, first, warm), self._plant)
            self._steering = ByPolicy(play, policy, self.engine, first, self._take)
        self._source = _Source(play, self.engine, self._steering)
        self._latency_s = np.full(len(play.work), np.inf)
        self._next_serial, self._in_order = 0, True
        windows = windows_of(play)
        self._window = windows.of_item.tolist()
        self._may_be_late = (np.floor((1 - play.share) * windows.items + 1e-9)).tolist()
        self.failed = False
        """True if more items of a window were late than allowed."""
        self._prices = {stage.name: stage.price for stage in play.stages if stage.price}
        steps = int(play.duration_s / STEP_S)
        self._alive, self._extra = np.zeros(steps), np.zeros(steps)
        self._sampled = 0
        self.engine.start()

    def step(self) -> None:
        due_s = self._source.feed()
        sample_s = self._sampled * STEP_S
        self._steering.step(min(due_s, sample_s, self._play.duration_s))
        if self.engine.now_s >= sample_s and self._sampled < len(self._alive):
            self._sample()

    def ended(self) -> Run:
        windows = windows_of(self._play)
        alive_s = self._plant.alive_s(windows.starts_s[0], windows.end_s)
        changes = tuple(self._steering.changes)
        return Run(self._play, self._latency_s, self._alive, self._extra, alive_s, changes, self._in_order)

    def _take(self, item: Delivered | Shed) -> None:
        if isinstance(item, Shed):
            return
        for serial, since_s in zip(item.serials, item.since_s, strict=True):
            self._in_order = self._in_order and serial == self._next_serial
            self._next_serial = serial + 1
            latency_s = item.at_s - since_s
            self._latency_s[serial] = latency_s
            if latency_s > self._play.bound_s and (window := self._window[serial]) >= 0:
                self._may_be_late[window] -= 1
                self.failed = self.failed or self._may_be_late[window] < 0

    def _sample(self) -> None:
        self._alive[self._sampled] = self._plant.alive
        if self._prices:
            view = self.engine.view()
            self._extra[self._sampled] = sum(self._price(view.composition, worker.group) for worker in view.workers)
        self._sampled += 1

    def _price(self, composition: Composition, group: int | None) -> int:
        return 0 if group is None else sum(self._prices.get(stage, 0) for stage in composition.groups[group].stages)


def _first(play: Play, first: str = "apart", *, cheap: bool = False) -> Composition:
    """Return the composition that a run begins with. ``cheap``: one worker, as users of the strategy get it."""
    if first == "merged":
        return compose(play.merged, (1,) * len(play.merged))
    if cheap and not play.opening:
        return compose((tuple(stage.name for stage in play.stages),), (1,))
    return compose(play.apart, play.opening or (1,) * len(play.apart))


class _Source:
    """Items come at their own times; those for which there is no room wait outside, and are late from due on."""

    def __init__(self, play: Play, engine: Engine, steering: Steering) -> None:
        self._due_s = play.work.due_s.tolist()
        self._engine, self._steering = engine, steering
        self._came = self._admitted = 0

    def feed(self) -> float:
        """Admit items that are due; return the time when the next one is."""
        now_s, due_s = self._engine.now_s, self._due_s
        while self._came < len(due_s) and due_s[self._came] <= now_s:
            self._steering.came((due_s[self._came],))
            self._came += 1
        while self._admitted < self._came and self._engine.has_room:
            each_s = due_s[self._admitted]
            self._engine.admit(None, (each_s,), (each_s,))
            self._admitted += 1
        lag_s = now_s - due_s[self._admitted] if self._admitted < self._came else 0.0
        self._steering.asked(now_s, Demand(self._came, self._admitted, 0, lag_s))
        return due_s[self._came] if self._came < len(due_s) else float("inf")
