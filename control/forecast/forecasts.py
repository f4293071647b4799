"""Forecasts of many compositions as columns, because there may be ten thousand of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from compositions.model import Composition
from control.forecast.affording import Need, Rows
from control.forecast.catalogue import Catalogue

Array = npt.NDArray[np.float64]

_COLUMNS = ("capacity", "latency", "low", "likely", "high", "transition")


@dataclass(frozen=True, slots=True)
class Forecast:
    """``low``, ``likely``, ``high``: how well the SLO is met as a ratio, 1 just so, 1.1 with 10 % to spare."""

    composition: Composition
    throughput_per_s: float
    latency_s: float
    """The SLO's statistic; infinite where the queue grows without end."""
    low: float
    likely: float
    high: float
    transition_s: float
    """How long it takes to get there; 0 for the active one."""
    seen: bool | None = None
    """Whether a measurement says that it meets the SLO at this need, rather than the model alone."""


@dataclass(frozen=True, slots=True)
class Beside:
    """What is known of the rows beside what they will do."""

    verdicts: Mapping[int, bool]
    """Whether a measurement says that they meet the SLO at this need."""
    missed_lately: Rows
    """Those that were measured to miss it at a need not significantly above the present one."""
    affordable: Rows
    """Those within the budget; where none is, those that come nearest to it."""
    needs: tuple[Need, ...] = ()
    """What each of several things takes by itself, whatever the budget."""


class Forecasts:
    """Forecasts of all compositions, cheapest first; of equally cheap ones those that reach the target itself before
    those that only stay within the threshold, and then those that are sooner got to."""

    def __init__(
        self,
        catalogue: Catalogue,
        columns: Mapping[str, Array],
        ample: float,
        told: Beside,
    ) -> None:
        self.missed_lately, self.affordable, self.needs = told.missed_lately, told.affordable, told.needs
        self._catalogue = catalogue
        self._table = table = catalogue.table
        self._columns = columns
        self._verdicts = told.verdicts
        cheapness = 2 * table.workers + (columns["likely"] < ample)  # two keys in one: each key is a sort
        self.order = np.lexsort((table.groups, columns["transition"], cheapness))

    def __len__(self) -> int:
        return len(self.order)

    def __getitem__(self, rank: int) -> Forecast:
        row = int(self.order[rank])
        capacity, latency, low, likely, high, way_s = (float(self._columns[name][row]) for name in _COLUMNS)
        seen = self._verdicts.get(row)
        return Forecast(self._table.compositions[row], capacity, latency, low, likely, high, way_s, seen)

    def where(self, chosen: npt.NDArray[np.bool_]) -> Iterator[Forecast]:
        """Those of the rows ``chosen`` (in the order of the table), cheapest first."""
        return (self[int(rank)] for rank in np.flatnonzero(chosen[self.order]))

    def of(self, composition: Composition) -> Forecast:
        return self[self.rank(composition)]

    def rank(self, composition: Composition) -> int:
        """Its place among all. Raises: KeyError when it is not among them."""
        return int(np.flatnonzero(self.order == self._catalogue.row_of(composition))[0])

    def column(self, name: str) -> Array:
        """``capacity``, ``latency``, ``low``, ``likely``, ``high``, ``transition`` in the order of the table."""
        return self._columns[name]

    def alike(self, composition: Composition) -> npt.NDArray[np.bool_]:
        """Rows with the same groups as ``composition``, whatever their replicas."""
        return self._table.grouped_as(self._catalogue.row_of(composition))

    def affords(self, composition: Composition) -> bool:
        """It is within the budget."""
        return bool(self.affordable[self._catalogue.row_of(composition)])

    def gives_way(self, composition: Composition) -> tuple[Need, ...]:
        """Which of several things ``composition`` cannot do."""
        row = self._catalogue.row_of(composition)
        return tuple(need for need in self.needs if not need.fits[row])

    @property
    def workers(self) -> npt.NDArray[np.int64]:
        return self._table.workers

    def unseen(self) -> npt.NDArray[np.bool_]:
        """Rows of which no measurement tells at this need."""
        mask = np.ones(len(self), dtype=bool)
        mask[list(self._verdicts)] = False
        return mask
