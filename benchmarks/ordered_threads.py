"""What Prasaad et al. compare, on real cores: ways to send results in order (figures 12 and 13) on threads, whose work
is hashing, which lets go of the interpreter's lock; and worklists under skew (figure 9) on processes.

    python -m benchmarks.ordered_threads [--threads 2] [--tuples 6000] [--rounds 5] [--json]

What is compared takes turns, and ratios are those within a round. In CPython one thread at a time runs what is not
hashing, so a thread that holds a lock is seldom stopped by another that wants it: what is shown is the cost of the
scheme, and that its order holds, not what 16 cores that fight for a cache line would show.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import multiprocessing
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from random import Random

import click

from benchmarks.harness import cores, metadata
from service.experiments.ordered.ring import ReorderRing
from service.experiments.ordered.worklists import QueueName, make_worklist
from service.experiments.ordered.worklists.port import Demand, Entry

Line = Connection
SLOTS = 8192
PARTITIONS = 100
LIGHT_US, HEAVY_US, SEND_US, KEYED_US = 30.0, 100.0, 10.0, 1000.0
SIGMAS = (0.1, 0.2, 0.4, 1.0)
MEANS = (0.0, 0.5)
"""Keys are N(mean, σ) on [-1, 1]: with two workers a range each, those about 0 are even, those about 0.5 are not."""


def hashing(us: float) -> Callable[[], None]:
    """Takes about so much CPU without the interpreter's lock."""
    size = 1 << 20
    spent_s = min(_hash_s(bytes(size)) for _ in range(5))
    data = bytes(max(4096, int(size * us * 1e-6 / spent_s)))

    def work() -> None:
        hashlib.sha256(data)

    return work


def _hash_s(data: bytes) -> float:
    began_s = time.thread_time()
    hashlib.sha256(data)
    return time.thread_time() - began_s


class Sending:
    """Outputs go into the ring; whoever may sends all that is ready."""

    def __init__(self, send: Callable[[int], None]) -> None:
        self.ring, self.lock, self.send = ReorderRing[int](SLOTS), threading.Lock(), send

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
        while True:
            with self.lock:
                kept = self.ring.put(serial, serial)
                while self.ring.ready:
                    self.send(self.ring.pop())
            if kept:
                return
            time.sleep(0)


WAYS: dict[str, type[Sending]] = {"non-blocking": NonBlocking, "lock": LockBased}


def sent_per_s(way: str, threads: int, tuples: int, work_us: float, send_us: float) -> float:
    """Tuples a second through one stateless operator. Raises: AssertionError where they leave out of order."""
    left: list[int] = []
    work, sending = hashing(work_us), hashing(send_us) if send_us else None

    def send(serial: int) -> None:
        if sending is not None:
            sending()
        left.append(serial)

    ring, serials = WAYS[way](send), itertools.count(1)

    def run() -> None:
        while (serial := next(serials)) <= tuples:
            work()
            ring.offer(serial)

    took_s = _together(run, threads)
    assert left == list(range(1, tuples + 1)), f"{way}: out of order"
    return tuples / took_s


class Crew:
    """Processes that compute when they are told to: threads of one Python that take turns at its lock stop each other
    on a busy machine, and worklists are not to be blamed for that."""

    def __init__(self, workers: int, work_us: float) -> None:
        context = multiprocessing.get_context("spawn")
        pairs = [context.Pipe() for _ in range(workers)]
        self.lines: list[Line] = [ours for ours, _ in pairs]
        self._processes = [context.Process(target=_serve, args=(line, work_us), daemon=True) for _, line in pairs]
        for each in self._processes:
            each.start()
        for line in self.lines:
            line.recv()

    def close(self) -> None:
        for line in self.lines:
            line.send(False)
        for each in self._processes:
            each.join()


def _serve(line: Line, work_us: float) -> None:
    work = hashing(work_us)
    line.send(True)
    while line.recv():
        work()
        line.send(True)


def keyed_per_s(queue: QueueName, crew: Crew, tuples: int, mean: float, sigma: float) -> float:
    """Tuples a second through one partitioned operator. Raises: AssertionError where a key's come out of order."""
    partitions = len(crew.lines) if queue == "partitioned" else PARTITIONS
    worklist, seen = make_worklist(queue, partitions), [list[int]() for _ in range(partitions)]
    for serial, key in enumerate(_keys(tuples, mean, sigma), 1):
        worklist.put(Entry(serial, min(partitions - 1, int((key + 1) / 2 * partitions)), serial))
    idle, at_work = list(range(len(crew.lines))), dict[int, list[Entry]]()
    began_s = time.perf_counter()
    while worklist.waiting or at_work:
        for worker in list(idle):
            if entries := worklist.take(Demand(worker)):
                crew.lines[worker].send(True)
                at_work[worker] = entries
                idle.remove(worker)
            else:
                worklist.left(worker)
        assert at_work, f"{queue}: {worklist.waiting} tuples wait, and nobody gets one"
        ready = wait([crew.lines[worker] for worker in at_work])
        for worker in [each for each in at_work if crew.lines[each] in ready]:
            crew.lines[worker].recv()
            entries = at_work.pop(worker)
            seen[entries[0].partition] += [entry.value for entry in entries]
            worklist.done(worker, entries)
            idle.append(worker)
    took_s = time.perf_counter() - began_s
    assert all(each == sorted(each) for each in seen), f"{queue}: a partition out of order"
    assert sum(map(len, seen)) == tuples, f"{queue}: {sum(map(len, seen))} of {tuples} tuples"
    return tuples / took_s


def _keys(count: int, mean: float, sigma: float) -> list[float]:
    chance = Random(0)
    drawn = (chance.gauss(mean, sigma) for _ in itertools.count())
    return list(itertools.islice((key for key in drawn if -1 <= key < 1), count))


def _together(run: Callable[[], None], threads: int) -> float:
    workers = [threading.Thread(target=run) for _ in range(threads)]
    began_s = time.perf_counter()
    for each in workers:
        each.start()
    for each in workers:
        each.join()
    return time.perf_counter() - began_s


def ratios(ours: Callable[[], float], others: Callable[[], float], rounds: int) -> list[float]:
    """Within a round, by turns first."""
    found = []
    for number in range(rounds):
        if number % 2:
            other = others()
            found.append(ours() / other)
        else:
            mine = ours()
            found.append(mine / others())
    return found


def all_of(threads: int, tuples: int, rounds: int) -> Iterator[tuple[str, list[float]]]:
    """Ratios, with what they are of."""
    for work_us, send_us in ((LIGHT_US, 0.0), (HEAVY_US, 0.0), (LIGHT_US, SEND_US)):
        asked = (threads, tuples, work_us, send_us)
        yield (
            f"non-blocking / lock, {work_us:g} us a tuple, {send_us:g} to send it",
            ratios(
                lambda asked=asked: sent_per_s("non-blocking", *asked),  # type: ignore[misc]
                lambda asked=asked: sent_per_s("lock", *asked),  # type: ignore[misc]
                rounds,
            ),
        )
    crew = Crew(threads, KEYED_US)
    try:
        for mean, sigma in itertools.product(MEANS, SIGMAS):
            skew = (crew, tuples // 10, mean, sigma)
            yield (
                f"hybrid / partitioned, keys N({mean:g}, {sigma:g}), {KEYED_US:g} us a tuple",
                ratios(
                    lambda skew=skew: keyed_per_s("hybrid", *skew),  # type: ignore[misc]
                    lambda skew=skew: keyed_per_s("partitioned", *skew),  # type: ignore[misc]
                    rounds,
                ),
            )
    finally:
        crew.close()


def shown(found: Sequence[float]) -> str:
    return f"{statistics.median(found):.2f} ({min(found):.2f} to {max(found):.2f})"


@click.command()
@click.option("--threads", default=2, show_default=True)
@click.option("--tuples", default=6000, show_default=True, help="Of each run; of those with keys a tenth.")
@click.option("--rounds", default=5, show_default=True)
@click.option("--json", "as_json", is_flag=True)
def main(threads: int, tuples: int, rounds: int, as_json: bool) -> None:
    """Prints medians of the ratios, with the least and the most."""
    about = {**metadata(), "threads": f"{threads} on {cores()} cores"}
    if as_json:
        json.dump({**about, **dict(all_of(threads, tuples, rounds))}, sys.stdout, indent=1)
        return
    for name, value in about.items():
        print(f"{name}: {value}")
    for name, each in all_of(threads, tuples, rounds):
        print(f"{name}: {shown(each)}", flush=True)


if __name__ == "__main__":
    main()
