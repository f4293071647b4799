"""The port of a policy: what it is told at every turn, and how many replicas each stage is to have.

Each stage is a group of its own; a resize is made in place, and a worker that is not there takes its time to start. A
policy of one's own is a class with these two methods in a file (docs/gym.md).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from compositions.model import Composition

Replicas = Mapping[str, int]
"""Of stages by name; those that are left out stay as they are."""


@dataclass(frozen=True, slots=True)
class Given:
    """What a policy knows from the beginning."""

    stages: tuple[str, ...]
    bound_s: float
    """Within this an item is in time."""
    workers: int
    """There may be so many over all stages."""


@dataclass(frozen=True, slots=True)
class StageNow:
    """A stage in the time since the last turn."""

    name: str
    replicas: int
    """As asked for last, whether they are there yet or not."""
    busy_s: float
    """Time that its replicas worked, together, for what they finished."""
    done: int
    """Items that it finished."""
    waiting: int
    """Items that are at it now: waiting, or in work. Who is short of replicas holds back those before it, up to the
    source: what waits there counts for the stage that is utilized most, as if queues between stages had no limit."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One turn. Times in seconds."""

    at_s: float
    elapsed_s: float
    """Since the turn before."""
    arrived: int
    """Items that came since then, read or not."""
    latency_s: float | None
    """Mean over the last ten seconds; None: nothing came out."""
    backlog: int
    """Items that no stage has begun."""
    stages: tuple[StageNow, ...]
    """In the app's order."""


class Policy(ABC):
    """Made anew for each run, with what is ``given``. Pure: same calls, same answers."""

    @abstractmethod
    def __init__(self, given: Given) -> None: ...

    @abstractmethod
    def observe(self, measured: Measured) -> None:
        """Called four times a second."""

    @abstractmethod
    def decide(self) -> Replicas | Composition:
        """Called after each ``observe``: the replicas that there are to be from now on, nothing to leave all as it is,
        or a whole composition, where stages are to run together."""
