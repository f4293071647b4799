"""Drain samples of two kinds behind one interface: the published one, and ours (:mod:`profiler.drain_samples`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from compositions.capacity.predict import StageCost
from compositions.model import Composition
from compositions.settings import check, one_of
from profiler.drain_samples import Pending, SizeLaws, paper_sample, schedule_sample


@dataclass(frozen=True, slots=True)
class InFlight:
    """The items that a drain would empty now: ``pending`` by the stage they need next, ``count`` of them."""

    composition: Composition
    count: int
    pending: Mapping[str, Sequence[Pending]]


@dataclass(frozen=True, slots=True)
class Conditions:
    """Under which it would be: costs of the stages, cores, the price of a hop, what sizes tell, and the learned ratio
    of what drains took to what was expected."""

    costs: Mapping[str, StageCost]
    cores: float
    hop_s: float
    laws: SizeLaws
    calibration: float


class DrainSample(Protocol):
    """The expected time of a drain that began now, in seconds; None if too little is known."""

    def sample(self, left: InFlight, now: Conditions) -> float | None:
        """Taken again and again, for the mean and the variation."""

    def at_switch(self, left: InFlight, now: Conditions) -> float | None:
        """Taken when a switch begins, for that switch; None where the mean is to be used."""


class PaperSample:
    """In flight times mean service time over workers, and no more than the mean of such samples at a switch.

    As published (Vogel et al., section 3.3) the mean is over the tasks of the active composition: what a merged group
    takes for an item is all of its stages. Two items in ``Seq(f1,f2,f3)`` of 24 ms are 48 ms, not 16.
    """

    def sample(self, left: InFlight, now: Conditions) -> float | None:
        if any(stage not in now.costs for stage in left.composition.iter_stages()):
            return None
        groups = left.composition.groups
        mean_s = sum(now.costs[stage].service_s for group in groups for stage in group.stages) / len(groups)
        return paper_sample(left.count, mean_s, left.composition.workers)

    def at_switch(self, left: InFlight, now: Conditions) -> float | None:
        return None


class ScheduleSample:
    """By the position of each item, corrected by what earlier drains took, and taken anew at a switch; ours."""

    def sample(self, left: InFlight, now: Conditions) -> float | None:
        sample_s = schedule_sample(
            left.composition, left.pending, now.costs, cores=now.cores, hop_s=now.hop_s, laws=now.laws
        )
        return None if sample_s is None else sample_s * now.calibration

    def at_switch(self, left: InFlight, now: Conditions) -> float | None:
        return self.sample(left, now)


KINDS: Mapping[str, type[DrainSample]] = {"schedule": ScheduleSample, "paper": PaperSample}
"""By the name of the setting ``drain_sample``."""


@dataclass(frozen=True, slots=True)
class DrainSettings:
    """The kind of estimate for a drain. Raises: SettingsError for an unknown kind."""

    drain_sample: str = one_of("schedule", "paper")
    """``schedule``, ours, is right where groups differ; ``paper`` is as published, to compare."""

    def __post_init__(self) -> None:
        check(self)

    @property
    def made(self) -> DrainSample:
        return KINDS[self.drain_sample]()
