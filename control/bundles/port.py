"""The port of a batch controller: observations of delivered bundles in, the size of the next bundle out.

The thesis that these controllers come from (Leonarczyk 2024, section 4.1) calls a bundle a batch. The values are
tuples because they are fast to make: every bundle has one of each, and a comparison of controllers makes 100 million.
"""

from abc import ABC, abstractmethod
from typing import NamedTuple


class DeliveredBundle(NamedTuple):
    """A delivered bundle; bundles are delivered in order."""

    first: int
    """Serial number of its first item."""
    items: int
    latency_s: float
    """Time from the arrival of its oldest item to its delivery: filling, waiting and work."""
    filled_s: float
    """Part of the latency until the bundle was closed and sent."""
    work_s: float
    """Part of the latency in which workers worked on this bundle, over all stages and hops."""


class BundleOpening(NamedTuple):
    """The facts known when a bundle begins to take items."""

    first: int
    """Serial number of its first item; the difference to the bundle before is the size of that bundle."""
    rate_per_s: float | None = None
    """Input rate in items/s; None: the source always has items, as the thesis assumes."""
    waiting: int = 0
    """Items of a paced source that have arrived already; they go into this bundle and the next ones."""


class Choice(NamedTuple):
    """A size and its reason. While the size stays, the controller returns the same object, for comparison by ``is``."""

    items: int
    reason: str


class BatchController(ABC):
    """Chooses the number of items of a bundle. Pure: same calls, same answers. It never waits for a measurement."""

    name: str

    @abstractmethod
    def delivered(self, bundle: DeliveredBundle) -> None:
        """Learn from a delivered bundle."""

    @abstractmethod
    def next(self, opening: BundleOpening) -> Choice:
        """Return the size of the bundle that is being opened; bundles in flight keep theirs."""
