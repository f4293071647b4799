"""Word the proposals of the strategy ``model``: list the compositions near the chosen one, each with its status and
reason."""

from __future__ import annotations

from math import isfinite

import numpy as np

from compositions.model import Composition, TransitionKind
from control.decisions import Candidate, CandidateStatus
from control.forecast.forecasts import Forecast, Forecasts, resize_in_words
from control.situation import Situation
from control.strategies.base import Settle, Try

_ALIKE = 0.05
"""Deviations up and down that differ by less than this share are written as one, with ±."""


def tell(situation: Situation, forecast: Forecast) -> str:
    """Return the prediction in words, with its range if it has one."""
    told = situation.objective.foretold(forecast.throughput_per_s, forecast.latency_s)
    if not forecast.likely > 0 or not forecast.high > forecast.low:
        return told
    if forecast.low <= 0:
        return f"{told}, or a queue that grows"
    more, less = forecast.likely / forecast.low - 1, 1 - forecast.likely / forecast.high
    if situation.objective.item_target_ms is None:  # more throughput is better, less latency is
        more, less = forecast.high / forecast.likely - 1, 1 - forecast.low / forecast.likely
    off = f"± {100 * more:.0f} %" if abs(more - less) < _ALIKE else f"−{100 * less:.0f} to +{100 * more:.0f} %"
    return f"{told} {off}"


def costs(situation: Situation, forecasts: Forecasts, best: Forecast) -> str:
    """Return which of several things gives way to ``best``, and what each would take; nothing where only one was
    asked for, and no budget set."""
    needs, budget = forecasts.needs, situation.budget
    if not needs:
        return ""
    each = ", ".join(
        f"{need.asked}{' alone' if len(needs) > 1 else ''} would need {need.told(budget)}" for need in needs
    )
    limit = "" if budget.free else f"; the budget is {budget.told()}"
    given = [need.asked for need in forecasts.gives_way(best.composition)]
    verb = "gives" if len(given) == 1 else "give"
    way = f"{' and '.join(given)} {verb} way: " if given and len(needs) > 1 else ""
    return f"; {way}{each}{_all(situation, forecasts)}{limit}"


def _all(situation: Situation, forecasts: Forecasts) -> str:
    """Return what all things together would need, beside what each does."""
    needs = forecasts.needs
    if len(needs) == 1 or any(need.workers is None for need in needs):
        return ""
    fits = np.logical_and.reduce([need.fits for need in needs])
    if not fits.any():
        return ", and nothing there is can do all of it"
    return f", all of it {forecasts.workers[fits].min()} workers" if situation.budget.cores is None else ""


def try_out(situation: Situation, forecasts: Forecasts, forecast: Forecast, why: str) -> Try:
    """A trial of ``forecast``'s composition."""
    reason = f"{forecast.composition.name}: {why} ({tell(situation, forecast)}){_way(situation, forecast)}"
    listed, _ = _listed(situation, forecasts, forecast, CandidateStatus.SHORTLISTED)
    return Try(forecast.composition, situation.settings.trials.model_trial_s, listed, reason)


def settle(
    situation: Situation, forecasts: Forecasts, forecast: Forecast, reason: str, *, infeasible: bool = False
) -> Settle:
    """The choice of ``forecast``'s composition."""
    listed, left_out = _listed(situation, forecasts, forecast, CandidateStatus.CHOSEN)
    if left_out:
        reason += f"; {left_out} further compositions are not listed"
    return Settle(forecast.composition, listed, reason + _way(situation, forecast), infeasible)


def _way(situation: Situation, forecast: Forecast) -> str:
    """Return how it is got to, where that is worth telling: in place."""
    in_place = _transition(situation, forecast.composition) is TransitionKind.RESIZE
    return f"; {resize_in_words(situation, forecast.composition)}" if in_place else ""


def _transition(situation: Situation, composition: Composition) -> TransitionKind | None:
    return None if composition.shape == situation.active.shape else situation.transition_to(composition)


def _listed(
    situation: Situation, forecasts: Forecasts, picked: Forecast, status: CandidateStatus
) -> tuple[tuple[Candidate, ...], int]:
    """The picked one among its neighbours in cheapness, and how many are left out."""
    limit, at = situation.settings.trust.reported, forecasts.rank(picked.composition)
    start = max(0, min(at - limit // 2, len(forecasts) - limit))
    shown = range(start, min(len(forecasts), start + limit))
    listed = tuple(_candidate(situation, forecasts[rank], picked, status) for rank in shown)
    return listed, len(forecasts) - len(listed)


def _candidate(situation: Situation, forecast: Forecast, picked: Forecast, status: CandidateStatus) -> Candidate:
    told = tell(situation, forecast)
    if forecast.composition is not picked.composition:
        barred = situation.unavailable.get(forecast.composition.name)
        status, told = _fate(forecast, picked, told) if barred is None else (CandidateStatus.REJECTED, barred)
    composition = forecast.composition
    return Candidate(
        name=composition.name,
        workers=composition.workers,
        status=status,
        reason=told,
        predicted_throughput_per_s=forecast.throughput_per_s,
        predicted_latency_s=forecast.latency_s if isfinite(forecast.latency_s) else None,
        transition=_transition(situation, composition),
        transition_s=forecast.transition_s,
    )


def _fate(forecast: Forecast, picked: Forecast, told: str) -> tuple[CandidateStatus, str]:
    if forecast.seen is False:
        return CandidateStatus.REJECTED, f"measured to miss the SLO; {told}"
    if forecast.high < 1:
        return CandidateStatus.REJECTED, f"misses the SLO: {told}"
    own, other = forecast.composition.workers, picked.composition
    if own >= other.workers:
        return CandidateStatus.REJECTED, f"{own} workers are not fewer than the {other.workers} of {other.name}; {told}"
    return CandidateStatus.SHORTLISTED, f"in doubt: {told}"
