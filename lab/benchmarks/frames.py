"""Measure the price of a hop: a small item and video frames of 360 KB and 6 MB through four stages.

A plain copy of such a frame is timed in the same rounds: the source makes one, for its buffer may be used again, and
each stage that makes a frame anew makes one more. What is above these and a small item is ours to answer for.

python -m lab.benchmarks.frames [--quick] [--json]
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from apps.contract import App
from compositions.model import Stage, all_sequential
from lab.benchmarks.contenders import ActorChain, CompiledGraph, Contender, Recompose, p50_ms, rate_per_s
from lab.benchmarks.harness import Goal, Table, compare
from lab.benchmarks.workloads import FRAME, SMALL

OURS, CHAIN, GRAPH = "recompose", "ray actor calls, chained", "ray compiled graph"
MAKING = "recompose, two stages make a frame"
ALLOWED, ALLOWED_MAKING = "a small item and 2 copies", "a small item and 6 copies"
SMALL_ITEM, COPY = "of it a small item", "of it a copy"
LARGE_FRAME = np.full((1080, 1920, 3), 100, np.uint8)
"""A frame of full HD: 6.2 MB. Not of zeros, which have no memory of their own to be read."""


class Frames(App):
    """Four stages; the second and the third make a new frame of what they get, if it is dark."""

    name = "frames"
    stages = tuple(Stage(name) for name in ("s1", "s2", "s3", "s4"))

    def s1(self, value: Any) -> Any:
        return value

    def s2(self, value: Any) -> Any:
        return value.copy() if isinstance(value, np.ndarray) and value[0, 0, 0] == MAKE else value

    s3, s4 = s2, s1


MAKE = 7
"""The first byte of a frame that two of the stages make anew."""


def measure(rounds: int, items: int) -> list[Table]:
    stages = len(Frames.stages)
    ours = Recompose(Frames, Frames.stages, all_sequential(Frames.stages))
    chain, graph = ActorChain(stages), CompiledGraph(stages)
    them: dict[str, Contender] = {OURS: ours, CHAIN: chain, GRAPH: graph}
    share = {OURS: items, CHAIN: items // 5, GRAPH: items}
    goals = [Goal("of the actor chain", OURS, CHAIN, 0.10, True), Goal("of the compiled graph", OURS, GRAPH, 1.0, True)]
    small = Table("one at a time, small item, p50", "ms", goals)
    small_rate = Table("pipelined, small item", "items/s", [Goal("times the actor chain", OURS, CHAIN, 5.0, False)])
    latency = Table("one at a time, 360 KB frame, p50", "ms", goals)
    rate = Table("pipelined, 360 KB frame", "items/s", [Goal("of the compiled graph", OURS, GRAPH, 1.0, False)])
    try:
        small.run({name: partial(p50_ms, one, SMALL, share[name]) for name, one in them.items()}, rounds)
        small_rate.run(
            {name: partial(rate_per_s, one, [SMALL] * (4 * share[name])) for name, one in them.items()}, rounds
        )
        latency.run({name: partial(p50_ms, one, FRAME, share[name]) for name, one in them.items()}, rounds)
        rate.run({name: partial(rate_per_s, one, [FRAME] * (2 * share[name])) for name, one in them.items()}, rounds)
        large = measure_large(them, rounds, items // 4)
    finally:
        for one in them.values():
            one.close()
    return [small, small_rate, latency, rate, large]


def measure_large(them: dict[str, Contender], rounds: int, items: int) -> Table:
    goals = [
        Goal("of what is allowed", OURS, ALLOWED, 1.0, True),
        Goal("of what is allowed, with new frames", MAKING, ALLOWED_MAKING, 1.0, True),
    ]
    table = Table("one at a time, 6.2 MB frame, p50", "ms", goals)
    for _ in range(rounds):
        turn = _large_round(them[OURS], items)
        turn[CHAIN] = p50_ms(them[CHAIN], LARGE_FRAME, items // 5)  # the compiled graph has places of 1 MB
        table.rounds.append(turn)
    return table


def _large_round(ours: Contender, items: int) -> dict[str, float]:
    """Small items, large ones and copies in turn, so that all of them find the caches as the others leave them."""
    anew = LARGE_FRAME.copy()
    anew[0, 0, 0] = MAKE
    timed: dict[str, Callable[[], object]] = {
        SMALL_ITEM: partial(ours.one, SMALL),
        COPY: LARGE_FRAME.copy,
        OURS: partial(ours.one, LARGE_FRAME),
        MAKING: partial(ours.one, anew),
    }
    times: dict[str, list[float]] = {name: [] for name in timed}
    for _ in range(items):
        for name, call in timed.items():
            began_s = time.perf_counter()
            call()
            times[name].append((time.perf_counter() - began_s) * 1e3)
    turn = {name: statistics.median(each) for name, each in times.items()}
    turn[ALLOWED] = turn[SMALL_ITEM] + 2 * turn[COPY]
    turn[ALLOWED_MAKING] = turn[SMALL_ITEM] + 6 * turn[COPY]
    return turn


if __name__ == "__main__":
    compare(__doc__, measure, quick=(3, 100), long=(9, 400))
