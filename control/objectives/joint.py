"""An objective of several parts: all of them must be met, so the worst one counts."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from control.objectives.objective import LatencyAt, Objective, Ruling
from profiler.slo import SloStatus, Statistic, Verdict
from profiler.snapshot import LatencyStats, Snapshot

_WORST_FIRST = (SloStatus.VIOLATED, SloStatus.INFEASIBLE, SloStatus.UNKNOWN, SloStatus.MET)


@dataclass(frozen=True, slots=True)
class Joint(Objective):
    """Several objectives at once. Value, bound and target are the first one's, for display; judgement covers all."""

    members: tuple[Objective, ...]

    @property
    def parts(self) -> tuple[Objective, ...]:
        return self.members

    @property
    def spoilt_by_late_items(self) -> bool:
        return any(each.spoilt_by_late_items for each in self.members)

    @property
    def quantile(self) -> float | None:
        """The quantile of the first latency objective, in the user's order."""
        return next((each.quantile for each in self.members if each.item_target_ms is not None), None)

    @property
    def statistic(self) -> Statistic | None:
        return self.members[0].statistic

    @property
    def item_target_ms(self) -> float | None:
        return min((each.item_target_ms for each in self.members if each.item_target_ms is not None), default=None)

    def target(self, input_rate_per_s: float | None) -> float | None:
        return self.members[0].target(input_rate_per_s)

    def bound(self, input_rate_per_s: float | None) -> float | None:
        return self.members[0].bound(input_rate_per_s)

    def value(self, throughput_per_s: float | None, latency_s: float | None) -> float | None:
        return self.members[0].value(throughput_per_s, latency_s)

    def worth(self, value: float) -> float:
        return self.members[0].worth(value)

    def asked_per_s(self, input_rate_per_s: float | None) -> float | None:
        asked = (each.asked_per_s(input_rate_per_s) for each in self.members)
        return max((each for each in asked if each is not None), default=None)

    def room(
        self, throughput_per_s: float | None, latency_at: LatencyAt, input_rate_per_s: float | None
    ) -> float | None:
        rooms = [each.room(throughput_per_s, latency_at, input_rate_per_s) for each in self.members]
        known = [room for room in rooms if room is not None]
        return min(known) if len(known) == len(rooms) else None

    def judge(
        self, latency: LatencyStats | None, throughput_per_s: float | None, input_rate_per_s: float | None
    ) -> Verdict:
        verdicts = [each.judge(latency, throughput_per_s, input_rate_per_s) for each in self.members]
        status = _worst(verdict.status for verdict in verdicts)
        reason = ", and ".join(verdict.reason for verdict in verdicts if verdict.status is status)
        slacks = [verdict.slack for verdict in verdicts if verdict.slack is not None]
        slack = min(slacks) if len(slacks) == len(verdicts) else None
        return Verdict(status, reason, verdicts[0].value, verdicts[0].bound, slack)

    def whose_doing(self, snapshot: Snapshot, miss: str, patience_s: float) -> Ruling:
        """Return the joint ruling on the missed objectives: the composition is to blame if it is for one of them."""
        rulings = [
            each.whose_doing(snapshot, verdict.reason, patience_s)
            for each, verdict in _judged(self.members, snapshot)
            if verdict.status is SloStatus.VIOLATED
        ]
        verdicts = [ruling.meets for ruling in rulings]
        meets = False if False in verdicts else None if None in verdicts else True
        reason = ", and ".join(ruling.reason for ruling in rulings)
        return Ruling(_worst(ruling.status for ruling in rulings), meets, reason)

    def overrun(self, snapshot: Snapshot) -> str | None:
        return next((told for each in self.members if (told := each.overrun(snapshot)) is not None), None)

    def described(self, value: float | None) -> str:
        return self.members[0].described(value)


def _judged(members: Iterable[Objective], snapshot: Snapshot) -> Iterator[tuple[Objective, Verdict]]:
    for each in members:
        yield each, each.judge(snapshot.latency, snapshot.throughput_per_s, snapshot.input_rate_per_s)


def _worst(statuses: Iterator[SloStatus]) -> SloStatus:
    return min(statuses, key=_WORST_FIRST.index)
