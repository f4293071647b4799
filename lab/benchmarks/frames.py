"""Measure the price of a hop: a small item and video frames of 360 KB and 6 MB through four stages.

A plain copy of such a frame is timed in the same rounds: the source makes one, because its buffer may be used again,
and each stage that makes a new frame makes one more. These copies and the time of a small item are allowed.

    python -m lab.benchmarks.frames [--quick] [--json]
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, Any

import numpy as np

from apps.contract import App
from compositions.model import Stage, all_sequential
from lab.benchmarks.contenders import ActorChain, CompiledGraph, Contender, Recompose, p50_ms, rate_per_s
from lab.benchmarks.harness import Table, at_least, at_most, main

SMALL = {"serial": 7, "name": "item"}
FRAME = np.zeros((260, 462, 3), np.uint8)
"""A video frame of 360 KB."""
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


def measure(quick: Annotated[bool, "3 short rounds instead of 9 long ones"] = False) -> Iterator[Table]:
    rounds, items = (3, 100) if quick else (9, 400)
    stages = len(Frames.stages)
    them: dict[str, Contender] = {
        OURS: Recompose(Frames, Frames.stages, all_sequential(Frames.stages)),
        CHAIN: ActorChain(stages),
        GRAPH: CompiledGraph(stages),
    }
    share = {OURS: items, CHAIN: items // 5, GRAPH: items}
    latency = [at_most("of the actor chain", OURS, 0.10, CHAIN), at_most("of the compiled graph", OURS, 1.0, GRAPH)]
    try:
        for name, value, times, rate in (
            ("small item", SMALL, 4, at_least("times the actor chain", OURS, 5.0, CHAIN)),
            ("360 KB frame", FRAME, 2, at_least("of the compiled graph", OURS, 1.0, GRAPH)),
        ):
            alone = {each: partial(p50_ms, one, value, share[each]) for each, one in them.items()}
            yield Table(f"one at a time, {name}, p50", "ms", latency).run(alone, rounds)
            many = {each: partial(rate_per_s, one, [value] * (times * share[each])) for each, one in them.items()}
            yield Table(f"pipelined, {name}", "items/s", [rate]).run(many, rounds)
        yield large_frames(them, rounds, items // 4)
    finally:
        for one in them.values():
            one.close()


def large_frames(them: dict[str, Contender], rounds: int, items: int) -> Table:
    table = Table("one at a time, 6.2 MB frame, p50", "ms", [
        at_most("of what is allowed", OURS, 1.0, ALLOWED),
        at_most("of what is allowed, with new frames", MAKING, 1.0, ALLOWED_MAKING),
    ])  # fmt: skip
    for _ in range(rounds):
        turn = _large_round(them[OURS], items)
        turn[CHAIN] = p50_ms(them[CHAIN], LARGE_FRAME, items // 5)  # the compiled graph has places of 1 MB
        table.rounds.append(turn)
    return table


def _large_round(ours: Contender, items: int) -> dict[str, float]:
    """Time small items, large ones and copies in turn, so that all find the caches as the others leave them."""
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
    main(measure, ray=True)
