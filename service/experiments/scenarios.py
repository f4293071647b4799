"""An experiment as scenarios in virtual time: given stage costs, any number of cores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from apps.input.rates import Fixed, Rate
from compositions.batching import Batching
from compositions.model import Composition
from compositions.settings import overridden
from runtime.pools.simulated_machine import Machine
from service.experiments.contender import Contender
from service.experiments.spec import Experiment
from service.running.checking.settings import RunSettings
from service.running.simulated.scenario import Happening, Scenario, SimulatedStage

FLOOD_PER_S = 1e5
"""More than anything takes: how fast a composition is when it never waits for items."""


class Scenarios:
    """Of one experiment. Raises: SettingsError for settings that there are not."""

    def __init__(self, experiment: Experiment, compositions: Sequence[Composition]) -> None:
        self._experiment, self._compositions = experiment, tuple(compositions)
        self._settings = overridden(RunSettings(), experiment.settings)

    def of(self, contender: Contender, repetition: int, rate: Rate | None) -> Scenario:
        """A run of ``contender``; without a ``rate`` items are always there."""
        experiment, fixed = self._experiment, contender.composition
        return Scenario(
            stages=self._stages,
            compositions=(fixed,) if fixed else self._compositions,
            slo=experiment.objective,
            rate=rate or Fixed(FLOOD_PER_S),
            duration_s=experiment.duration_s,
            machine=Machine(cores=experiment.cores),
            strategy=contender.strategy or "static",
            settings=self._settings.manager,
            dispatcher=self._settings.dispatcher,
            first=fixed or next((c for c in self._compositions if c.name == experiment.first), None),
            happenings=tuple(self._happenings(fixed)),
            seed=experiment.seed + repetition,
            items=contender.items,
        )

    def flooded(self, composition: Composition, duration_s: float) -> Scenario:
        """``composition`` when there is always an item."""
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
            yield Happening(at_s, "batch", batching=Batching(items))
