"""The upper bound: a hub, workers on pipes, bundles of 512, and no bookkeeping at all.

No serial numbers, no order beyond that of the pipes, no results, no retries: what is left is what any hub must do.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Iterator
from itertools import islice
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from time import perf_counter

from benchmarks.light.work import BUNDLE, STAGES, Check, plus_one

OUTSTANDING = 4
"""Bundles on the way to a worker and back: as many as keep both sides busy."""


def _worker(pipe: Connection, stages: int) -> None:
    while (bundle := pipe.recv_bytes()) != b"":
        values = pickle.loads(bundle)
        for _ in range(stages):
            values = [plus_one(value) for value in values]
        pipe.send_bytes(pickle.dumps(values, 5))


class Hub:
    """``groups`` workers, one after the other; all bundles travel through this process."""

    def __init__(self, groups: int) -> None:
        context = get_context("spawn")
        self._pipes: list[Connection] = []
        self._workers = []
        for _ in range(groups):
            ours, theirs = context.Pipe()
            worker = context.Process(target=_worker, args=(theirs, STAGES // groups), daemon=True)
            worker.start()
            theirs.close()
            self._pipes.append(ours)
            self._workers.append(worker)

    def rate_per_s(self, items: int) -> float:
        check = Check()
        self._run(BUNDLE * OUTSTANDING, Check())  # all are up
        began_s = perf_counter()
        self._run(items, check)
        took_s = perf_counter() - began_s
        check.verify(items, "hub")
        return items / took_s

    def _run(self, items: int, check: Check) -> None:
        bundles = _bundles(items)
        out = [0] * len(self._pipes)
        waiting: list[deque[bytes]] = [deque() for _ in self._pipes]
        number = {pipe.fileno(): index for index, pipe in enumerate(self._pipes)}
        while self._feed(bundles, waiting, out):
            for pipe in wait(self._pipes):
                assert isinstance(pipe, Connection)
                index = number[pipe.fileno()]
                bundle = pipe.recv_bytes()
                out[index] -= 1
                if index + 1 < len(self._pipes):
                    waiting[index + 1].append(bundle)
                else:
                    check.take(pickle.loads(bundle))

    def _feed(self, bundles: Iterator[bytes], waiting: list[deque[bytes]], out: list[int]) -> bool:
        """Gives every worker what there is for it; whether anything is under way."""
        for index, pipe in enumerate(self._pipes):
            while out[index] < OUTSTANDING:
                bundle = waiting[index].popleft() if waiting[index] else None if index else next(bundles, None)
                if bundle is None:
                    break
                pipe.send_bytes(bundle)
                out[index] += 1
        return any(out)

    def close(self) -> None:
        for pipe, worker in zip(self._pipes, self._workers, strict=True):
            pipe.send_bytes(b"")
            worker.join()
            pipe.close()


def _bundles(items: int) -> Iterator[bytes]:
    values = iter(range(items))
    while bundle := list(islice(values, BUNDLE)):
        yield pickle.dumps(bundle, 5)
