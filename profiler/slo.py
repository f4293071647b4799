"""Service-level objectives and their evaluation."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

Metric = Literal["latency", "throughput"]
Statistic = Literal["mean", "p50", "p95", "p99"]
INPUT_RATE: Literal["input_rate"] = "input_rate"


class SloStatus(StrEnum):
    """Values of ``slo_status`` in the API."""

    MET = "met"
    VIOLATED = "violated"
    INFEASIBLE = "infeasible"
    UNKNOWN = "unknown"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Slo:
    """An objective; ``target`` in milliseconds for latency, items/s or ``"input_rate"`` for throughput."""

    metric: Metric
    target: float | Literal["input_rate"]
    threshold: float = 0.2
    statistic: Statistic = "mean"

    def bound(self, input_rate_per_s: float | None) -> float | None:
        """The value beyond which the SLO counts as violated (Vogel et al., step 2), in the unit of ``target``.

        ``None`` when the target is the input rate and that is not known.
        """
        if self.metric == "latency":
            return float(self.target) * (1 + self.threshold)
        target = input_rate_per_s if self.target == INPUT_RATE else float(self.target)
        return None if target is None else target * (1 - self.threshold)
