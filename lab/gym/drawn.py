"""Draw arrival times, and the parameters of what they come from.

Each function takes the duration in seconds, the mean rate in items/s over it, and the random numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from lab.gym.model import Announced, Floats

Draw = Callable[[float, float, np.random.Generator], Floats]
Announce = Callable[[float, float, np.random.Generator], tuple[Announced, ...]]

MMPP_WEIGHTS, MMPP_SOJOURN_S = (5.0, 30.0), 15.0
PARETO_SHAPE = 1.4
"""Tail index of the lengths of on and off: their variance is infinite, so the sum of sources is self-similar (Taqqu,
Willinger and Sherman 1997), with a Hurst parameter of (3 - 1.4) / 2 = 0.8."""
SETTLING_S = 600.0
"""Time that is left out, in seconds, as all sources begin at once."""
ALWAYS_ON = 0.1
"""Lowest rate of a source, so that no run is empty."""
OUTAGE_S, CATCH_UP_S = 60.0, 4.0
OUTAGE_EVERY_S = 1200.0
TOGETHER = 20


def by_weights(edges_s: Floats, weights: Floats, rate_per_s: float, rng: np.random.Generator) -> Floats:
    """Return Poisson arrivals whose rate between two edges is in proportion to the weight there; none if all are 0."""
    grown = np.concatenate(([0.0], np.cumsum(weights * np.diff(edges_s))))
    if not grown[-1]:
        return np.empty(0)
    count = rng.poisson(rate_per_s * (edges_s[-1] - edges_s[0]))
    at_s: Floats = np.interp(np.sort(rng.uniform(0, grown[-1], count)), grown, edges_s)
    at_s[at_s >= edges_s[-1]] = np.nextafter(edges_s[-1], 0)  # by rounding
    return at_s


def constant(duration_s: float, rate_per_s: float, rng: np.random.Generator) -> Floats:
    """Draw Poisson arrivals at a constant rate."""
    return by_weights(np.array([0.0, duration_s]), np.ones(1), rate_per_s, rng)


def paced(duration_s: float, rate_per_s: float, rng: np.random.Generator) -> Floats:
    """Draw the beginning of arrivals that are evenly spaced, as a camera's."""
    count = round(duration_s * rate_per_s)
    at_s: Floats = (np.arange(count, dtype=np.float64) + rng.random()) * (duration_s / max(1, count))
    return at_s


def mmpp(duration_s: float, rate_per_s: float, rng: np.random.Generator) -> Floats:
    """Draw a Markov-modulated Poisson process of two states."""
    sojourns_s = _until(duration_s, lambda count: rng.exponential(MMPP_SOJOURN_S, count), MMPP_SOJOURN_S)
    weights = np.resize(np.roll(MMPP_WEIGHTS, rng.integers(2)), len(sojourns_s) - 1)
    return by_weights(sojourns_s, weights, rate_per_s, rng)


def self_similar(duration_s: float, rate_per_s: float, rng: np.random.Generator) -> Floats:
    """Draw the sum of sources that are on and off for times with heavy tails."""
    on_s, off_s = rng.uniform(2, 10), rng.uniform(5, 20)
    changes_s, steps = [np.zeros(1)], [np.full(1, ALWAYS_ON)]
    for _ in range(int(rng.integers(8, 33))):
        edges_s, on = _source(duration_s, on_s, off_s, rng)
        changes_s.append(edges_s)
        steps.append(np.diff(on, prepend=0.0))
    at_s, by = np.concatenate(changes_s), np.concatenate(steps)
    order = np.argsort(at_s, kind="stable")
    return by_weights(np.append(at_s[order], duration_s), np.cumsum(by[order]), rate_per_s, rng)


def _source(duration_s: float, on_s: float, off_s: float, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return the times at which a source changes, from 0 on, and its state from then on: on (1) or off (0)."""
    first = int(rng.integers(2))
    means_s = np.array((off_s, on_s)) * (PARETO_SHAPE - 1) / PARETO_SHAPE

    def lengths(count: int) -> Floats:
        return (1 + rng.pareto(PARETO_SHAPE, count)) * means_s[(first + np.arange(count)) % 2]

    edges_s = _until(duration_s + SETTLING_S, lengths, min(on_s, off_s))[:-1] - SETTLING_S
    on = ((first + np.arange(len(edges_s))) % 2).astype(float)
    now = int(np.searchsorted(edges_s, 0.0, side="right")) - 1
    return np.maximum(edges_s[now:], 0.0), on[now:]


def waves(duration_s: float, rate_per_s: float, rng: np.random.Generator) -> Floats:
    """Draw period, height and beginning of a sine."""
    period_s, height, phase = rng.uniform(40, 600), rng.uniform(0.4, 0.9), rng.uniform(0, 2 * np.pi)
    steps = int(np.ceil(64 * duration_s / period_s))
    edges_s = np.linspace(0, duration_s, steps + 1)
    weights = 1 + height * np.sin(2 * np.pi * (edges_s[:-1] + edges_s[1:]) / 2 / period_s + phase)
    return by_weights(edges_s, weights, rate_per_s, rng)


def steps(duration_s: float, rate_per_s: float, rng: np.random.Generator) -> Floats:
    """Draw the duration of each rate, and each rate."""
    hold_s = rng.uniform(20, 120)
    edges_s = np.append(np.arange(0, duration_s, hold_s), duration_s)
    return by_weights(edges_s, rng.uniform(0.2, 1, len(edges_s) - 1), rate_per_s, rng)


class _Crowds(NamedTuple):
    edges_s: Floats
    weights: Floats
    spans_s: tuple[tuple[float, float], ...]
    high: float


def _crowds(duration_s: float, rng: np.random.Generator) -> _Crowds:
    """Draw period, length, height and beginning of crowds; the weight between them is 1, the high one is theirs."""
    period_s, length_s = rng.uniform(120, 600), rng.uniform(10, 60)
    period_s = min(period_s, duration_s)
    first_s, high = rng.uniform(0, period_s - min(length_s, period_s)), rng.uniform(3, 6)
    begins_s = np.arange(first_s, duration_s, period_s)
    spans = tuple((float(begin_s), min(float(begin_s + length_s), duration_s)) for begin_s in begins_s)
    edges_s = np.concatenate(([0.0], np.ravel(spans), [duration_s]))
    return _Crowds(edges_s, np.where(np.arange(len(edges_s) - 1) % 2, high, 1.0), spans, high)


def crowds(duration_s: float, rate_per_s: float, rng: np.random.Generator) -> Floats:
    """Draw crowds and their arrivals."""
    drawn = _crowds(duration_s, rng)
    return by_weights(drawn.edges_s, drawn.weights, rate_per_s, rng)


def crowds_announced(duration_s: float, rate_per_s: float, rng: np.random.Generator) -> tuple[Announced, ...]:
    """Announce the crowds of ``crowds`` with the rate that they will have."""
    drawn = _crowds(duration_s, rng)
    mean = float(np.dot(drawn.weights, np.diff(drawn.edges_s))) / duration_s
    return tuple(Announced(from_s, until_s, rate_per_s * drawn.high / mean) for from_s, until_s in drawn.spans_s)


def outage(duration_s: float, rate_per_s: float, rng: np.random.Generator) -> Floats:
    """Draw outages: no item comes for a minute; then all missing ones come within seconds."""
    at_s = constant(duration_s, rate_per_s, rng)
    parts = max(1, round(duration_s / OUTAGE_EVERY_S))
    part_s = duration_s / parts
    outage_s = min(OUTAGE_S, part_s / 6)
    for part in range(parts):
        from_s = part * part_s + rng.uniform(part_s / 10, part_s - outage_s - min(CATCH_UP_S, part_s / 10))
        missed = (at_s >= from_s) & (at_s < from_s + outage_s)
        at_s[missed] = from_s + outage_s + rng.uniform(0, min(CATCH_UP_S, part_s / 10), np.count_nonzero(missed))
    return np.sort(at_s)


def bundles(duration_s: float, rate_per_s: float, rng: np.random.Generator) -> Floats:
    """Draw the times when many items come at once: every few seconds, up to a quarter of the gap early or late."""
    count = max(1, round(duration_s * rate_per_s / TOGETHER))
    gap_s = duration_s / count
    return np.repeat((np.arange(count) + 0.5 + rng.uniform(-0.25, 0.25, count)) * gap_s, TOGETHER)


def _until(end_s: float, lengths: Callable[[int], Floats], mean_s: float) -> Floats:
    """Return the edges of stretches whose lengths are drawn, from 0 to the end."""
    edges_s = np.zeros(1)
    while edges_s[-1] < end_s:
        # an even number, for loads with two alternating kinds of periods
        edges_s = np.append(edges_s, edges_s[-1] + np.cumsum(lengths(2 * int(end_s / mean_s / 2 + 4))))
    return np.append(edges_s[edges_s < end_s], end_s)


QUEUED_ITEMS = 6190


def queued(duration_s: float, rate_per_s: float, rng: np.random.Generator) -> Floats:
    """Return a queue that exists at the beginning, as in ray-project/ray#65540, and a constant rate."""
    later = constant(duration_s, max(0.0, rate_per_s - QUEUED_ITEMS / duration_s), rng)
    return np.concatenate([np.zeros(QUEUED_ITEMS), later])
