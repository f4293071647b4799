"""What a budget leaves to choose from, and what those things that are asked for would take by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from compositions.capacity.prediction import Predictions
from compositions.wording import figure
from control.arbitration.bid import Reach
from control.forecast.catalogue import Catalogue
from profiler.budget import Budget

_ROUNDING = 1e-6
_AS_GOOD = 0.999

Limits = Sequence[Budget]
Reaches = tuple[Reach, ...]
Rows = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Need:
    """The least that something takes; ``None``: nothing known can do it."""

    asked: str
    fits: Rows
    """The rows that can do it."""
    workers: int | None
    cores: float | None

    def told(self, budget: Budget) -> str:
        """In what the budget counts: ``6 workers``."""
        if self.workers is None or self.cores is None:
            return "more than there is to choose from"
        return amount(budget, self.workers, self.cores)


def amount(budget: Budget, workers: int, cores: float) -> str:
    """Workers, cores or both, as the budget has it."""
    kinds = []
    if budget.workers is not None or budget.cores is None:
        kinds.append(f"{workers} {'worker' if workers == 1 else 'workers'}")
    if budget.cores is not None:
        kinds.append(f"{figure(cores)} {'core' if cores == 1 else 'cores'}")
    return " and ".join(kinds)


def need_of(asked: str, fits: Rows, predictions: Predictions) -> Need:
    """The least of all rows that can do it."""
    if not fits.any():
        return Need(asked, fits, None, None)
    return Need(asked, fits, int(predictions.workers[fits].min()), float(_cores(predictions)[fits].min()))


def within(budget: Budget, predictions: Predictions) -> Rows:
    """Rows within ``budget``; where none is, those that come nearest to it."""
    strictly = allowed(budget, predictions)
    if strictly.any() or not len(strictly):
        return strictly
    busy = _cores(predictions)
    fewest = predictions.workers == predictions.workers.min()
    nearest: Rows = fewest & (busy <= busy[fewest].min() * (1 + _ROUNDING))
    return nearest


def allowed(budget: Budget, predictions: Predictions) -> Rows:
    """Rows within ``budget``."""
    rows: Rows = np.ones(len(predictions), dtype=bool)
    if budget.workers is not None:
        rows &= predictions.workers <= budget.workers
    if budget.cores is not None:
        rows &= _cores(predictions) <= budget.cores * (1 + _ROUNDING)
    return rows


def reaches_within(
    limits: Limits, met: npt.NDArray[np.float64], catalogue: Catalogue, predictions: Predictions
) -> Reaches:
    """How well the best within each of ``limits`` does, which rise: where one allows all, so do those after it."""
    found: list[Reach] = []
    for budget in limits:
        rows = allowed(budget, predictions)
        found.append(_best(rows, met, catalogue, predictions))
        if rows.all():
            return (*found, *(found[-1:] * (len(limits) - len(found))))
    return tuple(found)


def _best(rows: Rows, met: npt.NDArray[np.float64], catalogue: Catalogue, predictions: Predictions) -> Reach:
    """Of those that are about as good, the one with the fewest workers."""
    if not rows.any():
        return Reach(0.0)
    good = np.flatnonzero(rows & (met >= _AS_GOOD * met[rows].max()))
    best = int(good[predictions.workers[good].argmin()])
    return Reach(float(met[best]), catalogue.table.compositions[best].name)


def _cores(predictions: Predictions) -> npt.NDArray[np.float64]:
    """Kept busy; none where no rate is known."""
    busy: npt.NDArray[np.float64] = np.nan_to_num(predictions.cpu_cores)
    return busy
