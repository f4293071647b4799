"""Drive an engine through a scenario: the same code on Ray and on the plant."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from compositions.model import Composition
from lab.benchmarks.reality.scenarios import KILL, Floats
from runtime.dispatch.outcomes import Delivered, Outcome, TaskTimed, WorkersChanged
from runtime.dispatch.settings import DispatcherSettings
from runtime.engine import Engine

SETTINGS = DispatcherSettings(spares=0)
"""Without spares, so that a replacement takes a start, as where each worker that is alive costs."""
LOOK_S = 0.25
PATIENCE_S = 60.0

Event = tuple[float, Composition | str]
"""When, and the composition that is to run, or KILL."""


@dataclass(slots=True)
class Driven:
    """The outcome of a drive. Times in seconds since its beginning."""

    delivered_s: Floats
    """By item; NaN: it was not delivered, or failed."""
    timed: list[TaskTimed] = field(default_factory=list)
    joined_s: list[float] = field(default_factory=list)
    """When workers joined after the beginning."""


@dataclass(frozen=True, slots=True)
class World:
    """What differs between Ray and the plant."""

    engine: Engine
    payloads: Iterator[Any]
    """Encoded when they are admitted, as the service does."""
    kill: Callable[[], None]
    """Let the oldest worker die."""
    look: Callable[[], None] = lambda: None
    """Called a few times a second, and when workers came or went."""


def drive(world: World, due_s: Floats, events: Sequence[Event], begin_s: float) -> Driven:
    """Feed items when they are due, carry out ``events``, and return when all items are out.

    Raises: TimeoutError when they are not within PATIENCE_S after the last was due.
    """
    engine, driven = world.engine, Driven(np.full(len(due_s), np.nan))
    due, left = [begin_s + at_s for at_s in due_s.tolist()], [(begin_s + at_s, what) for at_s, what in events]
    fed, look_s = 0, begin_s
    while fed < len(due) or left or not engine.idle:
        now_s = engine.now_s
        if now_s > due[-1] + PATIENCE_S:
            raise TimeoutError(f"not all items are out after {PATIENCE_S:g} s: {engine.view()}")
        while fed < len(due) and due[fed] <= now_s and engine.has_room:
            engine.admit(next(world.payloads), (now_s,), (due[fed],))
            fed += 1
        while left and left[0][0] <= now_s:
            _happen(world, left.pop(0)[1])
        if now_s >= look_s:
            world.look()
            look_s = now_s + LOOK_S
        until_s = min([look_s, *(at_s for at_s, _ in left[:1])])
        if fed < len(due) and engine.has_room:
            until_s = min(until_s, due[fed])
        outcomes = engine.advance(max(until_s, now_s))
        for outcome in outcomes:
            _note(driven, outcome, begin_s)
        if any(isinstance(outcome, WorkersChanged) for outcome in outcomes):
            world.look()
    return driven


def _happen(world: World, what: Composition | str) -> None:
    if what == KILL:
        world.kill()
    elif isinstance(what, Composition):
        world.engine.switch(what)


def _note(driven: Driven, outcome: Outcome, begin_s: float) -> None:
    if isinstance(outcome, Delivered):
        if outcome.error is None:
            driven.delivered_s[outcome.serial : outcome.serial + outcome.count] = outcome.at_s - begin_s
    elif isinstance(outcome, TaskTimed):
        driven.timed.append(outcome)
    elif isinstance(outcome, WorkersChanged):
        driven.joined_s += [outcome.at_s - begin_s] * len(outcome.joined)
