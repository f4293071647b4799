"""Runs of an experiment in virtual time: real dispatcher and manager, given stage costs, any number of cores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil
from statistics import fmean

from apps.input.rates import Rate
from compositions.model import Composition
from control.decisions import Decision
from profiler.slo import SloStatus
from service.experiments.contender import Contender, Measurement, Point, Seen, measurement_of
from service.experiments.scenarios import Scenarios
from service.experiments.spec import Experiment
from service.running.simulated.simulation import simulate
from service.running.simulated.trace import Left, Moment

SAMPLE_S = 0.5
CALIBRATE_S, CALIBRATE_FROM_S = 20.0, 5.0
KNOWN = {SloStatus.MET: True, SloStatus.VIOLATED: False, SloStatus.INFEASIBLE: False}


class VirtualDriver:
    def __init__(self, experiment: Experiment, compositions: Sequence[Composition]) -> None:
        self._experiment, self._scenarios = experiment, Scenarios(experiment, compositions)

    def sustainable_per_s(self, composition: Composition) -> float:
        """Throughput when there is always an item."""
        trace = simulate(self._scenarios.flooded(composition, CALIBRATE_S))
        counted = sum(item.at_s > CALIBRATE_FROM_S for item in trace.delivered)
        return counted / (CALIBRATE_S - CALIBRATE_FROM_S)

    def run(self, contender: Contender, repetition: int, rate: Rate | None) -> Measurement:
        experiment = self._experiment
        trace = simulate(self._scenarios.of(contender, repetition, rate))
        delivered = trace.delivered[: contender.items]
        over_s = delivered[-1].at_s if len(delivered) == contender.items else experiment.duration_s
        late = [item for item in delivered if item.at_s > experiment.warm_up_s]
        latency_ms = fmean((item.at_s - item.arrived_s) * 1e3 for item in late) if late else None
        switches = trace.switches_between(0, over_s)
        trials = sum(decision.trials for decision in trace.decisions if decision.at_s <= over_s)
        samples = _samples(delivered, trace.moments, rate or _unknown, over_s)
        seen = Seen(samples, latency_ms, switches, trials)
        return measurement_of(contender.name, repetition, seen, experiment.warm_up_s)

    def decisions(self, contender: Contender, rate: Rate | None) -> Sequence[Decision]:
        """What is decided in a run, and what is tried for it."""
        return simulate(self._scenarios.of(contender, 0, rate)).decisions


def _unknown(_: float) -> None:
    """What an always full source offers."""


def _samples(
    left: Sequence[Left], ticks: Sequence[Moment], rate: Callable[[float], float | None], over_s: float
) -> list[Point]:
    samples = []
    delivered, moments = iter(left), iter(ticks)
    item, moment = next(delivered, None), next(moments, None)
    seen = moment
    for number in range(1, ceil(over_s / SAMPLE_S) + 1):
        at_s = number * SAMPLE_S
        latencies = []
        while item is not None and item.at_s <= at_s:
            latencies.append((item.at_s - item.arrived_s) * 1e3)
            item = next(delivered, None)
        while moment is not None and moment.at_s <= at_s:
            seen, moment = moment, next(moments, None)
        if seen is None:
            continue
        samples.append(
            Point(
                at_s=at_s,
                rate_per_s=rate(at_s),
                throughput_per_s=len(latencies) / SAMPLE_S,
                latency_ms=sum(latencies) / len(latencies) if latencies else None,
                composition=seen.composition,
                workers=seen.workers,
                met=KNOWN.get(seen.slo_status),
            )
        )
    return samples
