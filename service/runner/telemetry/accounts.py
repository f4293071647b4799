"""Measure the resources that a run uses, and account for them since the last record, with the counts of its items."""

import inspect
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from time import monotonic, time
from typing import Any, Self

import psutil

from apps.contract import App
from compositions.model import Composition, Loads, Stage, held_by
from compositions.resources import Need, Resources, amounts, proposed
from datapipe.sources.fed import Fed
from datapipe.sources.inbox import Inbox
from profiler.service_time import cores_of, crowding
from profiler.snapshot import Snapshot
from runtime.dispatch.views import WorkerView
from service.runner.wiring.run import Run
from service.schemas.base import time_text
from service.schemas.figures import ClassMemory, Cost, Worker

PERIOD_S = 1.0
_NEARLY = 1.05
"""Multiple of the memory declared by its stages that a worker may have before one warning is logged."""
BUSY = ("user", "nice", "system", "irq", "softirq", "steal")
"""Times of a core in which it is busy. Other times are idle, or times of a guest, which ``user`` includes."""


@dataclass(slots=True)
class _Known:
    process: psutil.Process
    cpu_s: float
    busy_cores: float | None = None
    memory_bytes: int | None = None
    own_bytes: int = 0


class Usage:
    """Resource use of a run, measured once a second. Belongs to the loop's thread."""

    def __init__(self) -> None:
        self._known: dict[int, _Known] = {}
        self._gpus = self._gpu_s = 0.0
        self._looked_s: float | None = None
        self._worker_s = self._cpu_s = 0.0
        self._machine_s: float | None = None
        self._others: float | None = None
        self.memory: dict[Loads, ClassMemory] = {}

    def record(self, now_s: float, workers: Iterable[WorkerView], held: Iterable[tuple[Loads, Need]] = ()) -> None:
        """Record a second of these workers; bound to a group, they are in use. ``held``: the class and need of each."""
        if self._looked_s is not None and now_s - self._looked_s < PERIOD_S:
            return
        passed_s = 0.0 if self._looked_s is None else now_s - self._looked_s
        self._looked_s = now_s
        seen = list(workers)
        self._gpu_s += passed_s * self._gpus
        classes = list(held)
        self._gpus = sum(need.gpus for _, need in classes)
        self._worker_s += passed_s * sum(each.group is not None for each in seen)
        here = {each.pid for each in seen if each.node in _addresses()}
        self._known = {pid: known for pid in here if (known := self._measured(pid, passed_s)) is not None}
        self._look_at_others(passed_s)
        for worker, (loads, need) in zip(seen, classes, strict=False):
            if worker.group is not None and worker.pid in self._known:
                self._note_memory(loads, need.memory_bytes, self._known[worker.pid].own_bytes)

    def _note_memory(self, loads: Loads, declared: int, own: int) -> None:
        peak = self.memory[loads].peak_bytes if loads in self.memory else 0
        self.memory[loads] = ClassMemory(stages=list(loads), peak_bytes=max(peak, own), declared_bytes=declared)
        if peak <= _NEARLY * declared < own and declared:
            import structlog  # imported here: a script without logs does not need it

            structlog.get_logger().warning(
                "worker uses more memory than its stages declare; raise memory=, or a node gets more workers than fit",
                stages=list(loads),
                memory=amounts(0, 0, own, {}), declared=amounts(0, 0, declared, {}),
            )  # fmt: skip

    def proposed(self, stages: Sequence[Stage], snapshot: Snapshot) -> Resources:
        """Return the measured resources of the stages, in the form of a start body."""
        crowd = crowding(snapshot.stages, snapshot.cores if snapshot.cores_left is None else snapshot.cores_left)
        cores = {each.name: cores_of(each, crowd) for each in snapshot.stages if each.samples}
        return proposed(cores, {loads: each.peak_bytes for loads, each in self.memory.items()}, held_by(stages, ()))

    def _look_at_others(self, passed_s: float) -> None:
        """Measure the busy time of the cores that is not of these workers: other programs, other apps, the runner."""
        before, self._machine_s, self._others = self._machine_s, _machine_s() if self._known else None, None
        if before is not None and self._machine_s is not None and passed_s > 0:
            own = sum(each.busy_cores or 0.0 for each in self._known.values())
            self._others = max(0.0, (self._machine_s - before) / passed_s - own)

    def _measured(self, pid: int, passed_s: float) -> _Known | None:
        try:
            known = self._known.get(pid) or _Known(process := psutil.Process(pid), _cpu_s(process))
            with known.process.oneshot():
                cpu_s, (known.memory_bytes, known.own_bytes) = _cpu_s(known.process), _memory(known.process)
        except psutil.Error:  # the process has ended meanwhile
            return None
        if pid in self._known and passed_s > 0:
            known.busy_cores = (cpu_s - known.cpu_s) / passed_s
            self._cpu_s += cpu_s - known.cpu_s
        known.cpu_s = cpu_s
        return known

    def cost(self, workers: Iterable[WorkerView], cores: float) -> Cost:
        """Return the cost of the run. ``cores``: number of cores that the workers may use."""
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
            gpus=round(self._gpus, 4),
            gpu_s=round(self._gpu_s, 1),
        )

    def of(self, worker: Worker) -> Worker:
        """Return the worker with its own CPU and memory, if they are known."""
        known = self._known.get(worker.pid)
        if known is None or worker.node not in _addresses():
            return worker
        busy = None if known.busy_cores is None else round(known.busy_cores, 3)
        return worker.model_copy(update={"cpu_cores": busy, "memory_bytes": known.memory_bytes})


@cache
def _addresses() -> frozenset[str]:
    """Return the network addresses of this host."""
    return frozenset(each.address for found in psutil.net_if_addrs().values() for each in found)


def _machine_s() -> float:
    """Return the CPU seconds of the cores that this process may use, whichever process used them."""
    cores = psutil.cpu_times(percpu=True)
    mine = [cores[number] for number in os.sched_getaffinity(0) if number < len(cores)]
    return float(sum(getattr(times, kind, 0.0) for times in mine for kind in BUSY))


def _memory(process: psutil.Process) -> tuple[int, int]:
    """Return the resident memory of a process, and the part of it that the process does not share."""
    seen = process.memory_info()
    return seen.rss, seen.rss - seen._asdict().get("shared", 0)


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


COSTS_EVERY_S, RUN_EVERY_S = 10.0, 60.0


def version_of_app(app: type[App]) -> str | None:
    """Return a hash of the module that defines the app; ``None`` if its source is not available."""
    try:
        source = inspect.getsource(inspect.getmodule(app) or app)
    except (OSError, TypeError):
        return None
    return sha256(source.encode("utf-8", "replace")).hexdigest()[:12]


def version_of_composition(composition: Composition) -> str:
    """Return a hash of the composition's form; it distinguishes compositions of one name."""
    return sha256(repr(composition.shape).encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class WallClock:
    """The wall clock. ``epoch_s``: its value at 0 of the loop's clock, in seconds since 1970."""

    epoch_s: float

    @classmethod
    def now(cls) -> Self:
        """Return the clock for a loop that counts in ``time.monotonic``."""
        return cls(time() - monotonic())

    def text(self, at_s: float) -> str:
        """Return a time as RFC 3339 text: UTC, with milliseconds."""
        return time_text(self.epoch_s + at_s)

    def micros(self, at_s: float) -> int:
        """Return a time in microseconds since 1970."""
        return round((self.epoch_s + at_s) * 1e6)


class Accounts:
    """Makes the run's accounts. ``put`` takes a kind of record and a record."""

    def __init__(self, put: Callable[[str, Any], None], clock: WallClock) -> None:
        self._put, self._micros = put, clock.micros
        self._product = _product()
        self._began_s: float | None = None
        self._costs_due_s = self._run_due_s = 0.0
        self._worker_s = self._cpu_s = 0.0
        self._run: tuple[Any, ...] | None = None
        """The last record of the run, unless it was written."""

    def see(self, run: Run, usage: Usage, now_s: float, cores: float) -> None:
        """Make the records that are due after a turn of the manager."""
        if self._began_s is None:
            self._began_s, self._costs_due_s = now_s, now_s + COSTS_EVERY_S
        if now_s >= self._costs_due_s:
            self._costs_due_s = now_s + COSTS_EVERY_S
            self._put("costs", self._cost(run, usage, now_s, cores))
        self._run = self._account(run, now_s, self._began_s)
        if now_s >= self._run_due_s:
            self._run_due_s = now_s + RUN_EVERY_S
            self.close()

    def close(self) -> None:
        """Write the account of the last turn."""
        if self._run is not None:
            self._put("runs", self._run)
            self._run = None

    def _cost(self, run: Run, usage: Usage, now_s: float, cores: float) -> tuple[Any, ...]:
        view = run.loop.engine.view()
        cost = usage.cost(view.workers, cores)
        used_s, cpu_s = cost.worker_s - self._worker_s, None if cost.cpu_s is None else cost.cpu_s - self._cpu_s
        self._worker_s, self._cpu_s = cost.worker_s, self._cpu_s if cost.cpu_s is None else cost.cpu_s
        form = version_of_composition(view.composition)
        head = (self._micros(now_s), view.composition.name, used_s, cpu_s)
        return (*head, cost.workers, cost.spares, float(cost.cores), form)

    def _account(self, run: Run, now_s: float, began_s: float) -> tuple[Any, ...]:
        spec, objective, items = run.checked.spec, run.loop.manager.objective, run.items
        told = None if objective is None else ", ".join(part.slo.asked for part in objective.parts)
        head = (self._micros(now_s), self._micros(began_s), told, spec.source.kind, self._product)
        counts = (items.accepted, items.delivered, items.failed, items.shed, refused_by(run))
        return (*head, *counts, run.intake.demand().missed, run.loop.failures.count, run.sink.first_error)


def refused_by(run: Run) -> int:
    """Return the number of rows and messages that the app refused, for sources that count them."""
    source, link = run.checked.source, run.checked.link
    if link is not None:
        return int(link.status()["rows_refused"])
    return source.refused if isinstance(source, Fed | Inbox) else 0


def _product() -> str | None:
    try:
        return version("recompose")
    except PackageNotFoundError:
        return None
