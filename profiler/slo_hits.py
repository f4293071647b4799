"""How often the SLO was met."""

from __future__ import annotations

from profiler.slo import SloStatus, Verdict


class SloHits:
    """The share of the seconds since the start. Seconds in which nothing could be measured count neither way."""

    def __init__(self) -> None:
        self.seconds = self.seconds_met = 0
        self._newest: int | None = None

    @property
    def time_share(self) -> float | None:
        """Share of the seconds in which the SLO was met, 0..1; ``None`` before the first."""
        return self.seconds_met / self.seconds if self.seconds else None

    def add_second(self, at_s: float, verdict: Verdict) -> None:
        """The verdict on the second that ends at ``at_s``; of several in one second the first counts."""
        second = int(at_s)
        if self._newest is not None and second <= self._newest:
            return
        self._newest = second
        if verdict.status in (SloStatus.MET, SloStatus.VIOLATED):
            self.seconds += 1
            self.seconds_met += verdict.status is SloStatus.MET
