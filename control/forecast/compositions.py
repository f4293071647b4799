"""What the strategy ``model`` expects of compositions: the capacity model, corrected by what was measured, with an
interval that says how sure it is. Columns, because there may be ten thousand compositions."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf, isfinite, sqrt

import numpy as np
import numpy.typing as npt

from compositions.capacity.costs import PACED_ARRIVAL_CV, Conditions, StageCost
from compositions.capacity.predict import predict, predict_all
from compositions.capacity.prediction import Prediction, Predictions
from compositions.capacity.table import CompositionTable
from compositions.model import Composition
from control.strategies.assess import needed_rate
from control.strategies.base import Situation
from control.strategies.memory import Corrections, Verdicts
from profiler.service_time import stage_costs

Array = npt.NDArray[np.float64]

_COLUMNS = ("capacity", "latency", "low", "likely", "high")
_RATIOS = ("low", "likely", "high")
_JUST_MISSED = 0.999
"""The most that is expected of a composition that was measured to miss the SLO."""


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
    seen: bool | None = None
    """Whether a measurement says that it meets the SLO at this need, rather than the model alone."""


class Catalogue:
    """What can be chosen from, as a table for the capacity model; each shape once."""

    def __init__(self, compositions: Iterable[Composition]) -> None:
        by_shape: dict[Hashable, Composition] = {}
        for composition in compositions:
            by_shape.setdefault(composition.shape, composition)
        self.rows = {shape: row for row, shape in enumerate(by_shape)}
        self.table = CompositionTable(tuple(by_shape.values()))

    def including(self, active: Composition) -> Catalogue:
        """Itself, or one more row when ``active`` is not among them."""
        return self if active.shape in self.rows else Catalogue((*self.table.compositions, active))

    def row_of(self, composition: Composition) -> int:
        """Raises: KeyError when it is not among them."""
        return self.rows[composition.shape]

    def known(self, shapes: Iterable[Hashable]) -> Iterator[tuple[int, Hashable]]:
        """Rows of those of ``shapes`` that are among them."""
        return ((self.rows[shape], shape) for shape in shapes if shape in self.rows)


class Forecasts:
    """Forecasts of all compositions, cheapest first; of equally cheap ones those that reach the target itself before
    those that only stay within the threshold."""

    def __init__(
        self,
        catalogue: Catalogue,
        columns: Mapping[str, Array],
        verdicts: Mapping[int, bool],
        ample: float,
        missed_lately: npt.NDArray[np.bool_],
    ) -> None:
        self.missed_lately = missed_lately
        self._catalogue = catalogue
        self._table = table = catalogue.table
        self._columns = columns
        self._verdicts = verdicts
        self.order = np.lexsort((table.is_group.sum(axis=1), columns["likely"] < ample, table.workers))

    def __len__(self) -> int:
        return len(self.order)

    def __getitem__(self, rank: int) -> Forecast:
        row = int(self.order[rank])
        capacity, latency, low, likely, high = (float(self._columns[name][row]) for name in _COLUMNS)
        return Forecast(self._table.compositions[row], capacity, latency, low, likely, high, self._verdicts.get(row))

    def where(self, chosen: npt.NDArray[np.bool_]) -> Iterator[Forecast]:
        """Those of the rows ``chosen`` (in the order of the table), cheapest first."""
        return (self[int(rank)] for rank in np.flatnonzero(chosen[self.order]))

    def of(self, composition: Composition) -> Forecast:
        return self[self.rank(composition)]

    def rank(self, composition: Composition) -> int:
        """Its place among all. Raises: KeyError when it is not among them."""
        return int(np.flatnonzero(self.order == self._catalogue.row_of(composition))[0])

    def column(self, name: str) -> Array:
        """``capacity``, ``latency``, ``low``, ``likely``, ``high`` in the order of the table."""
        return self._columns[name]

    @property
    def workers(self) -> npt.NDArray[np.int64]:
        return self._table.workers

    def unseen(self) -> npt.NDArray[np.bool_]:
        """Rows of which no measurement tells at this need."""
        mask = np.ones(len(self), dtype=bool)
        mask[list(self._verdicts)] = False
        return mask


class Forecaster:
    """Expectations for one situation."""

    def __init__(self, situation: Situation, corrections: Corrections, verdicts: Verdicts) -> None:
        self._situation = situation
        self._corrections = corrections
        self._verdicts = verdicts
        self._rate = needed_rate(situation.snapshot)
        self._costs = stage_costs(situation.snapshot.stages, situation.snapshot.cores)

    def all(self, catalogue: Catalogue) -> Forecasts:
        """Forecasts of every composition of ``catalogue``; what cannot be switched to now is expected to do nothing."""
        table = catalogue.table
        predictions = self._predict_all(table, 1.0)
        capacity_factor, latency_factor = self._factors(catalogue, predictions)
        error = self._error()
        low, likely, high = self._ratios(table, predictions, capacity_factor, latency_factor, error)
        columns = {
            "capacity": predictions.throughput_per_s * capacity_factor,
            "latency": np.nan_to_num(self._statistic(predictions) * latency_factor, nan=inf, posinf=inf),
            "low": low,
            "likely": likely,
            "high": high,
        }
        verdicts = self._apply_verdicts(catalogue, columns)
        for row in self._unavailable(table):
            for name in _RATIOS:
                columns[name][row] = 0.0
        return Forecasts(catalogue, columns, verdicts, self._ample(), self._missed_lately(catalogue))

    def raw(self, composition: Composition) -> Prediction:
        """The capacity model's own word, uncorrected."""
        return predict(composition, self._costs, self._conditions(1.0))

    def _missed_lately(self, catalogue: Catalogue) -> npt.NDArray[np.bool_]:
        """Rows that were measured to miss the SLO at a need not significantly above the present one."""
        settings, situation = self._situation.settings, self._situation
        shapes = self._verdicts.missed_lately(
            situation.slo, situation.snapshot, settings.model.bias_half_life_s, settings.rhythm.change_ratio
        )
        mask = np.zeros(len(catalogue.table), dtype=bool)
        mask[[row for row, _ in catalogue.known(shapes)]] = True
        return mask

    def _arrival_cv(self) -> float:
        """Of the times between items: counted arrivals come from independent users, a set rate from a paced source."""
        windows = self._situation.snapshot.input_rate_windows
        return 1.0 if windows and windows[-1].counted else PACED_ARRIVAL_CV

    def _predict_all(self, table: CompositionTable, scale: float) -> Predictions:
        costs = {name: _scaled(cost, scale) for name, cost in self._costs.items()}
        return predict_all(table, costs, self._conditions(scale))

    def _conditions(self, scale: float) -> Conditions:
        snapshot = self._situation.snapshot
        return Conditions(snapshot.cores, snapshot.hop_s * scale, self._rate, arrival_cv=self._arrival_cv())

    def _statistic(self, predictions: Predictions) -> Array:
        return predictions.statistic(self._situation.slo.statistic)

    def _unavailable(self, table: CompositionTable) -> list[int]:
        barred = self._situation.unavailable
        return [row for row, c in enumerate(table.compositions) if c.name in barred] if barred else []

    def _factors(self, catalogue: Catalogue, predictions: Predictions) -> tuple[Array, Array]:
        """Corrections of capacity and latency: the composition's own, else what others with the same limit showed."""
        now_s, half_s = self._situation.now_s, self._situation.settings.model.bias_half_life_s
        by_limit = [self._corrections.factor(("capacity", limit), now_s, half_s) or 1.0 for limit in ("group", "cores")]
        capacity = np.where(predictions.limited_by_cores, by_limit[1], by_limit[0])
        latency = np.full(len(predictions), self._corrections.factor("latency", now_s, half_s) or 1.0)
        for row, shape in catalogue.known(self._corrections.shapes()):
            capacity[row] = self._corrections.factor(("capacity", shape), now_s, half_s) or capacity[row]
            latency[row] = self._corrections.factor(("latency", shape), now_s, half_s) or latency[row]
        return capacity, latency

    def _ratios(
        self, table: CompositionTable, predictions: Predictions, capacity: Array, latency: Array, error: float
    ) -> tuple[Array, Array, Array]:
        slo = self._situation.slo
        if slo.metric == "throughput":
            bound = slo.bound(self._rate) or 1e-9
            likely = predictions.throughput_per_s * capacity / bound
            return likely / (1 + error), likely, likely * (1 + error)
        slower, faster = (self._predict_all(table, scale) for scale in (1 + error, 1 / (1 + error)))
        low, likely, high = (self._latency_ratio(p, capacity, latency) for p in (slower, predictions, faster))
        return np.minimum(low, likely), likely, np.maximum(high, likely)

    def _latency_ratio(self, predictions: Predictions, capacity: Array, latency: Array) -> Array:
        """bound / expected latency; 0 where the queue grows without end."""
        bound_s = (self._situation.slo.bound(self._rate) or 0.0) / 1000
        expected_s = np.nan_to_num(self._statistic(predictions) * latency, nan=inf, posinf=inf)
        expected_s = np.where(predictions.throughput_per_s * capacity < (self._rate or 0.0), inf, expected_s)
        return bound_s / np.maximum(expected_s, 1e-9)

    def _error(self) -> float:
        """Relative error of a prediction: the model's own and that of the profile, its stages taken as independent."""
        model, total_s = self._situation.settings.model, sum(cost.service_s for cost in self._costs.values())
        squares = sum((p.cv / sqrt(max(1, p.samples)) * p.service_time_s) ** 2 for p in self._situation.snapshot.stages)
        return model.uncertainty + (model.confidence * sqrt(squares) / total_s if total_s > 0 else 0.0)

    def _ample(self) -> float:
        """The ratio at which the target itself is reached, not only its bound."""
        slo = self._situation.slo
        return 1 + slo.threshold if slo.metric == "latency" else 1 / max(1e-9, 1 - slo.threshold)

    def _apply_verdicts(self, catalogue: Catalogue, columns: Mapping[str, Array]) -> dict[int, bool]:
        """What was measured at this need overrules what is predicted."""
        situation, told = self._situation, {}
        sure = 1 + max(situation.settings.model.up_margin, situation.settings.model.down_margin)
        fades_s = situation.settings.model.bias_half_life_s
        for row, shape in catalogue.known(self._verdicts.shapes()):
            meets = self._verdicts.recall(shape, situation.slo, situation.snapshot, fades_s)
            if meets is None:
                continue
            told[row] = meets
            for name in _RATIOS:
                value = columns[name][row]
                columns[name][row] = max(sure, value) if meets else min(_JUST_MISSED, value)
        return told


def is_expected(value: float | None) -> bool:
    """A prediction that something measured can be compared with."""
    return value is not None and isfinite(value) and value > 0


def _scaled(cost: StageCost, scale: float) -> StageCost:
    return replace(cost, service_s=cost.service_s * scale, cpu_s=cost.cpu_s * scale)
