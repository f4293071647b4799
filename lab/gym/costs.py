"""Make the costs of items: recorded and read on in their own order, from sizes, or drawn.

A function of costs takes the number of items, the seed, the recorded sizes of the items (None: the load has none) and
when they are due. It returns two arrays with a row an item and a column a stage: seconds of computing, and seconds in
which the worker waits for something else. The run ends with the last item: "half time" is half of the time until then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from lab.gym.model import Floats
from lab.gym.recordings import generator
from lab.gym.tables import read_table

Costs = Callable[[int, int, Floats | None, Floats], tuple[Floats, Floats]]
Change = Callable[[Floats, Floats, np.random.Generator], None]
"""Function that changes seconds of computing in place, by the times when the items are due."""

RECORDED = Path(__file__).parent / "recorded"
COSTS, SIZES = RECORDED / "costs", RECORDED / "arrivals" / "azure_llm_code.csv"
USUAL_CV = 0.3
MICROSECOND_S = 1e-6
SLOW_S = 120.0


def in_order(name: str, cpu_s: Floats, wait_s: Floats) -> Costs:
    """Return the rows in their own order, from a random one on, in a circle."""

    def costs(items: int, seed: int, sizes: Floats | None, due_s: Floats) -> tuple[Floats, Floats]:
        begin = generator(name, seed).integers(len(cpu_s))
        rows = (begin + np.arange(items)) % len(cpu_s)
        return cpu_s[rows], wait_s[rows]

    return costs


def recorded(file: str, stages: Sequence[str], factor: float) -> Costs:
    """Return the costs of a recording, each multiplied by the factor. The recording is read when costs are needed."""

    @cache
    def rows() -> Floats:
        table = read_table(COSTS / f"{file}.csv")
        cpu_s: Floats = np.column_stack([table.column(stage) for stage in stages]) * (MICROSECOND_S * factor)
        return cpu_s

    def costs(items: int, seed: int, sizes: Floats | None, due_s: Floats) -> tuple[Floats, Floats]:
        return in_order(file, rows(), np.zeros_like(rows()))(items, seed, sizes, due_s)

    return costs


@cache
def _recorded_sizes() -> Floats:
    return read_table(SIZES).values[:, 1:]


def by_tokens(name: str, prefill_s: float, decode_s: float) -> Costs:
    """Return costs in proportion to the sizes: reading to the first (context), writing to the last (generated).

    The means over the run are given, so that the app is as heavy for every load with sizes. For other loads, the sizes
    of the recorded requests are read in their own order.
    """

    def costs(items: int, seed: int, sizes: Floats | None, due_s: Floats) -> tuple[Floats, Floats]:
        if sizes is None:
            own = _recorded_sizes()
            sizes = own[(generator(name, seed).integers(len(own)) + np.arange(items)) % len(own)]
        both = sizes[:, [0, -1]]
        cpu_s: Floats = both / np.maximum(both.sum(axis=0) / max(1, items), 1e-9) * (prefill_s, decode_s)
        return cpu_s, np.zeros_like(cpu_s)

    return costs


def drawn(name: str, means_s: Sequence[float], waits_s: Sequence[float] = (), change: Change | None = None) -> Costs:
    """Draw each cost independently (lognormal, coefficient of variation 0.3), then apply ``change``."""
    means, waits = np.array(means_s), np.array(waits_s or [0.0] * len(means_s))

    def costs(items: int, seed: int, sizes: Floats | None, due_s: Floats) -> tuple[Floats, Floats]:
        rng = generator(name, seed)
        shape = (items, len(means))
        cpu_s = means * lognormal(USUAL_CV, shape, rng)
        wait_s = waits * lognormal(USUAL_CV, shape, rng)
        if change:
            change(cpu_s, due_s, rng)
        return cpu_s, wait_s

    return costs


def lognormal(cv: float, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Draw numbers of mean 1 with this coefficient of variation."""
    variance = np.log1p(cv**2)
    numbers: Floats = rng.lognormal(-variance / 2, np.sqrt(variance), shape)
    return numbers


def heavy_tail(stage: int, mean_s: float, cv: float, limit_s: float) -> Change:
    """Draw from a lognormal distribution, up to a time limit.

    Items are delivered in order, so one that takes longer than the bound makes all behind it late: without a limit no
    number of workers would be enough.
    """

    def change(cpu_s: Floats, due_s: Floats, rng: np.random.Generator) -> None:
        cpu_s[:, stage] = np.minimum(mean_s * lognormal(cv, (len(cpu_s),), rng), limit_s)

    return change


def bimodal(stage: int, share: float, factor: float) -> Change:
    """Draw the items that take this multiple of the usual time."""

    def change(cpu_s: Floats, due_s: Floats, rng: np.random.Generator) -> None:
        cpu_s[rng.random(len(cpu_s)) < share, stage] *= factor

    return change


def regimes(stage: int, factor: float) -> Change:
    """Draw runs of 100 to 400 items; every other run takes this multiple of the usual time."""

    def change(cpu_s: Floats, due_s: Floats, rng: np.random.Generator) -> None:
        ends = np.cumsum(rng.integers(100, 401, len(cpu_s) // 100 + 2))
        run = np.searchsorted(ends, np.arange(len(cpu_s)), side="right") + rng.integers(2)
        cpu_s[run % 2 == 1, stage] *= factor

    return change


def slow_for_a_while(stage: int, factor: float) -> Change:
    """Multiply the costs of items that are due within two minutes from half time on."""

    def change(cpu_s: Floats, due_s: Floats, rng: np.random.Generator) -> None:
        half_s = _end_s(due_s) / 2
        cpu_s[(due_s >= half_s) & (due_s < half_s + SLOW_S), stage] *= factor

    return change


def slow_from_half(stage: int, factor: float) -> Change:
    """Multiply the costs of items that are due from half time on."""

    def change(cpu_s: Floats, due_s: Floats, rng: np.random.Generator) -> None:
        cpu_s[due_s >= _end_s(due_s) / 2, stage] *= factor

    return change


def leak(stage: int, growth: float) -> Change:
    """Let the stage become slower, by so much until four fifths of the run, and then be as it was: it was restarted."""

    def change(cpu_s: Floats, due_s: Floats, rng: np.random.Generator) -> None:
        part = due_s / (0.8 * _end_s(due_s))
        cpu_s[:, stage] *= 1 + growth * np.where(part < 1, part, 0.0)

    return change


def _end_s(due_s: Floats) -> float:
    return max(float(due_s[-1]), MICROSECOND_S) if len(due_s) else 1.0
