"""Measure the price of a hop: a small item and video frames of 360 KB and 6 MB through four stages on Ray.

A plain copy of the large frame is timed in the same rounds. The source makes a copy, because its buffer may be used
again, and so does each stage that makes a new frame. The limit allows these copies and the time of a small item.

    python -m lab.benchmarks.frames [--quick] [--json]
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import Annotated, Any

import numpy as np

from apps.contract import App
from compositions.model import Stage, all_sequential
from lab.benchmarks.harness import Table, at_most, main
from runtime.dispatch.dispatcher import Dispatcher
from runtime.dispatch.outcomes import Delivered
from runtime.dispatch.settings import DispatcherSettings
from runtime.engine import Engine
from runtime.pools.ray.pool import RayPool

IN_FLIGHT = 32
SMALL = {"serial": 7, "name": "item"}
FRAME = np.zeros((260, 462, 3), np.uint8)
"""A video frame of 360 KB."""
LARGE_FRAME = np.full((1080, 1920, 3), 100, np.uint8)
"""A frame of full HD (6.2 MB). It does not consist of zeros, which would have no memory of their own to read."""
MAKE = 7
"""The first byte of a frame that two of the stages replace."""
LARGE, MAKING = "large frame", "large frame, two stages make a frame"
ALLOWED, ALLOWED_MAKING = "a small item and 2 copies", "a small item and 6 copies"
SMALL_ITEM, COPY = "of it a small item", "of it a copy"


class Frames(App):
    """Four stages; the second and the third make a new frame of their input if it is dark."""

    name = "frames"
    stages = tuple(Stage(name) for name in ("s1", "s2", "s3", "s4"))

    def s1(self, value: Any) -> Any:
        return value

    def s2(self, value: Any) -> Any:
        return value.copy() if isinstance(value, np.ndarray) and value[0, 0, 0] == MAKE else value

    s3, s4 = s2, s1


class Stream:
    """The app with a worker per stage on the pool of Ray, driven as the runner does."""

    def __init__(self) -> None:
        self._pool = RayPool(Frames, [stage.name for stage in Frames.stages])
        self._codec = self._pool.codec
        composition = all_sequential(Frames.stages)
        settings = DispatcherSettings(buffer_items=IN_FLIGHT, spares=0)
        self._engine = Engine(Dispatcher(Frames.stages, composition, settings, self._codec.size_bytes), self._pool)
        self._engine.start()
        while len(self._engine.view().workers) < composition.workers:
            self._engine.advance(self._engine.now_s + 0.1)

    def one(self, value: Any) -> None:
        """Carry one item through all stages, and wait for it."""
        self._admit(value)
        while not self._collect():
            pass

    def p50_ms(self, value: Any, items: int) -> float:
        """Return the median time of one item at a time; the first few warm up."""
        for _ in range(5):
            self.one(value)
        return statistics.median(timed_ms(partial(self.one, value)) for _ in range(items))

    def rate_per_s(self, value: Any, items: int) -> float:
        """Return the items per second of a stream, several at a time."""
        engine, began_s, count = self._engine, time.perf_counter(), 0
        for _ in range(items):
            while not engine.has_room:
                count += self._collect()
            self._admit(value)
        while not engine.idle:
            count += self._collect()
        count += self._collect(0.0)
        assert count == items, f"{items} items went in and {count} came out"
        return count / (time.perf_counter() - began_s)

    def _admit(self, value: Any) -> None:
        self._engine.admit(self._codec.encode([value]), (self._engine.now_s,))

    def _collect(self, timeout_s: float = 1.0) -> int:
        count = 0
        for outcome in self._engine.advance(self._engine.now_s + timeout_s):
            if isinstance(outcome, Delivered):
                self._codec.decode(outcome.payload)
                count += 1
        return count

    def close(self) -> None:
        self._engine.close()


def timed_ms(call: Callable[[], object]) -> float:
    began_s = time.perf_counter()
    call()
    return (time.perf_counter() - began_s) * 1e3


def measure(quick: Annotated[bool, "3 short rounds instead of 9 long ones"] = False) -> Iterator[Table]:
    rounds, items = (3, 100) if quick else (9, 400)
    with closing(Stream()) as stream:
        values = {"small item": SMALL, "360 KB frame": FRAME}
        alone = {name: partial(stream.p50_ms, value, items) for name, value in values.items()}
        yield Table("one at a time, p50", "ms").run(alone, rounds)
        many = {name: partial(stream.rate_per_s, value, 3 * items) for name, value in values.items()}
        yield Table("pipelined", "items/s").run(many, rounds)
        table = Table("one at a time, 6.2 MB, p50", "ms", [
            at_most("of what is allowed", LARGE, 1.0, ALLOWED),
            at_most("of what is allowed, with new frames", MAKING, 1.0, ALLOWED_MAKING),
        ])  # fmt: skip
        table.rounds = [_large_round(stream, items // 4) for _ in range(rounds)]
        yield table


def _large_round(stream: Stream, items: int) -> dict[str, float]:
    """Time small items, large ones and copies in turn, so that all find the caches as the others leave them."""
    anew = LARGE_FRAME.copy()
    anew[0, 0, 0] = MAKE
    calls: dict[str, Callable[[], object]] = {
        SMALL_ITEM: partial(stream.one, SMALL),
        COPY: LARGE_FRAME.copy,
        LARGE: partial(stream.one, LARGE_FRAME),
        MAKING: partial(stream.one, anew),
    }
    times = [{name: timed_ms(call) for name, call in calls.items()} for _ in range(items)]
    turn = {name: statistics.median(each[name] for each in times) for name in calls}
    turn[ALLOWED] = turn[SMALL_ITEM] + 2 * turn[COPY]
    turn[ALLOWED_MAKING] = turn[SMALL_ITEM] + 6 * turn[COPY]
    return turn


if __name__ == "__main__":
    main(measure, ray=True)
