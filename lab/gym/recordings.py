"""Define loads, and play recordings of arrivals at another rate, or for another time, than they were recorded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple
from zlib import crc32

import numpy as np

from lab.gym.drawn import by_weights
from lab.gym.model import Announced, Floats

Make = Callable[[float, float, int], Floats]
"""A function of the duration in seconds, the mean rate in items/s, and the seed."""
Announce = Callable[[float, float, int], tuple[Announced, ...]]


def _nothing(duration_s: float, rate_per_s: float, seed: int) -> tuple[Announced, ...]:
    return ()


@dataclass(frozen=True, slots=True)
class LoadModel:
    """A load. Its functions take the duration in seconds, the mean rate in items/s, and the seed."""

    name: str
    times: Make
    """Times at which items are due, within [0, duration)."""
    sizes: Make | None = None
    """Recorded sizes of these items, with a row per item; None: not recorded."""
    announced: Announce = _nothing


def generator(name: str, seed: int) -> np.random.Generator:
    """Return the random numbers of this seed and name, so that two loads share none."""
    return np.random.default_rng([crc32(name.encode()), seed])


class Instants(NamedTuple):
    """Arrivals at their recorded times, ascending from 0; after the last, the first follows."""

    at_s: Floats
    sizes: Floats
    """Sizes with a row per arrival; without columns: not recorded."""
    length_s: float
    """Length of the circle."""


def instants(at_s: Floats, sizes: Floats) -> Instants:
    """Return arrivals from the first one on, whose circle closes after a mean gap."""
    at_s = at_s - at_s[0]
    gap_s = at_s[-1] / max(1, len(at_s) - 1)
    return Instants(at_s, sizes, float(at_s[-1] + gap_s) or 1.0)


def played(recording: Instants, duration_s: float, rate_per_s: float, rng: np.random.Generator) -> Instants:
    """Play the recording from one of its arrivals on, which is drawn, at its own times.

    Another rate than its own is reached by copies that are shifted in a circle, and by leaving out arrivals at random:
    both keep the bursts, which a factor of time would not.
    """
    rounds = int(np.ceil(duration_s / recording.length_s)) + 1
    begin = int(rng.integers(len(recording.at_s)))
    turns = recording.length_s * np.repeat(np.arange(rounds), len(recording.at_s))
    at_s = np.tile(recording.at_s, rounds) + turns - recording.at_s[begin]
    there = np.flatnonzero((at_s >= 0) & (at_s < duration_s))
    at_s, which = at_s[there], there % len(recording.at_s)
    wanted = round(duration_s * rate_per_s)
    copies = [np.arange(len(at_s))] * (wanted // len(at_s))
    copies.append(rng.choice(len(at_s), wanted % len(at_s), replace=False))
    shifts_s = [0.0, *rng.uniform(0, duration_s, len(copies) - 1)]
    due_s = np.concatenate([(at_s[copy] + by_s) % duration_s for copy, by_s in zip(copies, shifts_s, strict=True)])
    order = np.argsort(due_s, kind="stable")
    return Instants(due_s[order], recording.sizes[which[np.concatenate(copies)[order]]], duration_s)


def of_instants(name: str, recording: Callable[[np.random.Generator], Instants]) -> LoadModel:
    """Return the load that plays a recording of single arrivals."""

    def play(duration_s: float, rate_per_s: float, seed: int) -> Instants:
        rng = generator(name, seed)
        return played(recording(rng), duration_s, rate_per_s, rng)

    return of_played(name, play)


def of_played(name: str, play: Callable[[float, float, int], Instants], sized: bool = True) -> LoadModel:
    """Return the load whose times and sizes are played together."""

    def times(duration_s: float, rate_per_s: float, seed: int) -> Floats:
        return play(duration_s, rate_per_s, seed).at_s

    def sizes(duration_s: float, rate_per_s: float, seed: int) -> Floats:
        return play(duration_s, rate_per_s, seed).sizes

    return LoadModel(name, times, sizes if sized else None)


def of_counts(name: str, counts: Callable[[], Floats], step_s: float) -> LoadModel:
    """Return the load that plays counts a step from a drawn step on, in a circle; Poisson within each step."""

    def times(duration_s: float, rate_per_s: float, seed: int) -> Floats:
        rng = generator(name, seed)
        weights = counts()
        steps = int(np.ceil(duration_s / step_s))
        weights = weights[(rng.integers(len(weights)) + np.arange(steps)) % len(weights)]
        edges_s = np.minimum(np.arange(steps + 1) * step_s, duration_s)
        return by_weights(edges_s, weights, rate_per_s, rng)

    return LoadModel(name, times)
