"""The throughput objective, a lower bound that is limited by the input rate."""

from dataclasses import dataclass
from typing import ClassVar

from compositions.wording import figure
from control.objectives.objective import Ruling, Single, Wording
from control.reading import growing_per_s, grows, held_s, waiting
from profiler.slo import INPUT_RATE, SloStatus, Statistic, Verdict
from profiler.snapshot import LatencyStats, Snapshot

_HORIZON_S = 2.0
"""Longest wait that scattered service times explain, in seconds; a growing backlog with longer waits is a violation."""


@dataclass(frozen=True, slots=True)
class Throughput(Single):
    """A bound on the items delivered per second; the target is a number or the input rate."""

    wording: ClassVar[Wording] = Wording("items/s", "meeting", "below")

    @property
    def spoilt_by_late_items(self) -> bool:
        return False

    @property
    def tolerance(self) -> float:
        return 1 - self.slo.threshold

    @property
    def statistic(self) -> Statistic | None:
        return None

    @property
    def item_target_ms(self) -> float | None:
        return None

    def target(self, input_rate_per_s: float | None) -> float | None:
        return input_rate_per_s if self.follows_input else float(self.slo.target)

    def value(self, throughput_per_s: float | None, latency_s: float | None) -> float | None:
        return throughput_per_s

    def worth(self, value: float) -> float:
        return value

    def asked_per_s(self, input_rate_per_s: float | None) -> float | None:
        return self.bound(input_rate_per_s)

    @property
    def follows_input(self) -> bool:
        """True if the target is the input rate."""
        return self.slo.target == INPUT_RATE

    def whose_doing(self, snapshot: Snapshot, miss: str, patience_s: float) -> Ruling:
        """Blame the composition only if items wait."""
        if waiting(snapshot):
            return Ruling(SloStatus.VIOLATED, False, miss)
        rate, bound = snapshot.input_rate_per_s, self.bound(snapshot.input_rate_per_s)
        if rate is not None and bound is not None and rate < bound:
            limit = f"{miss}, because the input is only {figure(rate)} items/s: no composition can deliver more"
            return Ruling(SloStatus.INFEASIBLE, True, limit)
        return Ruling(SloStatus.MET, True, f"{miss}, but no items wait: throughput follows the input")

    def described(self, value: float | None) -> str:
        return "no throughput" if value is None else f"{figure(value)} items/s"


@dataclass(frozen=True, slots=True)
class KeepingUp(Throughput):
    """A throughput objective with the input rate as its target, where a growing backlog is a miss, too. The threshold
    applies only to measured throughput, which scatters."""

    def overrun(self, snapshot: Snapshot) -> str | None:
        """Return a reason if the backlog grows and is larger than the input of ``_HORIZON_S``."""
        growth, rate = growing_per_s(snapshot), snapshot.input_rate_per_s
        if growth is None or rate is None or min(snapshot.backlog / rate, held_s(snapshot)) <= _HORIZON_S:
            return None
        return f"{grows(snapshot.backlog, growth)}: throughput does not keep up with {figure(rate)} items/s"


@dataclass(frozen=True, slots=True)
class Fastest(Throughput):
    """The objective of the highest throughput in items/s on this machine, with the fewest workers within 3 % of it.

    It has no bound, so measurements alone never violate it. Compositions are compared with the best prediction.
    """

    def target(self, input_rate_per_s: float | None) -> float | None:
        return None

    def judge(
        self, latency: LatencyStats | None, throughput_per_s: float | None, input_rate_per_s: float | None
    ) -> Verdict:
        if throughput_per_s is None:
            return Verdict(SloStatus.UNKNOWN, "too few samples: no throughput measured yet")
        return Verdict(SloStatus.MET, f"throughput {figure(throughput_per_s, 4)} items/s", throughput_per_s)
