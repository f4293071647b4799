"""How often the SLO was met: a series of seconds, and shares of time and of items."""

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
    """How often the SLO was met since the start: by seconds, and by delivered items (itemised).

    Seconds in which nothing could be measured, and items while no bound was known, count neither way.
    """

    SERIES = 3600

    def __init__(self) -> None:
        self.seconds = self.seconds_met = self.items = self.items_met = 0
        self.series: deque[HitSecond] = deque(maxlen=self.SERIES)
        """The last hour, oldest first."""

    @property
    def time_share(self) -> float | None:
        """Share of the seconds in which the SLO was met, 0..1; ``None`` before the first."""
        return self.seconds_met / self.seconds if self.seconds else None

    @property
    def item_share(self) -> float | None:
        """Share of the delivered items within the bound, 0..1; ``None`` before the first."""
        return self.items_met / self.items if self.items else None

    def add_second(self, at_s: float, verdict: Verdict, delivered: int = 0) -> None:
        """The verdict on the second that ends at ``at_s``; of several in one second the first counts.

        ``delivered``: items of that second that share its verdict (throughput SLO); 0 where ``add_item`` is used.
        """
        second = int(at_s)
        if self.series and second <= self.series[-1].second:
            return
        self.series.append(HitSecond(second, verdict.status, verdict.value))
        if verdict.status in (SloStatus.MET, SloStatus.VIOLATED):
            met = verdict.status is SloStatus.MET
            self.seconds, self.seconds_met = self.seconds + 1, self.seconds_met + met
            self.items, self.items_met = self.items + delivered, self.items_met + met * delivered

    def add_item(self, latency_s: float, bound_ms: float) -> None:
        """A delivered item of a latency SLO: within the bound or not."""
        self.items += 1
        self.items_met += latency_s * 1e3 <= bound_ms
