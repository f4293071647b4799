"""The port of a batch controller: observations of delivered bundles in, the size of the next bundle out.

The thesis that these controllers come from (Leonarczyk 2024, section 4.1) calls a bundle a batch. The values are
tuples: there is one of each for every bundle, and a comparison of controllers makes a hundred million.
"""

from abc import ABC, abstractmethod
from typing import NamedTuple


class DeliveredBundle(NamedTuple):
    """A bundle that has left, in the order of leaving."""

    first: int
    """Serial number of its first item."""
    items: int
    latency_s: float
    """From the arrival of its oldest item to its delivery: filling, waiting and work."""
    filled_s: float
    """Part of it until the bundle was closed and sent."""
    work_s: float
    """Part of it in which workers worked on this bundle, over all stages and hops."""


class BundleOpening(NamedTuple):
    """The facts known when a bundle begins to take items."""

    first: int
    """Serial number that its first item will have: also says how many items the one before took."""
    rate_per_s: float | None = None
    """Items that arrive per second; None: they are always there, as the thesis assumes."""
    waiting: int = 0
    """Items of a paced source that have arrived already and go into this bundle and those after it."""


class Choice(NamedTuple):
    """A size and why. The same object stands while the size does: who keeps decisions compares with ``is``."""

    items: int
    reason: str


class BatchController(ABC):
    """Chooses how many items a bundle takes. Pure: same calls, same answers. It never waits for a measurement."""

    name: str

    @abstractmethod
    def delivered(self, bundle: DeliveredBundle) -> None:
        """Takes one measurement."""

    @abstractmethod
    def next(self, opening: BundleOpening) -> Choice:
        """Size of the bundle that is being opened; bundles in flight keep theirs."""
