"""What can be chosen from, as a table for the capacity model."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator

from compositions.capacity.table import CompositionTable
from compositions.model import Composition


class Catalogue:
    """Each shape once, a row each."""

    def __init__(self, compositions: Iterable[Composition]) -> None:
        by_shape: dict[Hashable, Composition] = {}
        for composition in compositions:
            by_shape.setdefault(composition.shape, composition)
        self.rows = {shape: row for row, shape in enumerate(by_shape)}
        self.table = CompositionTable(tuple(by_shape.values()))
        self._extended: Catalogue | None = None

    def including(self, active: Composition) -> Catalogue:
        """Itself, or one more row when ``active`` is not among them. The last such is kept: it is asked for again, and
        ten thousand rows take as long as several ticks."""
        if active.shape in self.rows:
            return self
        if self._extended is None or active.shape not in self._extended.rows:
            self._extended = Catalogue((*self.table.compositions, active))
        return self._extended

    def row_of(self, composition: Composition) -> int:
        """Raises: KeyError when it is not among them."""
        return self.rows[composition.shape]

    def known(self, shapes: Iterable[Hashable]) -> Iterator[tuple[int, Hashable]]:
        """Rows of those of ``shapes`` that are among them."""
        return ((self.rows[shape], shape) for shape in shapes if shape in self.rows)
