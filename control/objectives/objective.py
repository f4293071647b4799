"""The interface of an objective, whatever its metric: bound, value, worth, judgement and wording."""

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
    """The words of a judgement: ``latency 480 ms is at most 480 ms``."""

    unit: str
    met: str
    missed: str


@dataclass(frozen=True, slots=True)
class Ruling:
    """On a miss: what users see, and whether the composition is to blame (``meets``; None: nobody can tell)."""

    status: SloStatus
    meets: bool | None
    reason: str


LatencyAt = Callable[[float | None], float | None]
"""The latency within which a share of the items is, in seconds; of ``None`` the mean. ``None`` where it is unknown."""


@dataclass(frozen=True, slots=True)
class Objective(ABC):
    """An objective with one target or several. Values and bounds are in the unit of the target, ms or items/s;
    of several things, those of the first one."""

    slo: Slo
    """Objective as the user set it."""

    @property
    def parts(self) -> "tuple[Objective, ...]":
        """The things asked for, one by one."""
        return (self,)

    @property
    @abstractmethod
    def spoilt_by_late_items(self) -> bool:
        """Return whether items that waited for an earlier composition tell against the present one."""

    @property
    def quantile(self) -> float | None:
        """Of the latencies, the one to look at; ``None``: their mean."""
        return self.slo.quantile

    @property
    @abstractmethod
    def statistic(self) -> Statistic | None:
        """Return which statistic of its values is judged; ``None`` where there is no choice."""

    @property
    @abstractmethod
    def item_target_ms(self) -> float | None:
        """Return what each item is held to by itself; ``None`` where only the stream as a whole is judged."""

    @property
    def wanted_s(self) -> float | None:
        """The same in seconds."""
        return None if self.item_target_ms is None else self.item_target_ms / 1e3

    @abstractmethod
    def target(self, input_rate_per_s: float | None) -> float | None:
        """Return what is aimed at; ``None`` when it is the input rate and that is not known."""

    @abstractmethod
    def bound(self, input_rate_per_s: float | None) -> float | None:
        """The value beyond which it counts as violated; ``None`` where the target is not known."""

    @abstractmethod
    def value(self, throughput_per_s: float | None, latency_s: float | None) -> float | None:
        """Return which of the two this objective is about; ``latency_s`` is the SLO's statistic."""

    @abstractmethod
    def worth(self, value: float) -> float:
        """Higher is better, whatever the metric."""

    @abstractmethod
    def asked_per_s(self, input_rate_per_s: float | None) -> float | None:
        """Deliveries it asks for by itself, items/s; ``None`` where it asks for none."""

    @abstractmethod
    def room(
        self, throughput_per_s: float | None, latency_at: LatencyAt, input_rate_per_s: float | None
    ) -> float | None:
        """Left to the bound as a ratio of it, 0 on it, negative beyond; ``None`` where either is unknown."""

    @abstractmethod
    def judge(
        self, latency: LatencyStats | None, throughput_per_s: float | None, input_rate_per_s: float | None
    ) -> Verdict:
        """Return whether the measurements meet it; values that are missing make the answer UNKNOWN."""

    @abstractmethod
    def whose_doing(self, snapshot: Snapshot, miss: str, patience_s: float) -> Ruling:
        """Return whether the ``miss`` that ``snapshot`` shows is the composition's doing. A backlog that is gone within
        ``patience_s`` is no violation of the composition that works it off."""

    def overrun(self, snapshot: Snapshot) -> str | None:
        """Why it is missed though its window says that it is met: more is due than comes out; None when that is not
        so. Only a snapshot that knows what was asked for can tell."""
        return None

    @abstractmethod
    def described(self, value: float | None) -> str:
        """A measured value with its unit."""


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
        reached, asked = apart(value, bound)
        return f"{self.slo.measured} {reached} {wording.unit} {verb} {asked} {wording.unit}"
