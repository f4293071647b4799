"""Forecasts of many compositions as columns, because there may be ten thousand of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from compositions.capacity.prediction import Predictions
from compositions.model import Composition
from compositions.wording import figure
from control.arbitration.arbiter import Reach
from control.forecast.expect import Catalogue
from control.situation import Situation
from profiler.budget import Budget
from profiler.service_time import stage_costs
from runtime.dispatch.events import SwitchStyle

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
        """Return which of several things ``composition`` cannot do."""
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


def transition_s(situation: Situation, catalogue: Catalogue) -> npt.NDArray[np.float64]:
    """Seconds until each of ``catalogue`` has the stream to itself; 0 for the active one. A resize costs the start of
    workers that are not warm, and nothing when they are; a switch costs a drain as well."""
    table, active = catalogue.table, catalogue.row_of(situation.active)
    start_s = np.where(table.workers > situation.snapshot.workers_alive, situation.settings.trust.worker_start_s, 0.0)
    drains = np.ones(len(table), dtype=bool)
    if situation.settings.style is not SwitchStyle.DRAIN:
        drains = ~table.grouped_as(active)
    costs = start_s + np.where(drains, _drain_s(situation), 0.0)
    costs[active] = 0.0
    return costs


def resize_in_words(situation: Situation, composition: Composition) -> str:
    """That ``composition`` is a resize away, and what that waits for."""
    missing = composition.workers - situation.snapshot.workers_alive
    if missing <= 0:
        return "a resize in place"
    return f"a resize in place, for which {missing} {'worker starts' if missing == 1 else 'workers start'}"


def _drain_s(situation: Situation) -> float:
    """Return how long what is in flight stays: as long as items do."""
    snapshot = situation.snapshot
    if snapshot.inside is not None:
        return snapshot.inside.mean_s
    item_s = sum(cost.service_s for cost in stage_costs(snapshot.stages, snapshot.cores).values())
    return snapshot.bundle_items * item_s


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
    """Return how well the best within each of ``limits`` does, which rise: where one allows all, so do those after
    it."""
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
