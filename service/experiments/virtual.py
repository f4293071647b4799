"""Runs of an experiment in virtual time: real dispatcher and manager, given stage costs, any number of cores."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from apps.input.rates import Fixed, Rate
from compositions.model import Composition
from control.decisions import Decision
from profiler.slo import SloStatus
from runtime.pools.simulated_machine import Machine
from service.experiments.contender import Contender, Measurement, Point, Seen, measurement_of
from service.experiments.spec import Experiment
from service.running.simulated.scenario import Happening, Scenario, SimulatedStage
from service.running.simulated.simulation import simulate
from service.running.simulated.trace import Trace

SAMPLE_S = 0.5
CALIBRATE_S, CALIBRATE_FROM_S = 20.0, 5.0
FLOOD_PER_S = 1e5
"""More than anything takes: how fast a composition is when it never waits for items."""
KNOWN = {SloStatus.MET: True, SloStatus.VIOLATED: False, SloStatus.INFEASIBLE: False}


class VirtualDriver:
    def __init__(self, experiment: Experiment, compositions: Sequence[Composition]) -> None:
        self._experiment, self._compositions = experiment, tuple(compositions)

    def sustainable_per_s(self, composition: Composition) -> float:
        """Throughput when there is always an item."""
        trace = self._simulate(Contender(composition.name, composition=composition), 0, Fixed(FLOOD_PER_S), CALIBRATE_S)
        counted = sum(item.at_s > CALIBRATE_FROM_S for item in trace.delivered)
        return counted / (CALIBRATE_S - CALIBRATE_FROM_S)

    def run(self, contender: Contender, repetition: int, rate: Rate) -> Measurement:
        experiment = self._experiment
        trace = self._simulate(contender, repetition, rate, experiment.duration_s)
        late = [item for item in trace.delivered if item.at_s > experiment.warm_up_s]
        latency_ms = fmean((item.at_s - item.arrived_s) * 1e3 for item in late) if late else None
        switches = trace.switches_between(0, experiment.duration_s)
        trials = sum(decision.trials for decision in trace.decisions)
        samples = _samples(trace, rate, experiment.duration_s)
        return measurement_of(
            contender.name, repetition, Seen(samples, latency_ms, switches, trials), experiment.warm_up_s
        )

    def decisions(self, contender: Contender, rate: Rate) -> Sequence[Decision]:
        """What is decided in a run, and what is tried for it."""
        return self._simulate(contender, 0, rate, self._experiment.duration_s).decisions

    def _simulate(self, contender: Contender, repetition: int, rate: Rate, duration_s: float) -> Trace:
        experiment, fixed = self._experiment, contender.composition
        first = fixed or next((c for c in self._compositions if c.name == experiment.first), None)
        pin = (Happening(0.0, "pin", name=fixed.name),) if fixed else ()
        stages = tuple(
            SimulatedStage(name, cost.ms / 1e3, cost.cv, cost.wait_share, cost.factors)
            for name, cost in experiment.profile.items()
        )
        scenario = Scenario(
            stages=stages,
            compositions=self._compositions,
            slo=experiment.objective,
            rate=rate,
            duration_s=duration_s,
            machine=Machine(cores=experiment.cores),
            strategy=contender.strategy or "static",
            first=first,
            happenings=pin,
            seed=experiment.seed + repetition,
        )
        return simulate(scenario)


def _samples(trace: Trace, rate: Rate, duration_s: float) -> list[Point]:
    samples = []
    delivered = iter(trace.delivered)
    item = next(delivered, None)
    moments = iter(trace.moments)
    moment = next(moments, None)
    seen = moment
    for number in range(1, int(duration_s / SAMPLE_S) + 1):
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
