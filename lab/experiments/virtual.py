"""Run an experiment in virtual time: real dispatcher and manager, given stage costs, any number of cores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from math import ceil

from apps.rates import Fixed, Rate
from compositions.model import Composition
from compositions.settings import overridden
from lab.experiments.contender import Contender, Left, Measurement, Point, Seen, bundles_of, measurement_of
from lab.experiments.spec import Experiment
from lab.simulation.machine import Machine
from lab.simulation.scenario import Happening, Scenario, SimulatedStage
from lab.simulation.simulation import simulate
from lab.simulation.trace import Moment
from profiler.slo import SloStatus
from service.runner.loop import TICK_S
from service.runner.validation.resolution import RunSettings

FLOOD_PER_S = 1e5
"""A rate above any capacity, to measure a composition that never waits for items."""


UNMANAGED_S = 1.0
"""Time between two turns of a manager without decisions, in seconds; turns take most of the time of a run."""


class Scenarios:
    """Creates the scenarios of one experiment. Raises: SettingsError for unknown settings."""

    def __init__(self, experiment: Experiment, compositions: Sequence[Composition]) -> None:
        self._experiment, self._compositions = experiment, tuple(compositions)
        self._settings = overridden(RunSettings(), experiment.settings)

    def of(self, contender: Contender, repetition: int, rate: Rate | None) -> Scenario:
        """Return a run of ``contender``; without a ``rate``, items are always available."""
        experiment, fixed = self._experiment, contender.composition
        return Scenario(
            stages=self._stages,
            compositions=(fixed,) if fixed else self._compositions,
            slo=experiment.objective,
            rate=rate or Fixed(FLOOD_PER_S),
            duration_s=experiment.duration_s,
            machine=Machine(cores=experiment.cores, threads=experiment.threads),
            strategy=contender.strategy or "static",
            settings=self._settings.manager,
            dispatcher=self._settings.dispatcher,
            arrivals=experiment.input.arrivals,
            first=fixed or next((c for c in self._compositions if c.name == experiment.first), None),
            happenings=tuple(self._happenings(fixed)),
            seed=experiment.seed + repetition,
            items=contender.items,
            tick_s=UNMANAGED_S if fixed else TICK_S,
        )

    def flooded(self, composition: Composition, duration_s: float) -> Scenario:
        """Return a run of ``composition`` with a source that always has an item."""
        return replace(self.of(Contender(composition.name, composition=composition), 0, None), duration_s=duration_s)

    @property
    def _stages(self) -> tuple[SimulatedStage, ...]:
        return tuple(
            SimulatedStage(name, cost.ms / 1e3, cost.cv, cost.wait_share, cost.factors)
            for name, cost in self._experiment.profile.items()
        )

    def _happenings(self, fixed: Composition | None) -> Iterator[Happening]:
        if fixed is not None:
            yield Happening(0.0, "pin", name=fixed.name)
        for at_s, items in self._experiment.input.batch_steps:
            yield Happening(at_s, "batch", batching=bundles_of(items))


CALIBRATE_S, CALIBRATE_FROM_S = 20.0, 5.0
KNOWN = {SloStatus.MET: True, SloStatus.VIOLATED: False, SloStatus.INFEASIBLE: False}


class VirtualDriver:
    def __init__(self, experiment: Experiment, compositions: Sequence[Composition]) -> None:
        self._experiment, self._scenarios = experiment, Scenarios(experiment, compositions)

    def sustainable_per_s(self, composition: Composition) -> float:
        """Return the throughput with a source that always has an item."""
        trace = simulate(self._scenarios.flooded(composition, CALIBRATE_S))
        counted = sum(item.at_s > CALIBRATE_FROM_S for item in trace.delivered)
        return counted / (CALIBRATE_S - CALIBRATE_FROM_S)

    def run(self, contender: Contender, repetition: int, rate: Rate | None) -> Measurement:
        experiment = self._experiment
        trace = simulate(self._scenarios.of(contender, repetition, rate))
        delivered, every_s = trace.delivered[: contender.items], experiment.monitor_ms / 1e3
        over_s = delivered[-1].at_s if len(delivered) == contender.items else experiment.duration_s
        switches = trace.switches_between(0, over_s)
        trials = sum(decision.trials for decision in trace.decisions if decision.at_s <= over_s)
        items = [Left(item.at_s, item.at_s - item.arrived_s, inside_s=item.at_s - item.started_s) for item in delivered]
        times = (number * every_s for number in range(1, ceil(over_s / every_s) + 1))
        seen = Seen(list(_samples(trace.moments, rate or _unknown, times)), items, switches, trials)
        return measurement_of(contender.name, repetition, seen, experiment.warm_up_s)


def _unknown(_: float) -> None:
    """Return the rate of a source that is always full."""


def _samples(ticks: Sequence[Moment], rate: Callable[[float], float | None], times: Iterable[float]) -> Iterator[Point]:
    moments = iter(ticks)
    seen = moment = next(moments, None)
    before_s = 0.0
    for at_s in times:
        while moment is not None and moment.at_s <= at_s:
            seen, moment = moment, next(moments, None)
        if seen is None:
            continue
        yield Point(
            at_s=at_s,
            rate_per_s=rate((before_s + at_s) / 2),
            throughput_per_s=0.0,
            latency_ms=None,
            composition=seen.composition,
            workers=seen.workers,
            met=KNOWN.get(seen.slo_status),
        )
        before_s = at_s
