"""Define the loads by name: the times at which items are due, recorded or drawn.

Times are seconds from the beginning of the run, not falling; items that come at once have the same time. The rate is
the mean over the run. The same seed gives the same times, and another seed another load, with other parameters,
beginnings and instants.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import numpy as np

from compositions.errors import RecomposeError
from datapipe.sources.rate_spec import read_arrivals
from lab.gym import drawn
from lab.gym.drawn import by_weights
from lab.gym.model import Announced, Floats
from lab.gym.recordings import Instants, LoadModel, generator, instants, of_counts, of_instants, of_played, played
from lab.gym.tables import Table, read_table

__all__ = ["LOADS", "LoadModel", "read_trace"]

RECORDED = Path(__file__).parent / "recorded" / "arrivals"


@cache
def _recorded_instants(file: str) -> Instants:
    table = read_table(RECORDED / file)
    return instants(table.column("seconds"), table.values[:, 1:])


@cache
def _recorded_counts(file: str) -> Floats:
    return read_table(RECORDED / file).column("count")


def _azure(rng: np.random.Generator) -> Instants:
    return _recorded_instants("azure_llm_code.csv")


MOONCAKE_STEP_S = 3.0
"""The recording has times in steps of 3 s; the times within a step are drawn."""


def _mooncake(rng: np.random.Generator) -> Instants:
    recording = _recorded_instants("mooncake_conversation.csv")
    steps = np.round(recording.at_s / MOONCAKE_STEP_S)
    at_s = np.sort((steps + rng.random(len(steps))) * MOONCAKE_STEP_S)
    return Instants(at_s - at_s[0], recording.sizes, float(steps[-1] + 1) * MOONCAKE_STEP_S)


LEAST_OF_BUSIEST = 4 / 30
"""Ratio of the quietest step to the busiest. The authors of the dsp series shifted and scaled them, so the real ratio
is unknown."""
DSP_STEP_S = 300 / 24
"""Five minutes at a factor of time of 24: a day is an hour."""


def _stretched(file: str) -> Callable[[], Floats]:
    def counts() -> Floats:
        values = _recorded_counts(file)
        above = (values - values.min()) / (values.max() - values.min())
        weights: Floats = LEAST_OF_BUSIEST + (1 - LEAST_OF_BUSIEST) * above
        return weights

    return counts


def _autothrottle(name: str) -> LoadModel:
    return of_counts(f"autothrottle_{name}", lambda: _recorded_counts(f"autothrottle_{name}.csv"), 1.0)


def _drawn(name: str, draw: drawn.Draw, announce: drawn.Announce | None = None) -> LoadModel:
    """Return a load whose parameters are drawn by the seed, the same for its times and its announcements."""

    def times(duration_s: float, rate_per_s: float, seed: int) -> Floats:
        return draw(duration_s, rate_per_s, generator(name, seed))

    def announced(duration_s: float, rate_per_s: float, seed: int) -> tuple[Announced, ...]:
        return announce(duration_s, rate_per_s, generator(name, seed)) if announce else ()

    return LoadModel(name, times, announced=announced)


_ALL = (
    of_instants("azure", _azure),
    of_instants("mooncake", _mooncake),
    _autothrottle("diurnal"),
    _autothrottle("noisy"),
    of_counts("wiki", _stretched("dsp_wiki.csv"), DSP_STEP_S),
    of_counts("iot", _stretched("dsp_iot.csv"), DSP_STEP_S),
    _drawn("constant", drawn.constant),
    _drawn("paced", drawn.paced),
    _drawn("mmpp", drawn.mmpp),
    _drawn("self_similar", drawn.self_similar),
    _drawn("waves", drawn.waves),
    _drawn("steps", drawn.steps),
    _drawn("crowds", drawn.crowds),
    _drawn("crowds_announced", drawn.crowds, drawn.crowds_announced),
    _drawn("outage", drawn.outage),
    _drawn("bundles", drawn.bundles),
    _drawn("queued", drawn.queued),
)
LOADS: Mapping[str, LoadModel] = {load.name: load for load in _ALL}


COUNTS = ("count", "counts", "requests", "messages", "arrivals", "events")
TIMES = ("seconds", "time", "timestamp", "date", "datetime", "at_s")


def read_trace(path: Path, speed: float = 0.0) -> LoadModel:
    """Return the load that a user's file describes: an access log, a time in seconds per line, or a CSV table.

    A table (``*.csv``) has a header with one column of times (seconds, or ISO 8601). Its other columns are sizes of the
    items; or one of them is a count, and each row a step. ``speed``: so many times as fast as it was, from its first
    item on. 0: its times are scaled to the run, and copies or omissions bring it to the run's rate.

    Raises: RecomposeError with one sentence when the file cannot be read or has no arrivals.
    """
    name = path.stem
    if path.suffix.lower() != ".csv":
        at_s = np.array(read_arrivals(path))
        if not len(at_s):
            raise RecomposeError(f"trace {str(path)!r} has no arrivals")
        return _of_users(name, instants(at_s, np.empty((len(at_s), 0))), speed)
    table = read_table(path)
    time = _one_of(TIMES, table)
    rows = table.values[np.argsort(table.column(time), kind="stable")]
    at_s = rows[:, table.columns.index(time)]
    if not any(column.lower() in COUNTS for column in table.columns):
        sizes = np.delete(rows, table.columns.index(time), axis=1)
        return _of_users(name, instants(at_s, sizes), speed)
    counts = rows[:, table.columns.index(_one_of(COUNTS, table))]
    if len(at_s) < 2 or np.diff(at_s).min() <= 0:
        raise RecomposeError(f"table {str(path)!r} has counts; it needs at least two steps, each with another time")
    if counts.min() < 0 or np.any(counts % 1) or not counts.any():
        raise RecomposeError(f"table {str(path)!r} must have whole numbers from 0 on as counts, and not only zeros")
    return _of_users_steps(name, at_s / (speed or 1.0), counts, scaled=not speed)


def _one_of(names: tuple[str, ...], table: Table) -> str:
    found = [column for column in table.columns if column.lower() in names]
    if len(found) != 1:
        raise RecomposeError(
            f"table {table.place!r} has the columns {', '.join(table.columns)}; "
            f"exactly one must be named {', '.join(names[:-1])} or {names[-1]}"
        )
    return found[0]


def _of_users_steps(name: str, begins_s: Floats, counts: Floats, *, scaled: bool) -> LoadModel:
    """Return the load of counts a step, of which the last is as long as the one before."""
    lengths_s = np.diff(begins_s)
    edges_s = np.append(begins_s, begins_s[-1] + lengths_s[-1]) - begins_s[0]

    def times(duration_s: float, rate_per_s: float, seed: int) -> Floats:
        if scaled:
            scaled_s = edges_s * (duration_s / edges_s[-1])
            return by_weights(scaled_s, counts / np.diff(edges_s), rate_per_s, generator(name, seed))
        steps = np.flatnonzero(edges_s[:-1] < duration_s)
        whole = counts[steps].astype(int)
        places = np.concatenate([(np.arange(count) + 0.5) / count for count in whole])
        at_s: Floats = np.repeat(edges_s[steps], whole) + places * np.repeat(np.diff(edges_s)[steps], whole)
        return at_s[at_s < duration_s]

    return LoadModel(name, times)


def _of_users(name: str, recording: Instants, speed: float) -> LoadModel:
    def play(duration_s: float, rate_per_s: float, seed: int) -> Instants:
        if speed:
            there = recording.at_s < duration_s * speed
            return Instants(recording.at_s[there] / speed, recording.sizes[there], duration_s)
        factor = duration_s / recording.length_s
        scaled = Instants(recording.at_s * factor, recording.sizes, duration_s)
        return played(scaled, duration_s, rate_per_s, generator(name, seed))

    return of_played(name, play, bool(recording.sizes.shape[1]))
