"""How often the SLO was met: a series of seconds, and the share of them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from profiler.slo import SloStatus, Verdict


@dataclass(frozen=True, slots=True)
class HitSecond:
    """One second of the SLO-hit series."""

    second: int
    status: SloStatus
    value: float | None


class SloHits:
    """How often the SLO was met since the start. Seconds in which nothing could be measured count neither way."""

    SERIES = 3600

    def __init__(self) -> None:
        self.seconds = self.seconds_met = 0
        self.series: deque[HitSecond] = deque(maxlen=self.SERIES)
        """The last hour, oldest first."""

    @property
    def time_share(self) -> float | None:
        """Share of the seconds in which the SLO was met, 0..1; ``None`` before the first."""
        return self.seconds_met / self.seconds if self.seconds else None

    def add_second(self, at_s: float, verdict: Verdict) -> None:
        """The verdict on the second that ends at ``at_s``; of several in one second the first counts."""
        second = int(at_s)
        if self.series and second <= self.series[-1].second:
            return
        self.series.append(HitSecond(second, verdict.status, verdict.value))
        if verdict.status in (SloStatus.MET, SloStatus.VIOLATED):
            met = verdict.status is SloStatus.MET
            self.seconds, self.seconds_met = self.seconds + 1, self.seconds_met + met
