"""What an objective is to those who decide: bound, value, worth, judgement and wording, whatever its metric."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from profiler.slo import Slo, SloStatus, Statistic, Verdict
from profiler.snapshot import LatencyStats, Snapshot

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Wording:
    """How a judgement reads: ``latency 480 ms is at most 480 ms``."""

    unit: str
    met: str
    missed: str


@dataclass(frozen=True, slots=True)
class Ruling:
    """On a miss: what the user sees, and whether the composition is to blame (``meets`` False), is not (True), or no
    one can tell (None)."""

    status: SloStatus
    meets: bool | None
    reason: str


@dataclass(frozen=True, slots=True)
class Expectation:
    """What is expected of many compositions, a row each."""

    throughput_per_s: Array
    latency_at: Callable[[float | None], Array]
    """As ``LatencyAt``; infinite where the queue grows without end."""


@dataclass(frozen=True, slots=True)
class Excess:
    """By how much items miss the objective, on average (below 0: they meet it), and the variance of one item's."""

    mean: float
    variance: float
    allowed: float | None = None
    """The share of the items that may miss it, where it is a share that is asked for: then ``mean`` is the share that
    misses it beyond that."""


LatencyAt = Callable[[float | None], float | None]
"""The latency within which a share of the items is, in seconds; of ``None`` the mean. ``None`` where it is unknown."""
Ratios = tuple[Array, Array, Array]
"""Low, likely, high: how well the objective is met as a ratio, 1 just so, 1.1 with 10 % to spare."""


@dataclass(frozen=True, slots=True)
class Objective(ABC):
    """What is asked for: one thing, or several at once. Values and bounds are in the unit of the target, ms or items/s;
    of several things, those of the first one."""

    slo: Slo
    """As it was asked for."""

    @property
    def parts(self) -> tuple[Objective, ...]:
        """The things asked for, one by one."""
        return (self,)

    @property
    @abstractmethod
    def spoilt_by_late_items(self) -> bool:
        """Whether items that waited for an earlier composition tell against the present one."""

    @property
    @abstractmethod
    def ample(self) -> float:
        """The ratio at which the target itself is reached, not only its bound."""

    @property
    def quantile(self) -> float | None:
        """Of the latencies, the one to look at; ``None``: their mean."""
        return self.slo.quantile

    @property
    @abstractmethod
    def statistic(self) -> Statistic | None:
        """Which statistic of its values is judged; ``None`` where there is no choice."""

    @property
    @abstractmethod
    def item_target_ms(self) -> float | None:
        """What each item is held to by itself; ``None`` where only the stream as a whole is judged."""

    @property
    def wanted_s(self) -> float | None:
        """The same in seconds."""
        return None if self.item_target_ms is None else self.item_target_ms / 1e3

    @abstractmethod
    def target(self, input_rate_per_s: float | None) -> float | None:
        """What is aimed at; ``None`` when it is the input rate and that is not known."""

    @abstractmethod
    def bound(self, input_rate_per_s: float | None) -> float | None:
        """The value beyond which it counts as violated; ``None`` where the target is not known."""

    @abstractmethod
    def value(self, throughput_per_s: float | None, latency_s: float | None) -> float | None:
        """Which of the two this objective is about; ``latency_s`` is the SLO's statistic."""

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
        """Whether the measurements meet it; values that are missing make the answer UNKNOWN."""

    @abstractmethod
    def whose_doing(self, snapshot: Snapshot, miss: str, patience_s: float) -> Ruling:
        """Whether the ``miss`` that ``snapshot`` shows is the composition's doing. A backlog that is gone within
        ``patience_s`` is no violation of the composition that works it off."""

    def overrun(self, snapshot: Snapshot) -> str | None:
        """Why it is missed though its window says that it is met: more is due than comes out; None when that is not
        so. Only a snapshot that knows what was asked for can tell."""
        return None

    def excess(self, snapshot: Snapshot) -> Excess | None:
        """What the delivered items tell of a miss; ``None`` where they do not tell one by one."""
        return None

    @abstractmethod
    def ratios(self, expected: Callable[[float], Expectation], error: float, rate_per_s: float | None) -> Ratios:
        """How well compositions will meet it, give or take the relative ``error``; ``expected`` says what they do when
        everything takes so many times as long."""

    @abstractmethod
    def described(self, value: float | None) -> str:
        """A measured value with its unit."""

    @abstractmethod
    def foretold(self, throughput_per_s: float, latency_s: float) -> str:
        """A prediction in words."""
