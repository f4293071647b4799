"""Run a pipeline under load, and compute the paper's figures."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from math import inf
from operator import itemgetter
from statistics import fmean
from typing import NamedTuple

from lab.papers.prasaad.operators import Operator, bound_per_s
from lab.papers.prasaad.plant import Plant, Setup, Trace

OVERLOAD = 1.2
"""Load as a multiple of the bound at which inputs arrive when a peak is measured."""
FROM, TO = 0.2, 0.8
"""Part of a run that counts (section 7: markers between the 20th and the 80th percentile)."""


class Run(NamedTuple):
    """Figures of the time between 20 and 80 % of the arrivals."""

    throughput_per_s: float
    """Inputs per second that were completed, with all inputs before them."""
    latency_ms: float
    """Mean processing latency of these: from the first operator's beginning with an input until all that came of it,
    and of those before it, has left or is gone (section 2.1; a marker that no filter keeps back)."""
    bound_per_s: float
    worker_us: float
    """Time of all workers per completed input, including time in which they wait for a lock."""
    longest: tuple[int, ...]
    """Longest worklist of each operator."""

    @property
    def share(self) -> float:
        """Return the share of the bound."""
        return self.throughput_per_s / self.bound_per_s


def run(operators: Sequence[Operator], setup: Setup, inputs: int, load: float = OVERLOAD, stream: int = 0) -> Run:
    """Run ``inputs`` tuples that arrive evenly, at ``load`` times the bound; each ``stream`` has other values."""
    bound = bound_per_s(operators, setup.workers)
    arriving_s = inputs / (load * bound)
    trace = Plant(operators, setup).run(range(stream * inputs, (stream + 1) * inputs), load * bound, arriving_s)
    return counted(trace, bound, arriving_s, setup.workers)


def counted(trace: Trace, bound: float, arriving_s: float, workers: int) -> Run:
    """Return the figures. ``bound``: inputs per second; ``arriving_s``: time during which inputs arrive."""
    begin_s, end_s = FROM * arriving_s, TO * arriving_s
    rate = (_front_at(trace, end_s) - _front_at(trace, begin_s)) / (end_s - begin_s)
    latencies_s = list(_latencies_s(trace, begin_s, end_s))
    latency_ms = fmean(latencies_s) * 1e3 if latencies_s else inf
    return Run(rate, latency_ms, bound, workers / rate * 1e6 if rate else inf, tuple(trace.most_waiting))


def _front_at(trace: Trace, at_s: float) -> int:
    known = bisect_right(trace.fronts, at_s, key=itemgetter(0))
    return trace.fronts[known - 1][1] if known else 0


def _latencies_s(trace: Trace, begin_s: float, end_s: float) -> Iterator[float]:
    """Yield the latency of every input that was done in that time."""
    done = 0
    for at_s, front in trace.fronts:
        if begin_s <= at_s <= end_s:
            yield from (at_s - trace.begun_s[origin] for origin in range(done, front))
        done = front
