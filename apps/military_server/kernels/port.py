"""What a kernel computes, for a whole bundle of ``n`` tuples at once."""

from __future__ import annotations

from typing import Protocol

from apps.military_server.records import Ints


class Kernel(Protocol):
    """All arguments and results are whole numbers, so all kernels give the same."""

    def explore(self, widths: Ints, coordinates: Ints) -> Ints:
        """Map: features of the squares ahead of every coordinate, in all four directions together (n × 32 × 4).

        Mean height and relief (highest less lowest), and of a thousand squares those under water and those with trees.
        A square area of ``width`` squares a side begins right before the coordinate, in the middle of its side.
        """

    def place(self, features: Ints, kinds: Ints) -> tuple[Ints, Ints]:
        """Map-reduce: for every unit the coordinate that is least unlike what it wants, the first of equal ones, and
        how much it is: the sum over all features of weight × distance (both n × 16)."""

    def fit(self, penalties: Ints) -> Ints:
        """Reduce: how many units of a tuple stand well (n)."""
