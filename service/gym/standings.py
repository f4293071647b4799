"""What rounds come to: a row a policy, over all loads and of each group, with intervals over the seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from service.gym.contest import Round

_T95 = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)
"""Student's t for 95 % of 1, 2 … degrees of freedom."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over seeds, and half its interval of 95 % after Student; None with one seed."""

    mean: float
    half: float | None

    @classmethod
    def of(cls, by_seed: Sequence[float]) -> Estimate:
        count = len(by_seed)
        if count < 2:
            return cls(by_seed[0], None)
        t = _T95[min(count - 2, len(_T95) - 1)]
        return cls(fmean(by_seed), t * stdev(by_seed) / math.sqrt(count))

    def shown(self, digits: int) -> str:
        return f"{self.mean:.{digits}f}" + ("" if self.half is None else f" ± {self.half:.{digits}f}")


@dataclass(frozen=True, slots=True)
class Row:
    """A policy, over several loads: each load counts the same."""

    policy: str
    in_time: Estimate
    """Share of the items."""
    against_least: Estimate
    """Goodput per worker-second, of the clairvoyant's."""
    cost: Estimate
    """Worker-seconds, of peak provisioning's."""
    changes: Estimate
    recovery_s: Estimate

    @classmethod
    def of(cls, policy: str, rounds: Sequence[Round]) -> Row:
        def estimate(value: Callable[[Round], float]) -> Estimate:
            seeds = sorted({each.seed for each in rounds})
            return Estimate.of([fmean(value(each) for each in rounds if each.seed == seed) for seed in seeds])

        return cls(
            policy,
            estimate(lambda each: each.figures.in_time),
            estimate(lambda each: each.against_least),
            estimate(lambda each: each.cost),
            estimate(lambda each: each.figures.changes),
            estimate(lambda each: each.figures.recovery_s),
        )

    def cells(self) -> tuple[str, ...]:
        digits = ((self.in_time, 3), (self.against_least, 3), (self.cost, 2), (self.changes, 1), (self.recovery_s, 1))
        return (self.policy, *(estimate.shown(places) for estimate, places in digits))


HEADS = ("policy", "in time", "goodput / clairvoyant", "cost / peak", "changes", "recovery s")


def standings(rounds: Sequence[Round]) -> tuple[Row, ...]:
    """Best goodput per worker-second first."""
    policies = dict.fromkeys(each.policy for each in rounds)
    rows = [Row.of(policy, [each for each in rounds if each.policy == policy]) for policy in policies]
    return tuple(sorted(rows, key=lambda row: -row.against_least.mean))


def by_group(rounds: Sequence[Round]) -> dict[str, tuple[Row, ...]]:
    """In the order of the suite."""
    groups = dict.fromkeys(each.group for each in rounds)
    return {group: standings([each for each in rounds if each.group == group]) for group in groups}
