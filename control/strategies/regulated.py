"""Strategies ``spar`` and ``two-sided``: a regulator of the replicas of one group, asked at every control step.

No composition is chosen and no group is drained: the active composition is resized in place.
"""

from abc import abstractmethod
from dataclasses import replace
from math import ceil

from compositions.model import Composition, Group, Pattern
from control.regulators import Regulator, RegulatorSettings, Spar, Step, TwoSided
from control.settings import Settings
from control.situation import Situation
from control.strategies.base import Pace, Proposal, Settle, Stay, Strategy, Trial

HELD = 2
"""Number of items that a worker may hold: one in work, one prefetched."""


class Regulated(Strategy):
    """Regulates the replicated group of the active composition; of several, the one whose stages take longest.

    It regulates the latency since a worker took the item: in the paper the source reads an item when a replica can take
    it. Measurements begin anew at each control step.
    """

    def __init__(self) -> None:
        self._regulator: tuple[RegulatorSettings, Regulator] | None = None

    @abstractmethod
    def make(self, settings: RegulatorSettings, cores: int) -> Regulator:
        """Return a new regulator; ``cores``: number of cores that the replicas share."""

    def pace(self, settings: Settings) -> Pace:
        return Pace(settings.regulation.control_step_s, every_step=True)

    def propose(self, situation: Situation, trials: tuple[Trial, ...]) -> Proposal:
        if situation.active.dyn is not None:
            shared = f"the workers of {situation.active.name} move between groups"
            return Stay(f"{self.name} regulates the replicas of a group, but {shared}")
        target_ms, group = situation.objective.item_target_ms, _regulated(situation)
        if target_ms is None:
            return Stay(f"{self.name} needs a latency objective; set one with recompose slo")
        if group is None:
            return Stay(f"{self.name} needs a replicated group; composition {situation.active.name} has none")
        regulation = self._of(situation, target_ms).regulate(_step(situation, group))
        if regulation.replicas == group.replicas:
            return Stay(regulation.reason)
        return Settle(_resized(situation, group, regulation.replicas), (), regulation.reason)

    def _of(self, situation: Situation, target_ms: float) -> Regulator:
        """Return the regulator; a new one only if its settings changed."""
        asked, cores = situation.settings.regulation, situation.snapshot.cores
        settings = RegulatorSettings(
            target_ms, asked.scaling_factor, asked.latency_band, asked.control_step_s, asked.threads or ceil(cores)
        )
        if self._regulator is None or self._regulator[0] != settings:
            self._regulator = settings, self.make(settings, ceil(cores))
        return self._regulator[1]


class SparStrategy(Regulated):
    """The published regulator."""

    name = "spar"

    def make(self, settings: RegulatorSettings, cores: int) -> Regulator:
        return Spar(settings)


class TwoSidedStrategy(Regulated):
    """The regulator developed here, which also recognizes too few replicas."""

    name = "two-sided"

    def make(self, settings: RegulatorSettings, cores: int) -> Regulator:
        return TwoSided(settings, cores)


def _regulated(situation: Situation) -> Group | None:
    cost_s = {stage.name: stage.service_time_s for stage in situation.snapshot.stages}
    replicated = [group for group in situation.active.groups if group.pattern is Pattern.PAR]
    return max(replicated, key=lambda group: sum(cost_s.get(name, 0.0) for name in group.stages), default=None)


def _step(situation: Situation, group: Group) -> Step:
    """Return the control step's measurements. If more items are in flight than workers can hold, items wait inside."""
    seen = situation.snapshot
    latency_s = None if seen.inside is None else seen.inside.mean_s
    crowded = seen.in_flight > HELD * situation.active.workers
    service_s = sum(stage.service_time_s for stage in seen.stages) if crowded and seen.stages else None
    waits = crowded or seen.queued > group.replicas
    return Step(group.replicas, latency_s, seen.input_rate_per_s, waits, service_s, _cpu_share(situation, group))


def _cpu_share(situation: Situation, group: Group) -> float:
    own = [stage for stage in situation.snapshot.stages if stage.name in group.stages]
    service_s = sum(stage.service_time_s for stage in own)
    return min(1.0, sum(stage.cpu_time_s for stage in own) / service_s) if service_s else 1.0


def _resized(situation: Situation, group: Group, replicas: int) -> Composition:
    """Return the active composition with this many replicas, by its known name if it is in the list."""
    groups = tuple(replace(each, replicas=replicas) if each is group else each for each in situation.active.groups)
    resized = replace(situation.active, groups=groups, name=f"{'+'.join(group.stages)} x {replicas}")
    known = (each for each in situation.compositions if each.shape == resized.shape)
    return next(known, resized)
