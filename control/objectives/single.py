"""One thing asked for: its bound, the room left to it, and the sentence that says so."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from compositions.wording import figure
from control.objectives.objective import LatencyAt, Objective, Wording
from profiler.slo import SloStatus, Verdict
from profiler.snapshot import LatencyStats


@dataclass(frozen=True, slots=True)
class Single(Objective):
    """Whatever its metric."""

    wording: ClassVar[Wording]

    @property
    @abstractmethod
    def tolerance(self) -> float:
        """Bound over target (Vogel et al., section 3.2, step 2)."""

    def bound(self, input_rate_per_s: float | None) -> float | None:
        target = self.target(input_rate_per_s)
        return None if target is None else target * self.tolerance

    def slack(self, value: float, bound: float) -> float:
        """Room left to ``bound`` as a ratio of it; 0 on it, negative beyond."""
        room = self.worth(value) - self.worth(bound)
        return room / bound if bound else math.copysign(math.inf, room) if room else 0.0

    def room(
        self, throughput_per_s: float | None, latency_at: LatencyAt, input_rate_per_s: float | None
    ) -> float | None:
        value, bound = self.value(throughput_per_s, latency_at(self.quantile)), self.bound(input_rate_per_s)
        return None if value is None or bound is None else self.slack(value, bound)

    def judge(
        self, latency: LatencyStats | None, throughput_per_s: float | None, input_rate_per_s: float | None
    ) -> Verdict:
        bound = self.bound(input_rate_per_s)
        value = self.value(throughput_per_s, None if latency is None else latency.at(self.quantile))
        if bound is None:
            return Verdict(SloStatus.UNKNOWN, "the input rate is not known yet", value)
        if value is None:
            return Verdict(SloStatus.UNKNOWN, f"too few samples: no {self.slo.metric} measured yet", bound=bound)
        slack = self.slack(value, bound)
        status = SloStatus.MET if slack >= 0 else SloStatus.VIOLATED
        return Verdict(status, self._sentence(value, bound, status), value, bound, slack)

    def _sentence(self, value: float, bound: float, status: SloStatus) -> str:
        wording = self.wording
        verb = wording.met if status is SloStatus.MET else wording.missed
        return f"{self.slo.measured} {figure(value, 4)} {wording.unit} {verb} {figure(bound, 4)} {wording.unit}"
