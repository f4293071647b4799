"""Many compositions of one app as arrays, so that all of them are priced at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from compositions.capacity.queueing import Array
from compositions.errors import CompositionError, Fault
from compositions.model import Composition


class CompositionTable:
    """The groups of compositions as arrays of shape (compositions, most groups); missing groups hold no stage.

    Build it once for a set of compositions and keep it: prices change every tick, the set does not.

    Raises: CompositionError when a composition arranges other stages than the first.
    """

    def __init__(self, compositions: Sequence[Composition]) -> None:
        self.compositions = tuple(compositions)
        self.stages = compositions[0].stages if compositions else ()
        for composition in self.compositions:
            if composition.stages != self.stages:
                what = f"composition {composition.name!r} arranges {', '.join(composition.stages)}"
                raise CompositionError([Fault("", f"{what}; the others arrange {', '.join(self.stages)}")])
        width = max((len(composition.groups) for composition in self.compositions), default=1)
        replicas = [[group.replicas for group in each.groups] for each in self.compositions]
        lengths = [[len(group.stages) for group in each.groups] for each in self.compositions]
        self.replicas: Array = _padded(replicas, width, fill=1).astype(float)
        self.ends = np.cumsum(_padded(lengths, width, fill=0), axis=1, dtype=np.int64)
        self.starts = np.pad(self.ends, ((0, 0), (1, 0)))[:, :-1]
        self.is_group = self.ends > self.starts
        self.workers: npt.NDArray[np.int64] = np.array([each.workers for each in self.compositions], dtype=np.int64)

    def __len__(self) -> int:
        return len(self.compositions)

    def per_group(self, per_stage: Sequence[float]) -> Array:
        """Sums of a quantity over the stages of every group; 0 where there is no group."""
        # Every span is summed from its own start: differences of running sums would not be monotonic to the last bit.
        spans = np.zeros((len(self.stages) + 1, len(self.stages) + 1))
        for start in range(len(self.stages)):
            spans[start, start + 1 :] = np.cumsum(per_stage[start:])
        sums: Array = spans[self.starts, self.ends]
        return sums


def _padded(rows: Sequence[Sequence[int]], width: int, fill: int) -> npt.NDArray[np.int64]:
    filled = [[*row, *[fill] * (width - len(row))] for row in rows]
    return np.array(filled, dtype=np.int64).reshape(len(rows), width)
