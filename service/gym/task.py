"""What a policy is put to: an app, a machine, a load, and in what time its items are wanted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from apps.input.rates import Rate
from compositions.model import Composition, Group, Pattern
from control.settings import Measuring, Settings
from control.strategies import make_strategy
from profiler.slo import Slo
from runtime.pools.simulated_machine import Machine
from service.running.simulated.pilot import Pilot
from service.running.simulated.scenario import Happening, Scenario, SimulatedStage


@dataclass(frozen=True, slots=True)
class Task:
    """``slo`` is what the manager aims at; an item is in time when it is out within ``bound_s``."""

    stages: tuple[SimulatedStage, ...]
    compositions: tuple[Composition, ...]
    machine: Machine
    rate: Rate
    slo: Slo
    bound_s: float
    arrivals: Literal["paced", "poisson"] = "paced"
    duration_s: float = 570.0
    seed: int = 0
    happenings: Sequence[Happening] = ()

    @property
    def most_workers(self) -> int:
        """That any of its compositions has."""
        return max(each.workers for each in self.compositions)

    @property
    def merged(self) -> Composition:
        """All stages in one group, of one worker."""
        return Composition("merged", (Group(tuple(stage.name for stage in self.stages), Pattern.PAR, 1),))

    def cores_at(self, at_s: float) -> int:
        """That are left to the workers then."""
        told = [each for each in self.happenings if each.action == "cores" and each.at_s <= at_s]
        return max(told, key=lambda each: each.at_s).cores if told else self.machine.cores

    def scenario(self, strategy: str, first: Composition | None = None) -> Scenario:
        """A run of it under ``strategy``, from ``first`` on (None: all stages sequential), judged as that one does."""
        settings = Settings(measuring=Measuring(latency_from=make_strategy(strategy).latency_from))
        return Scenario(
            self.stages,
            self.compositions,
            self.slo,
            self.rate,
            self.duration_s,
            self.machine,
            strategy,
            settings=settings,
            first=first,
            arrivals=self.arrivals,
            happenings=tuple(self.happenings),
            seed=self.seed,
        )

    def steered(self, pilot: Callable[[], Pilot]) -> Scenario:
        """A run of it in which somebody else decides."""
        return replace(self.scenario("static"), pilot=pilot)
