"""Run an experiment on real workers, one run after the other, in this process."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

import psutil
import pyarrow.parquet as pq

from apps import registry
from apps.rates import Rate
from compositions.batching import Batching
from compositions.errors import RecomposeError
from compositions.model import Composition
from control.decisions import Mode
from datapipe.source_kinds import open_source
from lab.experiments.contender import Contender, Left, Measurement, Point, Seen, bundles_of, measurement_of
from lab.experiments.runs import check, delivered, delivering
from lab.experiments.spbench import FrequencyManager, ReadBy, UnorderedRunner
from lab.experiments.spec import Experiment
from service.runner.rpc.port import Patient
from service.runner.rpc.requests import ReadDecisions, ReadStatus, ReadSummary, SetBatching, SetRate
from service.schemas.spec import BatchingSpec, Ending, InputSpec, Method, RunSpec, SourceSpec, TelemetrySpec


class Usage:
    """CPU and memory of processes, each counted from its first observation."""

    def __init__(self) -> None:
        self._processes: dict[int, psutil.Process] = {}

    def measure(self, workers: Iterable[int]) -> tuple[float, float]:
        """Return per cent of a core since the last call, and MB that no other process shares."""
        percent = memory_bytes = 0.0
        for process in self._present({psutil.Process().pid, *workers}):
            try:
                with process.oneshot():
                    percent += process.cpu_percent()
                    memory_bytes += _private_bytes(process.memory_info())
            except psutil.Error:  # the process has ended meanwhile
                continue
        return percent, memory_bytes / 1e6

    def _present(self, pids: set[int]) -> list[psutil.Process]:
        for pid in pids - self._processes.keys():
            try:
                self._processes[pid] = psutil.Process(pid)
            except psutil.Error:
                continue
        self._processes = {pid: process for pid, process in self._processes.items() if pid in pids}
        return list(self._processes.values())


def _private_bytes(memory: object) -> float:
    """Return the memory without shared parts, libraries above all, if the system reports these."""
    return float(getattr(memory, "rss", 0) - getattr(memory, "shared", 0))


KEPT = Method(strategy="static", latency_from="read")
"""The method of a composition that is kept fixed: its source makes up for no lost time, as in the papers."""
CALIBRATE_S, CALIBRATE_FROM_S = 9.0, 3.0
PARTS = [(number + 0.5) / 10 for number in range(10)]
"""Moments of a sample whose rates are averaged: a rate may jump within it."""
KNOWN = {"met": True, "violated": False, "infeasible": False}


class LiveDriver:
    """Runs experiments on the pool ``ray`` (connected before) or ``local``."""

    def __init__(self, experiment: Experiment, compositions: Sequence[Composition]) -> None:
        self._experiment, self._compositions = experiment, tuple(compositions)

    def sustainable_per_s(self, composition: Composition) -> float:
        """Measure the throughput with a source that always has an item."""
        with delivering(self.spec(Contender(composition.name, composition=composition)), may_fail=True) as runner:
            time.sleep(CALIBRATE_FROM_S)
            before = delivered(runner)
            time.sleep(CALIBRATE_S - CALIBRATE_FROM_S)
            return (delivered(runner) - before) / (CALIBRATE_S - CALIBRATE_FROM_S)

    def run(self, contender: Contender, repetition: int, rate: Rate | None) -> Measurement:
        with TemporaryDirectory(prefix="recompose-experiment-") as folder:
            first_per_s = max(rate(0.0), 0.1) if rate else None
            delays = self._delays(first_per_s) if first_per_s and self._experiment.input.control == "delays" else None
            load = InputSpec(rate_per_s=None if delays else first_per_s)
            spec = self.spec(contender, load, folder)
            own = UnorderedRunner(spec, ReadBy(reader=delays))
            with delivering(spec, may_fail=True, runner=own) as runner:
                asked = Patient(runner)
                if delays is not None and rate is not None:
                    delays.set_pattern(rate)
                elif rate is not None:
                    asked.ask(SetRate(rate))
                began_s = time.time()
                samples = list(self._watch(asked, rate, contender.items))
                summary = asked.ask(ReadSummary())
                trials = sum(decision.trials for decision in asked.ask(ReadDecisions(-1, 1000)))
            lost = runner.ask(ReadStatus()).resources.telemetry
            if lost is not None and lost.lost:
                raise RecomposeError(
                    f"{self._experiment.title}: the times of {lost.lost} items were lost: {lost.fault}"
                )
            ended = {} if self._experiment.ordered else own.ended_at()
            items = sorted(_items(Path(folder), began_s, ended), key=lambda item: item.at_s)
            seen = Seen(samples, items, summary.switches, trials)
        return measurement_of(contender.name, repetition, seen, self._experiment.warm_up_s)

    def _watch(self, runner: Patient, rate: Rate | None, most: int | None) -> Iterator[Point]:
        began_s, before = time.monotonic(), (0.0, runner.ask(ReadStatus()).items)
        usage = Usage()
        usage.measure(())
        sizes = deque(self._experiment.input.batch_steps)
        while (at_s := before[0] + self._experiment.monitor_ms / 1e3) <= self._experiment.duration_s:
            time.sleep(max(0.0, began_s + at_s - time.monotonic()))
            while sizes and sizes[0][0] <= at_s:
                runner.ask(SetBatching(_spec(bundles_of(sizes.popleft()[1]))))
            at_s, status = time.monotonic() - began_s, runner.ask(ReadStatus())
            check(status)
            items, gap_s, active = status.items, at_s - before[0], status.composition
            cpu_percent, memory_mb = usage.measure(worker.pid for worker in status.workers if worker.pid is not None)
            assert active is not None, "a runner that delivers has a composition"
            yield Point(
                at_s=at_s,
                rate_per_s=fmean(rate(at_s - part * gap_s) for part in PARTS) if rate else None,
                throughput_per_s=0.0,
                latency_ms=None,
                composition=active.name,
                workers=active.workers,
                met=KNOWN.get(status.requested.slo_status),
                cpu_percent=cpu_percent,
                memory_mb=memory_mb,
                entered_per_s=(items.accepted - before[1].accepted) / gap_s,
            )
            before = (at_s, items)
            if items.delivered + items.failed == most:
                return

    def _delays(self, first_per_s: float) -> FrequencyManager:
        app = registry.create(self._experiment.app, self._experiment.options)
        source = open_source(app, "replay", self._experiment.input.data_set, clock=time.monotonic)
        return FrequencyManager(source, first_per_s)

    def spec(self, contender: Contender, load: InputSpec | None = None, telemetry: str | None = None) -> RunSpec:
        experiment, fixed = self._experiment, contender.composition
        return RunSpec(
            app=experiment.app,
            options=experiment.options,
            source=SourceSpec(path=experiment.input.data_set),
            input=load or InputSpec(),
            compositions=(fixed,) if fixed else self._compositions,
            composition=fixed.name if fixed else experiment.first,
            slo=experiment.objective,
            mode=Mode.PINNED if fixed else Mode.AUTO,
            method=Method(strategy=contender.strategy) if contender.strategy else KEPT,
            settings=experiment.settings,
            pool="local" if experiment.driver == "local" else "ray",
            ending=Ending(items=contender.items, telemetry=TelemetrySpec(folder=telemetry) if telemetry else None),
        )


def _spec(limits: Batching) -> BatchingSpec:
    return BatchingSpec(items=limits.items or "auto", bytes=limits.max_bytes, linger_ms=limits.linger_ms)


def _items(folder: Path, began_s: float, ended: Mapping[int, float]) -> Iterator[Left]:
    """Yield a run's delivered items from its telemetry, times from ``began_s`` on; those of ``ended`` are out."""
    names = ("serial", "read", "delivered", "batch", "outcome")
    rows = pq.read_table(folder / "items", columns=list(names))
    for serial, read, out, batch, outcome in zip(
        *(rows.column(name).cast("int64").to_pylist() for name in names[:-1]), rows.column("outcome").to_pylist(),
        strict=True,
    ):  # fmt: skip
        out_s = ended.get(serial, out / 1e6)
        if outcome == "delivered":
            yield Left(out_s - began_s, out_s - read / 1e6, batch)
