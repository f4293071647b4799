"""Source and sink of SPBench (Garcia et al. 2023) for runs on real workers, in place of the product's."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from apps.rates import Fixed, Rate, rate_now
from datapipe.sources.sources import Arrival, Clock, Source
from runtime.dispatch.outcomes import Outcome, TaskTimed
from service.runner.runner import Runner
from service.runner.validation.resolution import NO_OVERRIDES, Overrides
from service.runner.wiring.run import Run
from service.schemas.spec import RunSpec

LEAST_PER_S = 1e-3
"""Lowest frequency, as the source would sleep forever at 0."""


class FrequencyManager:
    """Algorithm 1 (section 3.2): before each item, the source sleeps for the rest of ``1 / frequency`` since the
    previous item. Sleeps that last too long, and times in which the source is held back, lower the mean rate."""

    def __init__(self, source: Source, first_per_s: float, clock: Clock = time.monotonic) -> None:
        self._source, self._clock, self._stopping = source, clock, threading.Event()
        self.wait: Callable[[float], bool] = self._stopping.wait
        """Sleep for this time in seconds; return True if the source is to stop."""
        self.set_pattern(Fixed(first_per_s))

    def set_pattern(self, pattern: Rate) -> None:
        """Follow another pattern, whose time begins now."""
        self._pattern, self._items = (pattern, self._clock()), 0

    def __iter__(self) -> Iterator[Arrival]:
        arrivals, last_s = iter(self._source), -math.inf
        while not self.wait(self._delay_s(last_s)):
            last_s = self._clock()
            self._items += 1
            if (arrival := next(arrivals, None)) is None:
                return
            yield arrival

    def _delay_s(self, last_s: float) -> float:
        (pattern, began_s), now_s = self._pattern, self._clock()
        expected_s = 1 / max(rate_now(pattern, now_s - began_s, self._items), LEAST_PER_S)
        return max(0.0, expected_s - (now_s - last_s))

    def close(self) -> None:
        self._stopping.set()
        self._source.close()


@dataclass(frozen=True, slots=True)
class ReadBy(Overrides):
    """A run that reads this source instead of the one in its spec."""

    reader: Source | None = None

    def source(self) -> Source | None:
        return self.reader


class UnorderedRunner(Runner):
    """Records when the last stage of each item ended: SPBench's Ferret has an unordered sink (section 5.3)."""

    def __init__(self, spec: RunSpec, overrides: Overrides = NO_OVERRIDES) -> None:
        super().__init__(spec, overrides)
        self._ended_s: dict[int, float] = {}

    def ended_at(self) -> dict[int, float]:
        """Return by serial number when the last stage of each item ended, in seconds since the epoch."""
        epoch_s = time.time() - time.monotonic()
        return {serial: epoch_s + at_s for serial, at_s in self._ended_s.items()}

    def _turn(self, run: Run, note: Callable[[], None]) -> None:
        observe, last = run.loop.tap, run.checked.stages[-1].name

        def tap(outcome: Outcome) -> None:
            if isinstance(outcome, TaskTimed) and outcome.timings[-1].stage == last:
                serials = range(outcome.serial, outcome.serial + outcome.items)
                self._ended_s.update(dict.fromkeys(serials, outcome.at_s))
            if observe is not None:
                observe(outcome)

        run.loop.tap = tap
        super()._turn(run, note)
