"""Forecast the input rate with several predictors, chosen by their past errors."""

from __future__ import annotations

from collections.abc import Iterable
from math import sqrt

import numpy as np

from control.forecast.load.arrivals import BIN_S, KEPT, Array, Bins
from control.forecast.load.predictors import (
    NAMES,
    Following,
    Level,
    Past,
    Track,
    completed,
    dispersion_of,
    present,
    season,
    season_of,
    trend,
)

MOVING_S = 20.0
"""A rate that has not changed for so long rests."""
_JUDGED = 120
"""Bins on which predictors are judged: a minute."""
_TELLING, _BETTER = 20, 0.95
"""Errors from which a predictor is judged, and how much smaller they must be than of the one that nothing changes."""
_SURELY = {False: 3.0, True: 1.0}
"""Standard errors by which one must have been better to be believed of counted arrivals: where the load rests, and
where it moves."""
_LASTS = 4
"""Bins in a row in which it must have been better where the load rests: it is looked at over and over."""
_FARTHEST = 64
"""Bins that anybody asks for."""
_NONE = np.zeros(0)
_SEASON_EVERY = 10
"""Bins between two searches for a season."""
_QUANTILE = {False: 0.8, True: 0.65}
"""Of its past errors, what is added to a prediction: of a set rate, and of counted arrivals, whose noise a composition
for independent users has room for already."""
_ERRORS = 0.5
"""Standard errors of the present rate that are provided for: about two times in three it is no higher."""
_ALIKE = 0.1
"""Share by which they may differ anyway."""
_SURPRISE = 3.0
"""Standard errors by which the present may differ from what a season said of it."""


class LookingAhead:
    """Of one app."""

    def __init__(self) -> None:
        self._level = Level()
        self._bins, self._levels = Bins(), Bins()
        self._following = Following(_JUDGED + _FARTHEST)
        self._followed: int | None = None
        """The filter that is believed of the near future."""
        self._better_for = 0
        """Bins in a row in which some filter was better than the level."""
        self._turned: tuple[float, float] | None = None
        """The latest turn, and what had arrived by then."""
        self._began_s: float | None = None
        self._arrived_then = 0.0
        self._period: int | None = None
        self._dispersion = 1.0
        self._counted = False
        self._tracks: dict[int, Track] = {}
        self._now_s = 0.0

    # --- what is seen -----------------------------------------------------------------------------------------------

    def observe(self, now_s: float, set_per_s: float | None, arrived: int) -> None:
        """A turn: the rate that is set (None: none is, arrivals are counted), and what has arrived since the start."""
        self._now_s, self._counted = now_s, set_per_s is None
        if set_per_s is None:
            self._count(now_s, arrived)
        else:
            self._level.set(now_s, set_per_s)
        if self._began_s is None:
            self._began_s, self._arrived_then = now_s, arrived
        elif now_s - self._began_s >= BIN_S - 1e-6:
            self._close(now_s, set_per_s, arrived)

    def _count(self, now_s: float, arrived: int) -> None:
        changed_s = self._level.changed_s
        self._level.count(now_s, arrived, self._dispersion, moving=self.moving)
        if self._turned is not None and now_s > self._turned[0]:
            span_s = now_s - self._turned[0]
            self._following.count(span_s, (arrived - self._turned[1]) / span_s)
        self._turned = now_s, arrived
        if self._level.changed_s != changed_s:
            self._following.changed(self._level.rate_per_s, self._level.error_per_s, self._level.turns)

    def warm(self, rates_per_s: Iterable[float]) -> None:
        """The load before the start, a rate a bin until now, oldest first; NaN at the end where it is not known."""
        for rate in completed(np.array(list(rates_per_s))):
            self._bins.add(float(rate))
            self._levels.add(float(rate))
        self._period = season_of(self._bins.rates[-KEPT:])

    def _close(self, now_s: float, set_per_s: float | None, arrived: int) -> None:
        assert self._began_s is not None
        span_s = now_s - self._began_s
        rate = (arrived - self._arrived_then) / span_s if set_per_s is None else set_per_s
        for _ in range(max(1, min(KEPT, round(span_s / BIN_S)))):
            self._bins.add(rate)
            self._levels.add(self._level.rate_per_s)
            self._following.close()
        self._began_s, self._arrived_then = now_s, arrived
        self._tracks.clear()
        if self._bins.total % _SEASON_EVERY == 0:
            self._period = season_of(self._bins.rates[-KEPT:])
            self._dispersion = dispersion_of(self._bins.rates[-_JUDGED:], BIN_S)

    # --- what is expected -------------------------------------------------------------------------------------------

    @property
    def moving(self) -> bool:
        return self._now_s - self._level.changed_s < MOVING_S or self._followed is not None

    @property
    def level_per_s(self) -> float:
        row = self._followed
        return self._level.rate_per_s if row is None else float(self._following.ahead(0.0)[row])

    @property
    def level_error_per_s(self) -> float:
        return self._level.error_per_s

    def within(self, horizon_s: float) -> tuple[float, float, str]:
        """The most that is expected within ``horizon_s``, its upper end, and who says so."""
        level, error = self._level.rate_per_s, self._level.error_per_s
        if len(self._bins) < 4:
            return level, level + _ERRORS * error, "the present rate"
        self._best(1)  # which says whether any filter is believed
        track = self._best(max(1, round(horizon_s / BIN_S)))
        if track.row is not None:
            expected = max(float(self._following.ahead(span_s)[track.row]) for span_s in (0.0, horizon_s))
            return expected, expected + self._margin(track), track.name
        expected = float(track.ahead.max())
        if track.name != "the season":
            expected = max(0.0, expected + level - float(self._levels.rates[-1]))  # it may have changed since
        elif not self._foretold(level):
            expected = max(expected, level)
        return expected, expected + max(_ERRORS * error, self._margin(track)), track.name

    def _best(self, bins: int) -> Track:
        if bins not in self._tracks:
            past = Past(self._bins.rates, self._levels.rates, self._period, self._counted)
            judged = max(_JUDGED, self._period or 0)
            stays = present(past, bins, judged)
            again = season(past, bins, judged)
            goes_on = self._followers(bins) if self._counted else [trend(past, bins, judged)]
            better = [each for each in (again, *goes_on) if each is not None and self._beats(each, stays, bins)]
            if bins == 1:
                self._better_for = self._better_for + 1 if any(each.row is not None for each in better) else 0
            if not self.moving and self._better_for < _LASTS:
                better = [each for each in better if each.row is None]
            self._tracks[bins] = best = min(better, key=lambda track: _loss(track.errors), default=stays)
            if bins == 1:
                self._followed = best.row
        return self._tracks[bins]

    def _followers(self, bins: int) -> list[Track]:
        errors = self._following.errors(self._bins.rates, bins)[:, -_JUDGED:]
        return [Track(name, _NONE, errors[row], row) for row, name in enumerate(NAMES)]

    def _beats(self, track: Track, stays: Track, bins: int) -> bool:
        """By more than chance, or it is not to be believed: of counted arrivals bin by bin, because most of what
        they are off by is noise that both have in common."""
        if track.errors.size < _TELLING:
            return False
        if not self._counted:
            return _loss(track.errors) < _BETTER * _loss(stays.errors)
        count = min(track.errors.size, stays.errors.size)
        gains = stays.errors[-count:] ** 2 - track.errors[-count:] ** 2
        mean = float(gains.sum()) / count
        variance = max(0.0, float(gains @ gains) / count - mean * mean)
        return mean > _SURELY[self.moving] * sqrt(variance * bins / count)

    def _foretold(self, now: float) -> bool:
        """The season had said what is now, in this bin or in the one before."""
        assert self._period is not None
        at = len(self._bins) - self._period
        return any(self._alike(now, float(then)) for then in self._bins.rates[at - 1 : at + 1])

    def _alike(self, now: float, then: float) -> bool:
        noise = sqrt(self._dispersion * max(now, then) / BIN_S) if self._counted else 0.0
        return abs(now - then) <= _SURPRISE * noise + _ALIKE * max(now, then)

    def _margin(self, track: Track) -> float:
        """Return what is added to it: a quantile of its errors, less what is noise of the counts."""
        errors = track.errors[-_JUDGED:]
        if errors.size < 4:
            return 0.0
        margin = max(0.0, _quantile(errors, _QUANTILE[self._counted]))
        if not self._counted:
            return margin
        noise = self._dispersion * float(self._bins.rates[-_JUDGED:].mean()) / BIN_S
        scatter = float(np.mean(errors**2))
        return margin * sqrt(max(0.0, 1 - noise / scatter)) if scatter > 0 else 0.0


def _quantile(values: Array, share: float) -> float:
    """As ``np.quantile``, which takes ten times as long for so few."""
    ordered = np.sort(values)
    at = share * (len(ordered) - 1)
    below = int(at)
    above = min(below + 1, len(ordered) - 1)
    return float(ordered[below] + (at - below) * (ordered[above] - ordered[below]))


def _loss(errors: Array) -> float:
    return float(np.abs(errors).mean())
