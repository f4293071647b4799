"""Two ways to send results in order on threads of one Python that do it themselves (Prasaad et al., figures 12 and 13):
the work is hashing, which lets go of the interpreter's lock, and the ring is Python.

    python -m benchmarks.ordered_threads [--threads 2] [--tuples 6000] [--rounds 10] [--json]

What is compared takes turns, and ratios are those within a round. With the interpreter's lock one thread at a time runs
what is not hashing, so a thread in the ring is seldom met by another: what is shown is the cost of the scheme, and that
its order holds. Free-threaded Python (3.13t) runs this file as it is, needs only click beside it, and shows threads
that meet; ``PYTHON_GIL=1`` gives it the lock back. All figures, other places: ``benchmarks.ordered_live``.
"""

from __future__ import annotations

import json
import statistics
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import NamedTuple

import click

from benchmarks.crew import hash_for, hashed_per_s
from benchmarks.harness import cores, median_interval, metadata
from compositions.model import StageKind
from service.experiments.ordered.operators import Operator
from service.experiments.ordered.ring import ReorderRing

SLOTS = 8192
LOADS_US = ((10.0, 0.0), (30.0, 0.0), (100.0, 0.0), (30.0, 10.0), (30.0, 30.0))
"""A tuple, and to send it: light operators, then such as send much."""
CV = 0.5
"""Of a tuple's time: with times all alike two threads are out of each other's way for good. With these the simulation
gives the flag 0, 0, 0, 4 and 15 % more than the lock."""


class Sending:
    """Outputs go into the ring; whoever may sends all that is ready."""

    def __init__(self, send: Callable[[int], None]) -> None:
        self.ring, self.lock, self.send = ReorderRing[int](SLOTS), threading.Lock(), send
        self.waited = 0
        """Times that a thread found the lock taken and waited."""

    def offer(self, serial: int) -> None:
        raise NotImplementedError


class NonBlocking(Sending):
    """Figure 4: who finds the flag taken goes on; who lets go of it looks at the slot once more."""

    def offer(self, serial: int) -> None:
        while not self.ring.put(serial, serial):
            self._help()
            time.sleep(0)
        self._help()

    def _help(self) -> None:
        while self.ring.ready and self.lock.acquire(blocking=False):
            try:
                while self.ring.ready:
                    self.send(self.ring.pop())
            finally:
                self.lock.release()


class LockBased(Sending):
    """Figure 2: who finds the lock taken waits for it."""

    def offer(self, serial: int) -> None:
        while not self._put(serial):
            time.sleep(0)

    def _put(self, serial: int) -> bool:
        waits = not self.lock.acquire(blocking=False)
        if waits:
            self.lock.acquire()
        try:
            self.waited += waits
            kept = self.ring.put(serial, serial)
            while self.ring.ready:
                self.send(self.ring.pop())
            return kept
        finally:
            self.lock.release()


WAYS: dict[str, type[Sending]] = {"non-blocking": NonBlocking, "lock": LockBased}


class Sent(NamedTuple):
    per_s: float
    waited: float
    """For the lock, a tuple; 0 without one."""


def sent(way: str, threads: int, tuples: int, work_us: float, send_us: float) -> Sent:
    """Tuples a second through one stateless operator. Raises: AssertionError where they leave out of order."""
    left: list[int] = []
    operator, bytes_per_s = Operator(way, StageKind.STATELESS, work_us * 1e-6, cv=CV), hashed_per_s()

    def send(serial: int) -> None:
        hash_for(send_us * 1e-6, bytes_per_s)
        left.append(serial)

    # What threads share and advance must be atomic without the interpreter's lock too, which itertools.count is not.
    ring, serials = WAYS[way](send), deque(range(1, tuples + 1))

    def take() -> int:
        try:
            return serials.popleft()
        except IndexError:
            return 0

    def run() -> None:
        for serial in iter(take, 0):
            hash_for(operator.time_s(serial), bytes_per_s)
            ring.offer(serial)

    took_s = _together(run, threads)
    assert left == list(range(1, tuples + 1)), f"{way}: out of order"
    return Sent(tuples / took_s, ring.waited / tuples)


def _together(run: Callable[[], None], threads: int) -> float:
    workers = [threading.Thread(target=run) for _ in range(threads)]
    began_s = time.perf_counter()
    for each in workers:
        each.start()
    for each in workers:
        each.join()
    return time.perf_counter() - began_s


@dataclass(frozen=True)
class Compared:
    name: str
    ratios: Sequence[float]
    """Of the rates, without a lock to with one, a round each."""
    waited: float
    """For the lock, of all rounds, a tuple."""


def compared(name: str, asked: tuple[int, int, float, float], rounds: int) -> Compared:
    """Within a round by turns first."""
    ratios, waited = [], []
    for number in range(rounds):
        order = ("non-blocking", "lock") if number % 2 else ("lock", "non-blocking")
        found = {way: sent(way, *asked) for way in order}
        ratios.append(found["non-blocking"].per_s / found["lock"].per_s)
        waited.append(found["lock"].waited)
    return Compared(name, ratios, statistics.fmean(waited))


def all_of(threads: int, tuples: int, rounds: int) -> Iterator[Compared]:
    for count, (work_us, send_us) in product((1, threads), LOADS_US):
        name = f"non-blocking / lock, {count} threads, {work_us:g} us a tuple, {send_us:g} to send it"
        yield compared(name, (count, tuples, work_us, send_us), rounds)


def shown(found: Compared) -> str:
    low, high = median_interval(found.ratios)
    ratio = f"{statistics.median(found.ratios):.3f} ({low:.3f} to {high:.3f})"
    return f"{found.name}: {ratio}; waited for the lock at {found.waited:.1%} of tuples"


@click.command()
@click.option("--threads", default=2, show_default=True)
@click.option("--tuples", default=6000, show_default=True, help="Of each run.")
@click.option("--rounds", default=10, show_default=True)
@click.option("--json", "as_json", is_flag=True)
def main(threads: int, tuples: int, rounds: int, as_json: bool) -> None:
    """Prints medians of the ratios, with the interval that has them in 95 of 100 cases."""
    lock = getattr(sys, "_is_gil_enabled", lambda: True)()
    about = {**metadata(), "threads": f"{threads} on {cores()} cores", "interpreter's lock": "yes" if lock else "no"}
    if as_json:
        json.dump({**about, "compared": list(map(asdict, all_of(threads, tuples, rounds)))}, sys.stdout, indent=1)
        return
    for name, value in about.items():
        print(f"{name}: {value}")
    for each in all_of(threads, tuples, rounds):
        print(shown(each), flush=True)


if __name__ == "__main__":
    main()
