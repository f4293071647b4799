"""Runs of an experiment on real workers, one after the other, in this process."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from apps.input.rates import Rate
from compositions.errors import RecomposeError
from compositions.model import Composition
from control.decisions import Mode
from service.bodies.spec import BatchingSpec, InputSpec, RunSpec, SourceSpec
from service.bodies.status import Status
from service.experiments.contender import Contender, Measurement, Point, Seen, latency_by_items, measurement_of
from service.experiments.spec import Experiment
from service.experiments.usage import Usage
from service.running.asking.patience import Patient
from service.running.asking.requests import ReadDecisions, ReadStatus, ReadSummary, SetBatching, SetRate, Start, Stop
from service.running.runner import Runner

SAMPLE_S = 0.5
UP_S = 120.0
CALIBRATE_S, CALIBRATE_FROM_S = 9.0, 3.0
KNOWN = {"met": True, "violated": False, "infeasible": False}


class LiveDriver:
    """``ray`` (connected before) or ``local``."""

    def __init__(self, experiment: Experiment, compositions: Sequence[Composition]) -> None:
        self._experiment, self._compositions = experiment, tuple(compositions)

    def sustainable_per_s(self, composition: Composition) -> float:
        """Throughput when there is always an item."""
        runner = Runner(self.spec(Contender(composition.name, composition=composition)))
        with _Running(runner) as asked:
            before = _delivered(asked, CALIBRATE_FROM_S)
            after = _delivered(asked, CALIBRATE_S - CALIBRATE_FROM_S)
        return (after - before) / (CALIBRATE_S - CALIBRATE_FROM_S)

    def run(self, contender: Contender, repetition: int, rate: Rate | None) -> Measurement:
        experiment = self._experiment
        spec = self.spec(contender, InputSpec(rate_per_s=max(rate(0.0), 0.1)) if rate else InputSpec())
        runner = Runner(spec)
        with _Running(runner) as asked:
            if rate is not None:
                asked.ask(SetRate(rate))
            samples = list(self._watch(asked, rate, contender.items))
            summary = asked.ask(ReadSummary())
            trials = sum(decision.trials for decision in asked.ask(ReadDecisions(-1, 1000)))
        latency_ms = latency_by_items(samples, experiment.warm_up_s)
        seen = Seen(samples, latency_ms, summary.switches, trials)
        return measurement_of(contender.name, repetition, seen, experiment.warm_up_s)

    def _watch(self, runner: Patient, rate: Rate | None, most: int | None) -> Iterator[Point]:
        began_s, before = time.monotonic(), (0.0, runner.ask(ReadStatus()).items)
        usage = Usage()
        usage.measure(())
        sizes = deque(self._experiment.input.batch_steps)
        while (at_s := before[0] + SAMPLE_S) <= self._experiment.duration_s:
            time.sleep(max(0.0, began_s + at_s - time.monotonic()))
            while sizes and sizes[0][0] <= at_s:
                runner.ask(SetBatching(BatchingSpec(items=sizes.popleft()[1])))
            at_s, status = time.monotonic() - began_s, runner.ask(ReadStatus())
            _check(status)
            items, gap_s, active = status.items, at_s - before[0], status.composition
            cpu_percent, memory_mb = usage.measure(worker.pid for worker in status.workers if worker.pid is not None)
            assert active is not None, "a runner that delivers has a composition"
            yield Point(
                at_s=at_s,
                rate_per_s=rate(at_s - gap_s / 2) if rate else None,
                throughput_per_s=(items.delivered - before[1].delivered) / gap_s,
                entered_per_s=(items.accepted - before[1].accepted) / gap_s,
                latency_ms=status.latency_ms.mean,
                composition=active.name,
                workers=active.workers,
                met=KNOWN.get(status.slo_status),
                cpu_percent=cpu_percent,
                memory_mb=memory_mb,
            )
            before = (at_s, items)
            if items.delivered + items.failed == most:
                return

    def spec(self, contender: Contender, load: InputSpec | None = None) -> RunSpec:
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
            strategy=contender.strategy or "static",
            settings=experiment.settings,
            pool="local" if experiment.driver == "local" else "ray",
            items=contender.items,
        )


class _Running:
    """A runner from its first result on, ended without waiting for the rest."""

    def __init__(self, runner: Runner) -> None:
        self._runner, self._asked = runner, Patient(runner)

    def __enter__(self) -> Patient:
        self._runner.ask(Start())
        _wait(self._up, UP_S)
        return self._asked

    def _up(self) -> bool:
        status = self._asked.ask(ReadStatus())
        _check(status)
        return bool(status.items.delivered)

    def __exit__(self, *_: object) -> None:
        self._runner.ask(Stop(drain=False, timeout_s=10))


def _check(status: Status) -> None:
    if status.state == "failed":
        raise RecomposeError(f"{status.app} failed: {str(status.failure).strip().splitlines()[-1]}")


def _delivered(runner: Patient, after_s: float) -> int:
    time.sleep(after_s)
    return runner.ask(ReadStatus()).items.delivered


def _wait(true: Callable[[], bool], seconds: float) -> None:
    give_up_s = time.monotonic() + seconds
    while not true():
        if time.monotonic() > give_up_s:
            raise RecomposeError(f"no result within {seconds:g} s")
        time.sleep(0.1)
