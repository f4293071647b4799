"""A gigabyte of state by key, a kilobyte for each of a million keys, beside a megabyte: throughput, memory, the time
until a lost worker's partitions are back, and the longest pause at a resize.

    python -m lab.benchmarks.large_state [--keys 1000000] [--seconds 8] [--items 2048] [--json]

A measurement begins when each key has its state. Each result is checked by its serial number. ``plain_of_small`` is
what a loop over one dict makes of the same stage and keys, nothing shipped: the share that memory alone leaves.
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

from apps import registry
from compositions.model import Composition, Group, Pattern
from control.decisions import Mode
from lab.benchmarks.delivering import delivering
from lab.benchmarks.harness import metadata, options, tell
from runtime.pools.ray import cluster
from service.runner.rpc.requests import ReadResults, ReadStatus, SetMode
from service.runner.runner import Runner
from service.schemas.spec import RunSpec

APPS = Path(__file__).parent / "keyed" / "apps"
SMALL_KEYS, STATE_BYTES = 1_000, 1_000
UP_S, LIMIT_S, LOOK_S = 60.0, 240.0, 0.02
PLAIN_ITEMS = 1_000_000
MB = 1e6


def composition(replicas: int) -> Composition:
    pattern = Pattern.PAR if replicas > 1 else Pattern.SEQ
    return Composition(f"{replicas} at it", (Group(("count",), pattern, replicas),))


class Run:
    """A run that is watched from here."""

    def __init__(self, runner: Runner, keys: int) -> None:
        self._runner, self._keys = runner, keys

    @property
    def delivered(self) -> int:
        return self._runner.ask(ReadStatus()).items.delivered

    def wait_for(self, delivered: int) -> float:
        """Seconds until so many are out. Raises: TimeoutError."""
        began_s = time.perf_counter()
        while self.delivered < delivered:
            if time.perf_counter() - began_s > LIMIT_S:
                raise TimeoutError(f"{self.delivered} of {delivered} items are out after {LIMIT_S:g} s")
            time.sleep(LOOK_S)
        return time.perf_counter() - began_s

    def rate_per_s(self, seconds: float) -> float:
        before, began_s = self.delivered, time.perf_counter()
        time.sleep(seconds)
        rate = (self.delivered - before) / (time.perf_counter() - began_s)
        self.check()
        return rate

    def check(self) -> None:
        """Raises: ValueError when a key did not come as often as in a plain loop."""
        for result in self._runner.ask(ReadResults(after=None, limit=1000)):
            if result.value != result.serial // self._keys + 1:
                raise ValueError(f"item {result.serial}: {result.value}, error {result.error}")

    def memory_bytes(self) -> int:
        """Of this process, which has the runner, and all workers."""
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        workers = self._runner.ask(ReadStatus()).workers
        return pages * resource.getpagesize() + sum(each.memory_bytes or 0 for each in workers)

    def back_s(self) -> float:
        """The only worker is killed: seconds until what waited before it and a round of all partitions are out."""
        status = self._runner.ask(ReadStatus())
        os.kill(next(each.pid for each in status.workers if each.group is not None and each.pid), signal.SIGKILL)
        took_s = self.wait_for(status.items.accepted + 1)
        self.check()
        return took_s

    def resize_gap_s(self, replicas: int, seconds: float) -> float:
        """The longest pause without an output while the group gets so many workers."""
        self._runner.ask(SetMode(Mode.PINNED, composition(replicas).name))
        gap_s, before = 0.0, self.delivered
        began_s = since_s = time.perf_counter()
        while (now_s := time.perf_counter()) < began_s + seconds:
            if (out := self.delivered) > before:
                before, since_s = out, now_s
            gap_s = max(gap_s, now_s - since_s)
            time.sleep(LOOK_S / 4)
        now = self._runner.ask(ReadStatus()).composition
        if now is None or now.workers != replicas:
            raise TimeoutError(f"after {seconds:g} s there is {now}")
        self.check()
        return gap_s


@contextmanager
def running(keys: int, items: int | str) -> Iterator[Run]:
    """Each key has its state."""
    spec = RunSpec(
        app="keyed_blobs", apps_dirs=(str(APPS),), options={"keys": keys, "state_bytes": STATE_BYTES}, mode=Mode.PINNED,
        compositions=(composition(1), composition(2)), composition=composition(1).name, batching={"items": items},
    )  # fmt: skip
    with delivering(spec, UP_S) as runner:
        run = Run(runner, keys)
        run.wait_for(2 * keys)
        yield run


def measured(keys: int, seconds: float, items: int | str) -> dict[str, float]:
    with running(SMALL_KEYS, items) as small:
        time.sleep(1)
        small_per_s, base = small.rate_per_s(seconds), small.memory_bytes()
    state = keys * STATE_BYTES
    with running(keys, items) as large:
        large_per_s, more = large.rate_per_s(seconds), large.memory_bytes() - base
        back_s = large.back_s()
        return {
            "state_mb": state / MB,
            "items_per_s_small": round(small_per_s),
            "items_per_s_large": round(large_per_s),
            "of_small": round(large_per_s / small_per_s, 3),
            "memory_of_state": round(more / state, 2),
            "back_s": round(back_s, 2),
            "gap_to_two_s": round(large.resize_gap_s(2, seconds), 2),
            "gap_to_one_s": round(large.resize_gap_s(1, seconds), 2),
        }


def plain_s(keys: int, count: int) -> float:
    """CPU time of the stage over one dict, for so many items of these keys, which have their states."""
    app, states = registry.create("keyed_blobs", {"keys": keys, "state_bytes": STATE_BYTES}, [APPS]), {}
    source, stage = app.items(None), app.count
    for key in islice(source, keys):
        states[key] = stage(key, None)[1]
    chosen = list(islice(source, count))
    began_s = time.thread_time()
    for key in chosen:
        states[key] = stage(key, states[key])[1]
    return time.thread_time() - began_s


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=8.0, help="a measurement")
    parser.add_argument("--items", type=int, default=2048, help="in a bundle")
    given = parser.parse_args()
    cluster.connect()
    try:
        figures = measured(given.keys, given.seconds, given.items)
    finally:
        cluster.shutdown()
    plain = [plain_s(SMALL_KEYS, PLAIN_ITEMS), plain_s(given.keys, PLAIN_ITEMS)]
    tell({**metadata(), **figures, "plain_of_small": round(plain[0] / plain[1], 3)}, given.json)


if __name__ == "__main__":
    main()
