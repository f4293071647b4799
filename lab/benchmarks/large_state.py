"""Measure a gigabyte of state by key, a kilobyte for each of a million keys, beside a megabyte.

    python -m lab.benchmarks.large_state [--keys 1000000] [--seconds 8] [--items 2048] [--json]

It measures throughput, memory, the time until a lost worker's partitions are back, and the longest pause at a resize.
A measurement begins when each key has its state. Each result is checked by its serial number. ``plain_of_small`` is the
ratio of a loop over one dict with the same stage and keys, without any transport: the share that memory alone leaves.
"""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Annotated

from apps import registry
from compositions.model import Composition
from control.decisions import Mode
from lab.benchmarks.harness import Rows, main
from lab.benchmarks.light.ours import APPS, group
from lab.experiments.runs import LOOK_S, delivered, delivering, wait_for
from service.runner.rpc.requests import ReadResults, ReadStatus, SetMode
from service.runner.runner import Runner
from service.schemas.spec import RunSpec

SMALL_KEYS, STATE_BYTES = 1_000, 1_000
PLAIN_ITEMS = 1_000_000
MB = 1e6


def composition(replicas: int) -> Composition:
    return Composition(f"{replicas} at it", (group(("count",), replicas),))


class Run:
    """A run of ``keyed_blobs`` in which each key has its state."""

    def __init__(self, runner: Runner, keys: int) -> None:
        self._runner, self._keys = runner, keys

    def rate_per_s(self, seconds: float) -> float:
        before, began_s = delivered(self._runner), time.perf_counter()
        time.sleep(seconds)
        rate = (delivered(self._runner) - before) / (time.perf_counter() - began_s)
        self.check()
        return rate

    def check(self) -> None:
        """Raises: ValueError when a key did not come as often as in a plain loop."""
        for result in self._runner.ask(ReadResults(after=None, limit=1000)):
            if result.value != result.serial // self._keys + 1:
                raise ValueError(f"item {result.serial}: {result.value}, error {result.error}")

    def memory_bytes(self) -> int:
        """Return the memory of this process, which has the runner, and of all workers."""
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        workers = self._runner.ask(ReadStatus()).workers
        return pages * resource.getpagesize() + sum(each.memory_bytes or 0 for each in workers)

    def back_s(self) -> float:
        """Kill the only worker; return the seconds until what waited and a round of all partitions are out."""
        status = self._runner.ask(ReadStatus())
        os.kill(next(each.pid for each in status.workers if each.group is not None and each.pid), signal.SIGKILL)
        took_s = wait_for(self._runner, status.items.accepted + 1)
        self.check()
        return took_s

    def resize_gap_s(self, replicas: int, seconds: float) -> float:
        """Return the longest pause without an output while the group is resized."""
        self._runner.ask(SetMode(Mode.PINNED, composition(replicas).name))
        gap_s, before = 0.0, delivered(self._runner)
        began_s = since_s = time.perf_counter()
        while (now_s := time.perf_counter()) < began_s + seconds:
            if (out := delivered(self._runner)) > before:
                before, since_s = out, now_s
            gap_s = max(gap_s, now_s - since_s)
            time.sleep(LOOK_S)
        now = self._runner.ask(ReadStatus()).composition
        if now is None or now.workers != replicas:
            raise TimeoutError(f"after {seconds:g} s there is {now}")
        self.check()
        return gap_s


@contextmanager
def running(keys: int, items: int) -> Iterator[Run]:
    spec = RunSpec(
        app="keyed_blobs", apps_dirs=(str(APPS),), options={"keys": keys, "state_bytes": STATE_BYTES}, mode=Mode.PINNED,
        compositions=(composition(1), composition(2)), composition=composition(1).name, batching={"items": items},
    )  # fmt: skip
    with delivering(spec, least=2 * keys) as runner:
        yield Run(runner, keys)


def plain_s(keys: int, count: int) -> float:
    """Return the CPU time of the stage over one dict, for ``count`` items of these keys, which have their states."""
    app, states = registry.create("keyed_blobs", {"keys": keys, "state_bytes": STATE_BYTES}, [APPS]), {}
    source, stage = app.items(None), app.count
    for key in islice(source, keys):
        states[key] = stage(key, None)[1]
    chosen = list(islice(source, count))
    began_s = time.thread_time()
    for key in chosen:
        states[key] = stage(key, states[key])[1]
    return time.thread_time() - began_s


def measure(
    keys: int = 1_000_000,
    seconds: Annotated[float, "of a measurement"] = 8.0,
    items: Annotated[int, "in a bundle"] = 2048,
) -> Iterator[Rows]:
    with running(SMALL_KEYS, items) as small:
        time.sleep(1)
        small_per_s, base = small.rate_per_s(seconds), small.memory_bytes()
    state = keys * STATE_BYTES
    with running(keys, items) as large:
        large_per_s, more = large.rate_per_s(seconds), large.memory_bytes() - base
        back_s = large.back_s()
        found = {
            "state_mb": state / MB,
            "items_per_s_small": small_per_s,
            "items_per_s_large": large_per_s,
            "of_small": large_per_s / small_per_s,
            "memory_of_state": more / state,
            "back_s": back_s,
            "gap_to_two_s": large.resize_gap_s(2, seconds),
            "gap_to_one_s": large.resize_gap_s(1, seconds),
        }
    plain = plain_s(SMALL_KEYS, PLAIN_ITEMS) / plain_s(keys, PLAIN_ITEMS)
    yield Rows("states by key", [{**found, "plain_of_small": plain}])


if __name__ == "__main__":
    main(measure, ray=True)
