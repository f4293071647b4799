"""Define the port of a policy: its input at each turn, and its answer.

A policy of one's own is a class with two methods in a file (docs/research/gym.md).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from compositions.model import Composition

Replicas = Mapping[str, int]
"""Replicas by stage, with each stage in its own group; stages that are left out keep their replicas."""


@dataclass(frozen=True, slots=True)
class Given:
    """Facts that a policy knows from the beginning."""

    stages: tuple[str, ...]
    bound_s: float
    """An item is in time if it is delivered within this many seconds."""
    workers: int
    """Maximum number of workers alive at a time, over all stages."""
    share: float = 0.95
    """Share of the items that must be in time."""
    cores: int = 1
    """Cores of the machine."""
    start_s: float = 1.0
    """Time that a worker takes to start, in seconds."""
    stateful: tuple[str, ...] = ()
    """Stages that keep a state: more than one replica adds nothing, and a group with one of them cannot have more."""
    prices: tuple[int, ...] = ()
    """Extra cost of a worker that runs the stage, by stage; empty: none."""


@dataclass(frozen=True, slots=True)
class StageNow:
    """Measurements of a stage since the last turn."""

    name: str
    replicas: int
    """The last requested number, even if not all have started; of stages that run together, that of their group."""
    busy_s: float
    """Total time that its replicas worked on the items that they finished."""
    done: int
    """Number of items that it finished."""
    waiting: int
    """Number of items at the stage now: waiting, or in work. A stage with too few replicas holds earlier ones back, up
    to the source: items there count for the most utilized stage, as if queues were unlimited."""
    ready: int = 1
    """Number of replicas that have started."""


@dataclass(frozen=True, slots=True)
class Load:
    """An announced load: a rate from ``from_s`` until ``until_s``."""

    from_s: float
    until_s: float
    rate_per_s: float


@dataclass(frozen=True, slots=True)
class Measured:
    """The measurements of one turn. Times are in seconds."""

    at_s: float
    elapsed_s: float
    """Time since the previous turn."""
    arrived: int
    """Number of items that came since then, read or not."""
    latency_s: float | None
    """Mean over the last ten seconds, from due to delivered; None: no item was delivered."""
    backlog: int
    """Number of items that no stage has begun."""
    stages: tuple[StageNow, ...]
    """Stages in the app's order."""
    in_time: tuple[int, int] = (0, 0)
    """Items delivered since the last turn: within the bound, and in all."""
    announced: tuple[Load, ...] = ()
    """Announced loads, which every policy knows."""


class Policy(ABC):
    """A policy, created for each run with the facts of ``Given``. It must be pure: same calls, same answers."""

    WARM_S = 0.0
    """A worker that is not needed any more ends after so many seconds; until then it costs, and can be used again."""

    @abstractmethod
    def __init__(self, given: Given) -> None: ...

    @abstractmethod
    def observe(self, measured: Measured) -> None:
        """Take the measurements; called four times a second."""

    @abstractmethod
    def decide(self) -> Replicas | Composition:
        """Called after each ``observe``: the replicas that there are to be from now on, nothing to leave all as it is,
        or a whole composition, where stages are to run together."""
