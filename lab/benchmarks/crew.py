"""Workers that compute on request, on threads or Ray, and the time that they take.

The process that has the lines to the workers decides which tuple each one takes, as the dispatcher does. Workers only
compute: they hash, which releases the interpreter's lock. A message there and back takes some 30 µs, sometimes 100, so
tuples should take longer.
"""

from __future__ import annotations

import hashlib
import math
import os
import selectors
import threading
import time
from collections.abc import Callable, Sequence
from functools import cache
from multiprocessing.connection import Client, Connection, Listener
from typing import Any, Literal

from lab.papers.prasaad.timeline import Happening, Step, Timeline

Place = Literal["threads", "ray"]
BLOCK = bytes(1 << 20)


@cache
def hashed_per_s() -> float:
    """Return the bytes that a thread of this process hashes in a second of CPU; measured once."""
    return len(BLOCK) / min(_hash_s(BLOCK) for _ in range(9))


def hash_for(seconds: float, bytes_per_s: float) -> None:
    """Use about this much CPU, without the interpreter's lock except between blocks."""
    left = int(seconds * bytes_per_s)
    while left > 0:
        hashlib.sha256(memoryview(BLOCK)[:left])
        left -= len(BLOCK)


def _hash_s(data: bytes) -> float:
    began_s = time.thread_time()
    hashlib.sha256(data)
    return time.thread_time() - began_s


def serve(address: str, key: bytes) -> None:
    """Compute for as many seconds as each message says, and reply how long it took; None ends it."""
    with Client(address, authkey=key) as line:
        bytes_per_s = hashed_per_s()
        line.send(True)
        while (seconds := line.recv()) is not None:
            began_s = time.perf_counter()
            hash_for(seconds, bytes_per_s)
            line.send(time.perf_counter() - began_s)


class Crew:
    """A number of workers, which have started when it is made."""

    def __init__(self, place: Place, workers: int) -> None:
        key = os.urandom(16)
        with Listener(authkey=key) as listener:
            self._ends = [_START[place](str(listener.address), key) for _ in range(workers)]
            self.lines: Sequence[Connection[Any, Any]] = [listener.accept() for _ in range(workers)]
        for line in self.lines:
            line.recv()

    def close(self) -> None:
        for line in self.lines:
            line.send(None)
        for end in self._ends:
            end()


def _thread(address: str, key: bytes) -> Callable[[], None]:
    worker = threading.Thread(target=serve, args=(address, key), daemon=True)
    worker.start()
    return worker.join


def _ray_task(address: str, key: bytes) -> Callable[[], None]:
    """A place of one core, as the service's workers have; messages go by its own line, as theirs do."""
    import ray  # where there is none, free-threaded Python for one, there are the others

    ended = ray.remote(num_cpus=1, max_retries=0)(serve).remote(address, key)
    return lambda: ray.get(ended)


_START: dict[Place, Callable[[str, bytes], Callable[[], None]]] = {
    "threads": _thread, "ray": _ray_task
}  # fmt: skip


class WallTime(Timeline):
    """A run by the clock: a worker computes what is planned for it, and an input arrives when it is due."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self._steps: dict[int, Step] = {}
        """The step of each worker that computes."""
        self._worked_s = [0.0] * len(crew.lines)
        self._arrives_s: float | None = None
        self._selector = selectors.DefaultSelector()
        for number, line in enumerate(crew.lines):
            self._selector.register(line, selectors.EVENT_READ, number)
        self._began_s = time.perf_counter()

    def plan(self, at_s: float, step: Step, worker: int | None) -> None:
        if worker is None:
            self._arrives_s = at_s
        else:
            self._steps[worker] = step
            self._crew.lines[worker].send(at_s - self.now_s)

    def worked_s(self, worker: int, planned_s: float) -> float:
        return self._worked_s[worker]

    def next(self, until_s: float) -> Happening | None:
        """Return workers first: if inputs come too fast, workers have to run them all the same."""
        while self._steps or self._arrives_s is not None:
            real_s = time.perf_counter() - self._began_s
            if real_s > until_s:
                return None
            wake_s = until_s if self._arrives_s is None else min(until_s, self._arrives_s)
            ready = self._selector.select(None if math.isinf(wake_s) else max(0.0, wake_s - real_s))
            self.now_s = time.perf_counter() - self._began_s
            if ready:
                worker = ready[0][0].data
                self._worked_s[worker] = self._crew.lines[worker].recv()
                return Happening(self._steps.pop(worker), worker)
            if self._arrives_s is not None and self._arrives_s <= self.now_s:
                self._arrives_s = None
                return Happening("arrive", None)
        return None

    def close(self) -> None:
        """Wait until all workers are free."""
        for worker in self._steps:
            self._crew.lines[worker].recv()
        self._selector.close()
