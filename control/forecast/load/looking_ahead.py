"""What the input rate will be: several predictors, chosen by their past errors."""

from __future__ import annotations

from math import sqrt

import numpy as np

from control.forecast.load.bins import BIN_S, KEPT, Array, Bins
from control.forecast.load.level import Level, dispersion_of
from control.forecast.load.predictors import Past, Track, present, season, trend
from control.forecast.load.season import season_of

MOVING_S = 20.0
"""A rate that has not changed for so long rests."""
_JUDGED = 120
"""Bins on which predictors are judged: a minute."""
_TELLING, _BETTER = 20, 0.95
"""Errors from which a predictor is judged, and how much smaller they must be than of the one that nothing changes."""
_SEASON_EVERY = 10
"""Bins between two searches for a season."""
_QUANTILE = 0.8
"""Of its past errors, what is added to a prediction."""
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
            self._level.count(now_s, arrived, self._dispersion, moving=self.moving)
        else:
            self._level.set(now_s, set_per_s)
        if self._began_s is None:
            self._began_s, self._arrived_then = now_s, arrived
        elif now_s - self._began_s >= BIN_S - 1e-6:
            self._close(now_s, set_per_s, arrived)

    def warm(self, rates: Array) -> None:
        """The past before the start, a rate a bin, oldest first."""
        for rate in rates:
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
        self._began_s, self._arrived_then = now_s, arrived
        self._tracks.clear()
        if self._bins.total % _SEASON_EVERY == 0:
            self._period = season_of(self._bins.rates[-KEPT:])
            self._dispersion = dispersion_of(self._bins.rates[-_JUDGED:], BIN_S)

    # --- what is expected -------------------------------------------------------------------------------------------

    @property
    def moving(self) -> bool:
        return self._now_s - self._level.changed_s < MOVING_S

    @property
    def level_per_s(self) -> float:
        return self._level.rate_per_s

    @property
    def level_error_per_s(self) -> float:
        return self._level.error_per_s

    def within(self, horizon_s: float) -> tuple[float, float, str]:
        """The most that is expected within ``horizon_s``, its upper end, and who says so."""
        level, error = self._level.rate_per_s, self._level.error_per_s
        if len(self._bins) < 4:
            return level, level + _ERRORS * error, "the present rate"
        track = self._best(max(1, round(horizon_s / BIN_S)))
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
            others = [track for track in (trend(past, bins, judged), season(past, bins, judged)) if track is not None]
            better = [track for track in others if _beats(track, stays)]
            self._tracks[bins] = min(better, key=lambda track: _loss(track.errors), default=stays)
        return self._tracks[bins]

    def _foretold(self, now: float) -> bool:
        """The season had said what is now, in this bin or in the one before."""
        assert self._period is not None
        at = len(self._bins) - self._period
        return any(self._alike(now, float(then)) for then in self._bins.rates[at - 1 : at + 1])

    def _alike(self, now: float, then: float) -> bool:
        noise = sqrt(self._dispersion * max(now, then) / BIN_S) if self._counted else 0.0
        return abs(now - then) <= _SURPRISE * noise + _ALIKE * max(now, then)

    def _margin(self, track: Track) -> float:
        """What is added to it: a quantile of its errors, less what is noise of the counts."""
        errors = track.errors[-_JUDGED:]
        if errors.size < 4:
            return 0.0
        margin = max(0.0, float(np.quantile(errors, _QUANTILE)))
        if not self._counted:
            return margin
        noise = self._dispersion * float(self._bins.rates[-_JUDGED:].mean()) / BIN_S
        scatter = float(np.mean(errors**2))
        return margin * sqrt(max(0.0, 1 - noise / scatter)) if scatter > 0 else 0.0


def _beats(track: Track, stays: Track) -> bool:
    """By more than chance, or it is not to be believed."""
    return track.errors.size >= _TELLING and _loss(track.errors) < _BETTER * _loss(stays.errors)


def _loss(errors: Array) -> float:
    return float(np.abs(errors).mean())
