"""Many compositions of one app as arrays, so that all of them are predicted at once."""

from collections.abc import Sequence
from copy import copy

import numpy as np
import numpy.typing as npt

from compositions.capacity.costs import Array
from compositions.errors import CompositionError, Fault
from compositions.model import Composition


class CompositionTable:
    """The groups of compositions as arrays of shape (most groups, compositions); missing groups have no stage.

    Row ``i`` has the ``i``-th group of all compositions, because predictions are computed group by group.

    Build it once for a set of compositions and keep it: costs change at every tick, the set does not.

    Raises: CompositionError if a composition arranges other stages than the first.
    """

    def __init__(self, compositions: Sequence[Composition]) -> None:
        self.compositions = tuple(compositions)
        self.stages = compositions[0].stages if compositions else ()
        for composition in self.compositions:
            if composition.stages != self.stages:
                what = f"composition {composition.name!r} has stages {', '.join(composition.stages)}"
                raise CompositionError([Fault("", f"{what}; those of the others are {', '.join(self.stages)}")])
        width = max((len(composition.groups) for composition in self.compositions), default=1)
        replicas = [[group.replicas for group in each.groups] for each in self.compositions]
        lengths = [[len(group.stages) for group in each.groups] for each in self.compositions]
        self.replicas: Array = _padded(replicas, width, fill=1).astype(float)
        self.pools: Array = np.array([each.workers if each.dyn else np.inf for each in self.compositions], dtype=float)
        """Number of workers that all groups share; infinite if each group has its own workers."""
        ends = np.cumsum(_padded(lengths, width, fill=0), axis=0)
        starts = np.vstack((np.zeros_like(ends[:1]), ends[:-1]))
        self._spans = starts * (len(self.stages) + 1) + ends
        self._from_here = np.tri(len(self.stages), dtype=bool).T
        """Mask of the stages at or after a row's stage: those that a group which begins there may have."""
        self.is_group = ends > starts
        self.groups: npt.NDArray[np.int64] = self.is_group.sum(axis=0)
        self.workers: npt.NDArray[np.int64] = np.array([each.workers for each in self.compositions], dtype=np.int64)
        named = [each.batch.items if each.batch else None for each in self.compositions]
        self.bundle_items: Array = np.array([np.nan if items is None else items for items in named])
        """Bundle size that each composition sets itself, in items; NaN if it sets none."""

    def __len__(self) -> int:
        return len(self.compositions)

    def only(self, rows: npt.NDArray[np.intp]) -> "CompositionTable":
        """Return the table of these compositions."""
        part = copy(self)
        part.compositions = tuple(self.compositions[row] for row in rows)
        part.replicas, part.is_group, part._spans = self.replicas[:, rows], self.is_group[:, rows], self._spans[:, rows]
        part.pools, part.groups, part.workers = self.pools[rows], self.groups[rows], self.workers[rows]
        part.bundle_items = self.bundle_items[rows]
        return part

    def per_group(self, per_stage: Sequence[float]) -> Array:
        """Return the sums of a quantity over the stages of every group; 0 where there is no group."""
        # Every span is summed from its own start: differences of running sums would not be monotonic to the last bit.
        spans = np.zeros((len(self.stages) + 1, len(self.stages) + 1))
        spans[:-1, 1:] = np.where(self._from_here, per_stage, 0.0).cumsum(axis=1)
        sums: Array = spans.take(self._spans)
        return sums

    def most_in_group(self, per_stage: Sequence[float]) -> Array:
        """Return the maximum of a non-negative quantity over the stages of every group; 0 where there is no group."""
        spans = np.zeros((len(self.stages) + 1, len(self.stages) + 1))
        spans[:-1, 1:] = np.maximum.accumulate(np.where(self._from_here, per_stage, 0.0), axis=1)
        largest: Array = spans.take(self._spans)
        return largest


def _padded(rows: Sequence[Sequence[int]], width: int, fill: int) -> npt.NDArray[np.int64]:
    filled = [[*row, *[fill] * (width - len(row))] for row in rows]
    return np.array(filled, dtype=np.int64).reshape(len(rows), width).T.copy()
