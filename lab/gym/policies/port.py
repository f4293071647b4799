"""Define the port of a policy: its input at each turn, and its answer.

A policy of one's own is a class with two methods in a file (docs/research/gym.md).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from compositions.model import Composition

Replicas = Mapping[str, int]
"""Replicas by stage, each stage a group of its own; stages that are left out stay as they are."""


@dataclass(frozen=True, slots=True)
class Given:
    """Facts that a policy knows from the beginning."""

    stages: tuple[str, ...]
    bound_s: float
    """Within this an item is in time."""
    workers: int
    """So many may be alive at a time, over all stages."""
    share: float = 0.95
    """Share of the items that have to be in time."""
    cores: int = 1
    """Cores of the machine."""
    start_s: float = 1.0
    """A worker takes so long to start."""
    stateful: tuple[str, ...] = ()
    """Stages that keep a state: more than one replica adds nothing, and a group with one of them cannot have more."""
    prices: tuple[int, ...] = ()
    """Extra cost of a worker that runs the stage, by stage; empty: none."""


@dataclass(frozen=True, slots=True)
class StageNow:
    """A stage in the time since the last turn."""

    name: str
    replicas: int
    """As asked for last, whether they are there yet or not. Of stages that run together: of their group."""
    busy_s: float
    """Time that its replicas worked, together, for what they finished."""
    done: int
    """Items that it finished."""
    waiting: int
    """Items that are at it now: waiting, or in work. Who is short of replicas holds back those before it, up to the
    source: what waits there counts for the stage that is utilized most, as if queues between stages had no limit."""
    ready: int = 1
    """Replicas that are there."""


@dataclass(frozen=True, slots=True)
class Load:
    """An announced load: a rate from ``from_s`` until ``until_s``."""

    from_s: float
    until_s: float
    rate_per_s: float


@dataclass(frozen=True, slots=True)
class Measured:
    """One turn. Times in seconds."""

    at_s: float
    elapsed_s: float
    """Since the turn before."""
    arrived: int
    """Items that came since then, read or not."""
    latency_s: float | None
    """Mean over the last ten seconds, from due to delivered; None: nothing came out."""
    backlog: int
    """Items that no stage has begun."""
    stages: tuple[StageNow, ...]
    """In the app's order."""
    in_time: tuple[int, int] = (0, 0)
    """Items delivered since the last turn: within the bound, and in all."""
    announced: tuple[Load, ...] = ()
    """Known to everybody."""


class Policy(ABC):
    """Made anew for each run, with what is ``given``. Pure: same calls, same answers."""

    WARM_S = 0.0
    """A worker that is not needed any more ends after so many seconds; until then it costs, and can be used again."""

    @abstractmethod
    def __init__(self, given: Given) -> None: ...

    @abstractmethod
    def observe(self, measured: Measured) -> None:
        """Called four times a second."""

    @abstractmethod
    def decide(self) -> Replicas | Composition:
        """Called after each ``observe``: the replicas that there are to be from now on, nothing to leave all as it is,
        or a whole composition, where stages are to run together."""
