"""Forecast compositions for the strategy ``model``: the capacity model, corrected by measurements, with an interval
that shows how certain each forecast is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from math import hypot, inf, isfinite, sqrt

import numpy as np
import numpy.typing as npt

from compositions.capacity.prediction import Prediction, Predictions
from compositions.model import Composition
from control.forecast.expect import Catalogue, Unmeasured, expect
from control.forecast.forecasts import (
    Array,
    Beside,
    Forecasts,
    Limits,
    Need,
    Reaches,
    allowed,
    need_of,
    reaches_within,
    transition_s,
    within,
)
from control.forecast.memory import Corrections, Verdicts
from control.objectives.objective import Expectation
from control.reading import needed_rate
from control.situation import Situation
from profiler.service_time import stage_costs

_RATIOS = ("low", "likely", "high")
_JUST_MISSED = 0.999
"""The most that is expected of a composition that was measured to miss the SLO."""


class Forecaster:
    """Expectations for one situation."""

    def __init__(self, situation: Situation, corrections: Corrections, verdicts: Verdicts) -> None:
        self._situation = situation
        self._corrections = corrections
        self._verdicts = verdicts

    def all(self, catalogue: Catalogue, *, doubt: bool = True) -> Forecasts | Unmeasured:
        """Forecasts of every composition of ``catalogue``; what cannot be switched to now is expected to do nothing.

        Without ``doubt`` what is low and high is what is likely, at a third of the price."""
        predictions = expect(catalogue.table, self._situation.snapshot)
        if isinstance(predictions, Unmeasured):
            return predictions
        expected = self._expected(catalogue, predictions)
        columns, verdicts = self._judged(catalogue, expected, self._error() if doubt else 0.0)
        affordable = within(self._situation.budget, predictions)
        for name in _RATIOS:
            columns[name][~affordable] = 0.0
        columns["transition"] = transition_s(self._situation, catalogue)
        told = Beside(verdicts, self._missed_lately(catalogue), affordable, self._needs(expected, predictions))
        return Forecasts(catalogue, columns, self._situation.objective.ample, told)

    def likely(self, catalogue: Catalogue) -> Array | Unmeasured:
        """The ratios in the middle of those of ``all``, at a third of the price: for who looks at every turn."""
        predictions = expect(catalogue.table, self._situation.snapshot)
        if isinstance(predictions, Unmeasured):
            return predictions
        likely = self._judged(catalogue, self._expected(catalogue, predictions), 0.0)[0]["likely"]
        return np.where(allowed(self._situation.budget, predictions), likely, 0.0)

    def reaches(self, catalogue: Catalogue, limits: Limits) -> Reaches | None:
        """Return how well the best within each of ``limits`` would do; where a queue grows, half of what comes out.
        With all the cores: those that other apps take are what is asked about."""
        situation = self._situation
        predictions = expect(catalogue.table, replace(situation.snapshot, cores_left=None))
        if isinstance(predictions, Unmeasured):
            return None
        columns, _ = self._judged(catalogue, self._expected(catalogue, predictions), 0.0)
        kept_up = columns["capacity"] / max(1e-9, needed_rate(situation.snapshot) or 0.0)
        likely = columns["likely"] / (1 + situation.settings.trust.up_margin)
        reach = np.minimum(1.0, np.where(likely > 0, likely, 0.5 * kept_up))
        own = situation.objective.slo.limits
        return reaches_within([own.within(each) for each in limits], reach, catalogue, predictions)

    def raw(self, composition: Composition) -> Prediction | Unmeasured:
        """The capacity model's own word, uncorrected."""
        predictions = expect([composition], self._situation.snapshot)
        return predictions if isinstance(predictions, Unmeasured) else predictions[0]

    def _judged(
        self, catalogue: Catalogue, expected: Callable[[float], Expectation], error: float
    ) -> tuple[dict[str, Array], dict[int, bool]]:
        """Columns, and the rows about which measurements have the last word."""
        columns = self._columns(expected, error)
        verdicts = self._apply_verdicts(catalogue, columns)
        for row in self._unavailable(catalogue):
            for name in _RATIOS:
                columns[name][row] = 0.0
        return columns, verdicts

    def _columns(self, expected: Callable[[float], Expectation], error: float) -> dict[str, Array]:
        objective, rate = self._situation.objective, needed_rate(self._situation.snapshot)
        ratios = zip(_RATIOS, objective.ratios(expected, error, rate), strict=True)
        likely = expected(1.0)
        latency_s = likely.latency_at(objective.quantile)
        return {"capacity": likely.throughput_per_s, "latency": latency_s, **dict(ratios)}

    def _needs(self, expected: Callable[[float], Expectation], predictions: Predictions) -> tuple[Need, ...]:
        """Return what each thing that is asked for takes by itself, whatever the budget; nothing where there is but
        one, and nothing to be saved."""
        objective, rate = self._situation.objective, needed_rate(self._situation.snapshot)
        if len(objective.parts) == 1 and self._situation.budget.free:
            return ()
        return tuple(
            need_of(each.slo.asked, each.ratios(expected, 0.0, rate)[1] >= 1, predictions) for each in objective.parts
        )

    def _expected(self, catalogue: Catalogue, predictions: Predictions) -> Callable[[float], Expectation]:
        """By how many times as long everything takes; each is worked out once, however many ask."""
        factors = self._factors(catalogue, predictions)

        @cache
        def expected(scale: float) -> Expectation:
            if scale == 1.0:
                return _corrected(predictions, factors)
            scaled = expect(catalogue.table, self._situation.snapshot, scale=scale)
            assert not isinstance(scaled, Unmeasured), "what could be predicted once can be predicted again"
            return _corrected(scaled, factors)

        return expected

    def _factors(self, catalogue: Catalogue, predictions: Predictions) -> tuple[Array, Array]:
        """Corrections of capacity and latency: the composition's own, else what others with the same limit showed."""
        now_s, half_s = self._situation.now_s, self._situation.settings.trust.bias_half_life_s
        by_limit = [self._corrections.factor(("capacity", limit), now_s, half_s) or 1.0 for limit in ("group", "cores")]
        capacity = np.where(predictions.limited_by_cores, by_limit[1], by_limit[0])
        latency = np.full(len(predictions), self._corrections.factor("latency", now_s, half_s) or 1.0)
        for row, shape in catalogue.known(self._corrections.shapes()):
            capacity[row] = self._corrections.factor(("capacity", shape), now_s, half_s) or capacity[row]
            latency[row] = self._corrections.factor(("latency", shape), now_s, half_s) or latency[row]
        return capacity, latency

    def _error(self) -> float:
        """Relative error of a prediction: the model's own and those of the profile and of the rate, the stages and the
        arrivals taken as independent."""
        trust, snapshot = self._situation.settings.trust, self._situation.snapshot
        total_s = sum(cost.service_s for cost in stage_costs(snapshot.stages, snapshot.cores).values())
        squares = sum((p.cv / sqrt(max(1, p.samples)) * p.service_time_s) ** 2 for p in snapshot.stages)
        profile = sqrt(squares) / total_s if total_s > 0 else 0.0
        rate = 0.0 if snapshot.outlook is None else snapshot.outlook.relative_error
        return trust.uncertainty + trust.confidence * hypot(profile, rate)

    def _apply_verdicts(self, catalogue: Catalogue, columns: Mapping[str, Array]) -> dict[int, bool]:
        """What was measured at this need overrules what is predicted."""
        situation, told = self._situation, {}
        if situation.snapshot.outlook is not None and situation.snapshot.outlook.moving:
            return {}  # a window of a rate that moves tells of no need in particular
        trust = situation.settings.trust
        sure = 1 + max(trust.up_margin, trust.down_margin)
        for row, shape in catalogue.known(self._verdicts.shapes()):
            meets = self._verdicts.recall(shape, situation.objective, situation.snapshot, trust.bias_half_life_s)
            if meets is None:
                continue
            told[row] = meets
            for name in _RATIOS:
                value = columns[name][row]
                columns[name][row] = max(sure, value) if meets else min(_JUST_MISSED, value)
        return told

    def _unavailable(self, catalogue: Catalogue) -> list[int]:
        barred = self._situation.unavailable
        return [row for row, c in enumerate(catalogue.table.compositions) if c.name in barred] if barred else []

    def _missed_lately(self, catalogue: Catalogue) -> npt.NDArray[np.bool_]:
        """Rows that were measured to miss the SLO at a need not significantly above the present one."""
        settings, situation = self._situation.settings, self._situation
        shapes = self._verdicts.missed_lately(
            situation.objective, situation.snapshot, settings.trust.bias_half_life_s, settings.rhythm.change_ratio
        )
        mask = np.zeros(len(catalogue.table), dtype=bool)
        mask[[row for row, _ in catalogue.known(shapes)]] = True
        return mask


def _corrected(predictions: Predictions, factors: tuple[Array, Array]) -> Expectation:
    capacity, latency = factors

    def latency_at(quantile: float | None) -> Array:
        return np.nan_to_num(predictions.at(quantile) * latency, nan=inf, posinf=inf)

    return Expectation(predictions.throughput_per_s * capacity, latency_at)


def is_expected(value: float | None) -> bool:
    """A prediction that something measured can be compared with."""
    return value is not None and isfinite(value) and value > 0
