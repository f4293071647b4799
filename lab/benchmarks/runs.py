"""Run apps in this process for benchmarks: from the first delivery on, or to the end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from service.runner.rpc.requests import ReadStatus, ReadSummary, Start, Stop
from service.runner.runner import Runner
from service.schemas.spec import RunSpec
from service.schemas.status import Status

UP_S, LIMIT_S = 120.0, 300.0
LOOK_S = 0.005


@contextmanager
def delivering(spec: RunSpec, *, least: int = 1, drain: bool = False, may_fail: bool = False) -> Iterator[Runner]:
    """Start a run and yield its runner after ``least`` deliveries; stop it on the way out, with ``drain`` after all
    accepted items. Raises: TimeoutError if they do not come, ValueError if the run lost an item or, unless they
    ``may_fail``, an item failed."""
    runner = Runner(spec)
    runner.ask(Start())
    try:
        wait_for(runner, least, UP_S)
        yield runner
    finally:
        runner.ask(Stop(drain=drain, timeout_s=UP_S))
    items = runner.ask(ReadSummary()).items
    whole = items is not None and not items.lost and not items.misordered and (may_fail or not items.failed)
    if not whole or (drain and items.delivered + items.failed != items.accepted):
        raise ValueError(f"{spec.app}: {items}, {runner.ask(ReadStatus()).health.failure}")


def delivered(runner: Runner) -> int:
    return runner.ask(ReadStatus()).items.delivered


def wait_for(runner: Runner, count: int, limit_s: float = LIMIT_S) -> float:
    """Return the seconds until ``count`` items are delivered. Raises: TimeoutError."""
    began_s = time.perf_counter()
    while (done := delivered(runner)) < count:
        if time.perf_counter() - began_s > limit_s:
            failure = runner.ask(ReadStatus()).health.failure
            raise TimeoutError(f"{done} of {count} items were delivered within {limit_s:g} s: {failure}")
        time.sleep(LOOK_S)
    return time.perf_counter() - began_s


@dataclass(frozen=True)
class Ended:
    """The end of a run: seconds of the clock and of this process's CPU, and the last status."""

    wall_s: float
    cpu_s: float
    status: Status


def to_the_end(spec: RunSpec, limit_s: float = LIMIT_S) -> Ended:
    """Run all items of the source. Raises: TimeoutError, and ValueError if the run failed."""
    runner = Runner(spec)
    began_s, cpu_s = time.monotonic(), time.process_time()
    runner.ask(Start())
    try:
        if not runner.wait(limit_s):
            raise TimeoutError(f"{spec.app} did not end within {limit_s:g} s: {runner.ask(ReadStatus())}")
        ended = Ended(time.monotonic() - began_s, time.process_time() - cpu_s, runner.ask(ReadStatus()))
    finally:
        runner.ask(Stop())
    if ended.status.health.failure is not None:
        raise ValueError(f"{spec.app}: {ended.status.health.failure}")
    return ended
