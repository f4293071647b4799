"""The recent history of a running app: one sample a second, for charts and for clients that were away."""

from __future__ import annotations

import pickle
import zlib
from collections import deque
from collections.abc import Callable, Iterator

from service.schemas.status import Sample

PERIOD_S = 1.0
KEPT_S = 3600
PACKED = 60
"""Number of samples that are compressed together. An hour then takes some 0.3 MB, compared with 15 as objects; reading
all of it back takes up to 0.1 s on a busy machine."""


class History:
    """A bounded ring; times are seconds of the caller's clock."""

    def __init__(self) -> None:
        self._packs: deque[tuple[float, bytes]] = deque(maxlen=-(-int(KEPT_S / PERIOD_S) // PACKED))
        """Packs of samples with their times, each with the time of its last sample."""
        self._recent: list[tuple[float, Sample]] = []
        self._due_s = float("-inf")

    def record(self, now_s: float, sample: Callable[[], Sample]) -> None:
        """Takes a sample if one is due."""
        if now_s < self._due_s:
            return
        on_time = now_s - self._due_s < PERIOD_S
        self._due_s = (self._due_s if on_time else now_s) + PERIOD_S
        self._recent.append((now_s, sample()))
        if len(self._recent) == PACKED:
            self._packs.append((now_s, zlib.compress(pickle.dumps(self._recent))))
            self._recent = []

    def since(self, at_s: float) -> list[Sample]:
        """Samples taken at ``at_s`` or later, oldest first."""
        found = [sample for taken_s, sample in self._samples(at_s) if taken_s >= at_s]
        return found[-int(KEPT_S / PERIOD_S) :]

    def _samples(self, at_s: float) -> Iterator[tuple[float, Sample]]:
        for last_s, pack in self._packs:
            if last_s >= at_s:
                yield from pickle.loads(zlib.decompress(pack))
        yield from self._recent
