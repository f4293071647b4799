"""The interface of an objective of any metric: bound, value, worth, judgement and wording."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from compositions.wording import apart
from profiler.slo import Slo, SloStatus, Statistic, Verdict
from profiler.snapshot import LatencyStats, Snapshot


@dataclass(frozen=True, slots=True)
class Wording:
    """The words of a judgement, such as ``latency is 470 ms, within the objective of 480 ms``."""

    unit: str
    met: str
    missed: str


@dataclass(frozen=True, slots=True)
class Ruling:
    """The cause of a miss: the status for users, and ``meets``: False if the composition is to blame; None: unknown."""

    status: SloStatus
    meets: bool | None
    reason: str


LatencyAt = Callable[[float | None], float | None]
"""Returns the latency at a quantile, in seconds, or the mean for ``None``; returns ``None`` if it is unknown."""


@dataclass(frozen=True, slots=True)
class Objective(ABC):
    """An objective with one target or several. Values and bounds are in the unit of the target, ms or items/s; with
    several targets, those of the first one."""

    slo: Slo
    """Objective as the user set it."""

    @property
    def parts(self) -> "tuple[Objective, ...]":
        """The objectives with one target each."""
        return (self,)

    @property
    @abstractmethod
    def spoilt_by_late_items(self) -> bool:
        """True if items that waited for an earlier composition make the present one look worse."""

    @property
    def quantile(self) -> float | None:
        """The quantile of latencies that is judged; ``None``: their mean."""
        return self.slo.quantile

    @property
    @abstractmethod
    def statistic(self) -> Statistic | None:
        """The statistic of the values that is judged; ``None`` if the metric has only one."""

    @property
    @abstractmethod
    def item_target_ms(self) -> float | None:
        """The latency target of each item, in milliseconds; ``None`` for a throughput, which items have together."""

    @property
    def wanted_s(self) -> float | None:
        """The latency target of each item, in seconds; ``None`` for a throughput."""
        return None if self.item_target_ms is None else self.item_target_ms / 1e3

    @abstractmethod
    def target(self, input_rate_per_s: float | None) -> float | None:
        """Return the target; ``None`` if it is the input rate and that is unknown."""

    @abstractmethod
    def bound(self, input_rate_per_s: float | None) -> float | None:
        """Return the value beyond which the objective is violated; ``None`` if the target is unknown."""

    @abstractmethod
    def value(self, throughput_per_s: float | None, latency_s: float | None) -> float | None:
        """Return the measured value of the objective's metric; ``latency_s`` is the SLO's statistic."""

    @abstractmethod
    def worth(self, value: float) -> float:
        """Return the value as a score of which higher is better."""

    @abstractmethod
    def asked_per_s(self, input_rate_per_s: float | None) -> float | None:
        """Return the throughput that the objective requires, in items/s; ``None`` if it requires none."""

    @abstractmethod
    def room(
        self, throughput_per_s: float | None, latency_at: LatencyAt, input_rate_per_s: float | None
    ) -> float | None:
        """Return the distance to the bound as a ratio of it, negative beyond; ``None`` if value or bound is unknown."""

    @abstractmethod
    def judge(
        self, latency: LatencyStats | None, throughput_per_s: float | None, input_rate_per_s: float | None
    ) -> Verdict:
        """Return a verdict on the measurements; its status is UNKNOWN if a value is missing."""

    @abstractmethod
    def whose_doing(self, snapshot: Snapshot, miss: str, patience_s: float) -> Ruling:
        """Return a ruling on the ``miss`` in ``snapshot``. The composition is not to blame for a backlog that it will
        clear within ``patience_s``."""

    def overrun(self, snapshot: Snapshot) -> str | None:
        """Return a reason if the backlog grows, so that the objective will be missed although the window meets it; None
        if not, or if the demand is unknown."""
        return None

    @abstractmethod
    def described(self, value: float | None) -> str:
        """Return a measured value with its unit, as text."""


@dataclass(frozen=True, slots=True)
class Single(Objective):
    """An objective with one target, of any metric."""

    wording: ClassVar[Wording]

    @property
    @abstractmethod
    def tolerance(self) -> float:
        """Ratio of bound to target (Vogel et al., section 3.2, step 2)."""

    def bound(self, input_rate_per_s: float | None) -> float | None:
        target = self.target(input_rate_per_s)
        return None if target is None else target * self.tolerance

    def slack(self, value: float, bound: float) -> float:
        """Return the distance from ``value`` to ``bound`` as a ratio of the bound; negative beyond it."""
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
        reached, asked = apart(value, bound)
        return f"{self.slo.measured} is {reached} {wording.unit}, {verb} the objective of {asked} {wording.unit}"
