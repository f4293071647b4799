"""Predictions against what came of them, a line each, and how near they came on the whole."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from compositions.capacity.prediction import Prediction
from compositions.model import Composition

HEAD = f"{'groups':>24} {'items':>5} {'cores':>5} {'load':>5} {'items/s':>9} {'error':>6} {'ms':>9} {'error':>6} others"


class Asked(Protocol):
    """What was predicted: of a composition, with so many items that travel together, at this share of its capacity."""

    @property
    def composition(self) -> Composition: ...
    @property
    def items(self) -> int: ...
    @property
    def load(self) -> float: ...
    @property
    def cores(self) -> int: ...


S = TypeVar("S", bound=Asked)


@dataclass(frozen=True, slots=True)
class Outcome(Generic[S]):
    setting: S
    told: Prediction
    throughput_per_s: float
    latency_s: float
    others_cores: float = 0.0
    """What other programs had of the cores meanwhile; the model does not see them."""

    @property
    def throughput_error(self) -> float:
        return abs(self.told.throughput_per_s / self.throughput_per_s - 1)

    @property
    def latency_error(self) -> float:
        return abs((self.told.latency_s or 0.0) / self.latency_s - 1)

    @property
    def row(self) -> str:
        setting = self.setting
        groups = "-".join(f"{'+'.join(group.stages)}*{group.replicas}" for group in setting.composition.groups)
        return (
            f"{groups:>24} {setting.items:5} {setting.cores:5} {setting.load:5.2f}"
            f" {self.throughput_per_s:9.0f} {self.throughput_error:6.1%}"
            f" {self.latency_s * 1e3:9.3f} {self.latency_error:6.1%} {self.others_cores:6.2f}"
        )


def concluded(outcomes: Sequence[Outcome[S]], limit: float) -> bool:
    """Prints it; whether both medians are within the limit."""
    throughput = statistics.median(each.throughput_error for each in outcomes)
    latency = statistics.median(each.latency_error for each in outcomes)
    print(f"median error: throughput {throughput:.1%}, latency {latency:.1%}; limit {limit:.0%}")
    overloaded = sum(each.told.overloaded for each in outcomes)
    print(f"told to be overloaded: {overloaded} of {len(outcomes)}, none of which is")
    return max(throughput, latency) <= limit
