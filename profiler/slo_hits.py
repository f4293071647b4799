"""How often the SLO was met, in time and over bundles, and how far from it a run was."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
import numpy.typing as npt

from profiler.slo import SloStatus, Verdict


@dataclass(frozen=True, slots=True)
class BundleFigures:
    """How well bundles kept to a latency target, shares 0..1 (Leonarczyk 2024, section 4.3, who calls them batches)."""

    batched_hit: float
    """Share of the bundles whose latency was within the band around the target (equation 4.2)."""
    itemized_hit: float
    """Share of the items that travelled in these (equation 4.3)."""
    mad_distance: float
    """Mean absolute distance from the target, as a share of it (equation 4.4)."""
    sd_distance: float
    """Root of the mean squared distance from the target, as a share of it (equation 4.5).

    **Erratum.** There the number of bundles stands outside the root, so that the distance of the same latencies would
    shrink with their number; its text calls it the standard deviation around the target, for which it stands inside."""


def bundle_figures(
    latencies_s: npt.ArrayLike, items: npt.ArrayLike, target_s: float, threshold: float
) -> BundleFigures | None:
    """Of bundles with these latencies and numbers of items; ``None`` without any.

    The band is [target · (1 − threshold), target · (1 + threshold)], its ends included.
    """
    latency_s, size = np.asarray(latencies_s, dtype=np.float64), np.asarray(items, dtype=np.float64)
    if not latency_s.size:
        return None
    hit = (target_s * (1 - threshold) <= latency_s) & (latency_s <= target_s * (1 + threshold))
    distance = latency_s - target_s
    return BundleFigures(
        float(hit.mean()),
        float(size[hit].sum() / size.sum()),
        float(np.abs(distance).mean() / target_s),
        sqrt(float((distance**2).mean())) / target_s,
    )


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
