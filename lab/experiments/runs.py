"""Run apps in this process for experiments and benchmarks: from the first delivery on, or to the end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from compositions.errors import RecomposeError
from service.runner.rpc.port import Patient
from service.runner.rpc.requests import ReadStatus, ReadSummary, Start, Stop
from service.runner.runner import Runner
from service.schemas.spec import RunSpec
from service.schemas.status import Status

UP_S, LIMIT_S = 120.0, 300.0
LOOK_S = 0.005


@contextmanager
def delivering(
    spec: RunSpec, *, least: int = 1, drain: bool = False, may_fail: bool = False, runner: Runner | None = None
) -> Iterator[Runner]:
    """Start a run (by ``runner``, if one was made) and yield its runner after ``least`` deliveries; stop it on the way
    out, with ``drain`` after all accepted items. Raises: RecomposeError if they do not come, the run lost an item or,
    unless they ``may_fail``, an item failed."""
    runner = runner or Runner(spec)
    runner.ask(Start())
    try:
        wait_for(runner, least, UP_S)
        yield runner
    finally:
        runner.ask(Stop(drain=drain, timeout_s=UP_S))
    items = runner.ask(ReadSummary()).items
    if (
        items is None or items.lost or items.misordered or (items.failed and not may_fail)
        or (drain and items.delivered + items.failed != items.accepted)
    ):  # fmt: skip
        raise RecomposeError(f"{spec.app}: {items}, {runner.ask(ReadStatus()).health.failure}")


def check(status: Status) -> None:
    """Check the run. Raises: RecomposeError if it has failed."""
    if status.state == "failed":
        raise RecomposeError(f"{status.app} failed: {str(status.health.failure).strip().splitlines()[-1]}")


def delivered(runner: Runner) -> int:
    """Return the number of delivered items. Raises: RecomposeError if the run has failed."""
    status = Patient(runner).ask(ReadStatus())
    check(status)
    return status.items.delivered


def wait_for(runner: Runner, count: int, limit_s: float = LIMIT_S) -> float:
    """Return the seconds until ``count`` items are delivered. Raises: RecomposeError if they do not come."""
    began_s = time.perf_counter()
    while (done := delivered(runner)) < count:
        if time.perf_counter() - began_s > limit_s:
            raise RecomposeError(f"{done} of {count} items were delivered within {limit_s:g} s")
        time.sleep(LOOK_S)
    return time.perf_counter() - began_s


@dataclass(frozen=True)
class Ended:
    """The end of a run: seconds of the clock and of this process's CPU, and the last status."""

    wall_s: float
    cpu_s: float
    status: Status


def to_the_end(spec: RunSpec, limit_s: float = LIMIT_S) -> Ended:
    """Run all items of the source. Raises: RecomposeError if the run does not end, or failed."""
    runner = Runner(spec)
    began_s, cpu_s = time.monotonic(), time.process_time()
    runner.ask(Start())
    try:
        if not runner.wait(limit_s):
            raise RecomposeError(f"{spec.app} did not end within {limit_s:g} s: {runner.ask(ReadStatus())}")
        ended = Ended(time.monotonic() - began_s, time.process_time() - cpu_s, runner.ask(ReadStatus()))
    finally:
        runner.ask(Stop())
    check(ended.status)
    return ended
