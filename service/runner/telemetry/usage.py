"""Measure a run's use of the machine: CPU and memory of its workers, as far as they are on this host."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import psutil

from runtime.dispatch.views import WorkerView
from service.schemas.figures import Cost, Worker

PERIOD_S = 1.0
BUSY = ("user", "nice", "system", "irq", "softirq", "steal")
"""Of a core's times; those that are not are idle, or of a guest and in ``user`` already."""


@dataclass(slots=True)
class _Known:
    process: psutil.Process
    cpu_s: float
    busy_cores: float | None = None
    memory_bytes: int | None = None


class Usage:
    """Asked with every turn of the manager; looks once a second. Belongs to the loop's thread."""

    def __init__(self) -> None:
        self._known: dict[int, _Known] = {}
        self._looked_s: float | None = None
        self._worker_s = self._cpu_s = 0.0
        self._machine_s: float | None = None
        self._others: float | None = None

    def record(self, now_s: float, workers: Iterable[WorkerView]) -> None:
        """A second of these workers: those bound to a group are in use."""
        if self._looked_s is not None and now_s - self._looked_s < PERIOD_S:
            return
        passed_s = 0.0 if self._looked_s is None else now_s - self._looked_s
        self._looked_s = now_s
        seen = list(workers)
        self._worker_s += passed_s * sum(each.group is not None for each in seen)
        self._known = {pid: known for pid in _here(seen) if (known := self._measured(pid, passed_s)) is not None}
        self._look_at_others(passed_s)

    def _look_at_others(self, passed_s: float) -> None:
        """What of the cores is busy and not with these workers: other programs, other apps, the runner itself."""
        before, self._machine_s, self._others = self._machine_s, _machine_s() if self._known else None, None
        if before is not None and self._machine_s is not None and passed_s > 0:
            own = sum(each.busy_cores or 0.0 for each in self._known.values())
            self._others = max(0.0, (self._machine_s - before) / passed_s - own)

    def _measured(self, pid: int, passed_s: float) -> _Known | None:
        try:
            known = self._known.get(pid) or _begun(pid)
            with known.process.oneshot():
                cpu_s, known.memory_bytes = _cpu_s(known.process), known.process.memory_info().rss
        except psutil.Error:  # it has ended meanwhile
            return None
        if pid in self._known and passed_s > 0:
            known.busy_cores = (cpu_s - known.cpu_s) / passed_s
            self._cpu_s += cpu_s - known.cpu_s
        known.cpu_s = cpu_s
        return known

    def cost(self, workers: Iterable[WorkerView], cores: float) -> Cost:
        """``cores``: those that the workers may use."""
        seen = list(workers)
        in_use = sum(each.group is not None for each in seen)
        busy = [each.busy_cores for each in self._known.values() if each.busy_cores is not None]
        return Cost(
            cores=cores,
            workers=in_use,
            spares=len(seen) - in_use,
            worker_s=round(self._worker_s, 1),
            cpu_s=round(self._cpu_s, 2) if busy else None,
            cpu_cores=round(sum(busy), 3) if busy else None,
            others_cores=None if self._others is None else round(self._others, 3),
        )

    def of(self, worker: Worker) -> Worker:
        """Return the worker with its own CPU and memory, if they are known."""
        known = self._known.get(worker.pid)
        if known is None or worker.node not in _addresses():
            return worker
        busy = None if known.busy_cores is None else round(known.busy_cores, 3)
        return worker.model_copy(update={"cpu_cores": busy, "memory_bytes": known.memory_bytes})


def _here(workers: Iterable[WorkerView]) -> set[int]:
    return {each.pid for each in workers if each.node in _addresses()}


@cache
def _addresses() -> frozenset[str]:
    """Return the network addresses of this host."""
    return frozenset(each.address for found in psutil.net_if_addrs().values() for each in found)


def _machine_s() -> float:
    """CPU seconds of the cores that this process may use, whoever took them."""
    cores = psutil.cpu_times(percpu=True)
    mine = [cores[number] for number in os.sched_getaffinity(0) if number < len(cores)]
    return float(sum(getattr(times, kind, 0.0) for times in mine for kind in BUSY))


def _begun(pid: int) -> _Known:
    process = psutil.Process(pid)
    return _Known(process, _cpu_s(process))


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
