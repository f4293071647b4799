"""The latency objective, an upper bound. Items that waited for an earlier composition spoil its measurement."""

from dataclasses import dataclass
from typing import ClassVar

from compositions.wording import figure
from control.objectives.objective import Ruling, Single, Wording
from control.reading import drained_in_s, growing_per_s, grows, held_s
from profiler.slo import SloStatus, Statistic
from profiler.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Latency(Single):
    """A bound on a statistic of the time from arrival to delivery over the window, in milliseconds."""

    wording: ClassVar[Wording] = Wording("ms", "within", "above")

    @property
    def spoilt_by_late_items(self) -> bool:
        return True

    @property
    def tolerance(self) -> float:
        return 1 + self.slo.threshold

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
        """Blame the composition, unless a backlog is being cleared; then only the time after admission counts."""
        left_s = drained_in_s(snapshot)
        if left_s is None or left_s > patience_s:
            return Ruling(SloStatus.VIOLATED, False, miss)
        miss += f", but the backlog of {snapshot.backlog} items will be cleared in {left_s:.1f} s"
        inside = self.judge(snapshot.inside, snapshot.throughput_per_s, snapshot.input_rate_per_s)
        return Ruling(SloStatus.VIOLATED, True if inside.status is SloStatus.MET else None, miss)

    def overrun(self, snapshot: Snapshot) -> str | None:
        """Return a reason if the backlog grows and an item that is due now will wait for longer than the bound."""
        growth, throughput, bound = growing_per_s(snapshot), snapshot.throughput_per_s, self.bound(None)
        if growth is None or not throughput or bound is None or held_s(snapshot) * 1e3 <= bound:
            return None
        wait_ms = snapshot.backlog / throughput * 1e3
        if wait_ms <= bound:
            return None
        return f"{grows(snapshot.backlog, growth)}: an item due now waits {wait_ms:.0f} ms, above {bound:.0f} ms"

    def described(self, value: float | None) -> str:
        return "no latency" if value is None else f"{figure(value, 4)} ms"


@dataclass(frozen=True, slots=True)
class Share(Latency):
    """A share of the items must be within the target. The share already allows late items, so the threshold is not
    added to the target."""

    @property
    def tolerance(self) -> float:
        return 1.0
