"""The latency objective: met from below, and spoilt by items that waited for an earlier composition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isfinite
from typing import ClassVar

import numpy as np

from compositions.wording import figure
from control.objectives.objective import Array, Excess, Expectation, Ratios, Ruling, Single, Wording
from control.reading import drained_in_s, growing_per_s, grows, held_s
from profiler.slo import SloStatus, Statistic
from profiler.snapshot import LatencyStats, Snapshot

_SIGMAS = 1.645
"""Standard deviations from the median to the 95th percentile of what scatters normally."""


@dataclass(frozen=True, slots=True)
class Latency(Single):
    """Arrival to delivery: a statistic over the window, milliseconds."""

    wording: ClassVar[Wording] = Wording("ms", "is at most", "is above")

    @property
    def spoilt_by_late_items(self) -> bool:
        return True

    @property
    def tolerance(self) -> float:
        return 1 + self.slo.threshold

    @property
    def ample(self) -> float:
        return self.tolerance

    @property
    def statistic(self) -> Statistic | None:
        return self.slo.statistic

    @property
    def item_target_ms(self) -> float | None:
        return float(self.slo.target)

    def target(self, input_rate_per_s: float | None) -> float | None:
        return float(self.slo.target)

    def value(self, throughput_per_s: float | None, latency_s: float | None) -> float | None:
        return None if latency_s is None else latency_s * 1e3

    def worth(self, value: float) -> float:
        return -value

    def asked_per_s(self, input_rate_per_s: float | None) -> float | None:
        return None

    def whose_doing(self, snapshot: Snapshot, miss: str, patience_s: float) -> Ruling:
        """The composition's, unless it works off a backlog; then the time inside it counts."""
        left_s = drained_in_s(snapshot)
        if left_s is None or left_s > patience_s:
            return Ruling(SloStatus.VIOLATED, False, miss)
        miss += f", but a backlog of {snapshot.backlog} items is gone in {left_s:.1f} s"
        inside = self.judge(snapshot.inside, snapshot.throughput_per_s, snapshot.input_rate_per_s)
        return Ruling(SloStatus.VIOLATED, True if inside.status is SloStatus.MET else None, miss)

    def overrun(self, snapshot: Snapshot) -> str | None:
        """What is due now will wait for longer than the bound, and what comes after it for longer still."""
        growth, throughput, bound = growing_per_s(snapshot), snapshot.throughput_per_s, self.bound(None)
        if growth is None or not throughput or bound is None or held_s(snapshot) * 1e3 <= bound:
            return None
        wait_ms = snapshot.backlog / throughput * 1e3
        if wait_ms <= bound:
            return None
        return f"{grows(snapshot.backlog, growth)}: what is due now waits {wait_ms:.0f} ms, above {bound:.0f} ms"

    def excess(self, snapshot: Snapshot) -> Excess | None:
        return None if snapshot.latency is None else self._excess(snapshot.latency, snapshot.counted)

    def _excess(self, latency: LatencyStats, rough: bool) -> Excess | None:
        """Of a quantile: the share of late items beyond the one that may be late; of the mean: the time beyond it.
        Items of independent users that are late together are late alike: in a queue that just keeps the bound they
        scatter by as much as the bound (exponentially, in a full one), whatever a window of them shows."""
        bound_s, quantile = (self.bound(None) or 0.0) / 1e3, self.quantile
        if quantile is None:
            scatter_s = (latency.p95_s - latency.p50_s) / _SIGMAS
            return Excess(latency.mean_s - bound_s, max(scatter_s, bound_s if rough else 0.0) ** 2)
        within = latency.within(bound_s)
        return None if within is None else Excess(quantile - within, quantile * (1 - quantile), 1 - quantile)

    def ratios(self, expected: Callable[[float], Expectation], error: float, rate_per_s: float | None) -> Ratios:
        low, likely, high = (
            self._ratio(expected(scale), rate_per_s or 0.0) for scale in (1 + error, 1.0, 1 / (1 + error))
        )
        return np.minimum(low, likely), likely, np.maximum(high, likely)

    def _ratio(self, expected: Expectation, rate_per_s: float) -> Array:
        """Return bound / expected latency; 0 where the queue grows without end."""
        bound_s = (self.bound(rate_per_s) or 0.0) / 1000
        latency_s = np.where(expected.throughput_per_s < rate_per_s, inf, expected.latency_at(self.quantile))
        return bound_s / np.maximum(latency_s, 1e-9)

    def described(self, value: float | None) -> str:
        return "no latency" if value is None else f"{figure(value, 4)} ms"

    def foretold(self, throughput_per_s: float, latency_s: float) -> str:
        if not isfinite(latency_s):
            return f"predicted {figure(throughput_per_s)} items/s, so the queue grows"
        told = f"{self.slo.statistic} latency" if self.slo.statistic != "share" else self.slo.measured
        return f"predicted {told} {figure(latency_s * 1e3, 4)} ms"


@dataclass(frozen=True, slots=True)
class Share(Latency):
    """So many of the items within the target. How many may be late is said by the share, so it tolerates nothing
    beyond it: the threshold does not count."""

    @property
    def tolerance(self) -> float:
        return 1.0
