"""The port of a regulator: what a control step has measured, and how many replicas there are to be."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Step:
    """One control step of the replicated group."""

    replicas: int
    latency_s: float | None
    """Mean of the items that were finished in the step; None: there was none."""
    rate_per_s: float | None = None
    """Items that are asked for; None: not known."""
    waits: bool = False
    """More items wait for a replica than there are replicas."""
    service_s: float | None = None
    """What all stages take for an item, where items wait inside for one another, so that the latency is not theirs."""
    cpu_share: float = 1.0
    """Of the time that the group takes for an item, what it computes; the rest it waits for something else."""


@dataclass(frozen=True, slots=True)
class ReplicaChoice:
    """Replicas from now on, and why that many."""

    replicas: int
    reason: str


class Regulator(ABC):
    """Pure: same calls, same answers. A resize is made in place: nothing is drained, no composition is switched."""

    name: str

    @abstractmethod
    def regulate(self, step: Step) -> ReplicaChoice:
        """To be asked once every ``interval_s`` of its settings."""
