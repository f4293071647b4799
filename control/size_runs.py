"""What became of the size of bundles: one entry for changes that follow each other, however many these are."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass


@dataclass(slots=True)
class SizeRun:
    """Changes of the size by one controller, one soon after the other. ``reason`` is the last one's."""

    controller: str
    from_items: int
    to_items: int
    reason: str
    first_at_s: float
    last_at_s: float
    least: int
    most: int
    count: int = 1


class SizeRuns:
    """Bounded, in order. A controller may change the size a hundred times a second: that is an entry a minute."""

    KEPT = 1000
    QUIET_S = 10.0
    """After so long without a change the next one is another entry."""
    LONGEST_S = 60.0

    def __init__(self) -> None:
        self.kept: deque[SizeRun] = deque(maxlen=self.KEPT)
        self._used: dict[int, None] = {}
        self._now: tuple[str, int] | None = None

    @property
    def used(self) -> list[int]:
        """All sizes so far, in the order of their first use."""
        return list(self._used)

    def note(self, at_s: float, controller: str, items: int, reason: str) -> None:
        """What holds from now on, chosen by this controller; only what is another than before is kept."""
        before, self._now = self._now, (controller, items)
        self._used[items] = None
        if before is None or before == self._now:
            return
        last = self.kept[-1] if self.kept else None
        if last is None or not self._goes_on(last, at_s, controller):
            least, most = sorted((before[1], items))
            self.kept.append(SizeRun(controller, before[1], items, reason, at_s, at_s, least, most))
            return
        last.to_items, last.reason, last.last_at_s = items, reason, at_s
        last.least, last.most = min(last.least, items), max(last.most, items)
        last.count += 1

    def _goes_on(self, run: SizeRun, at_s: float, controller: str) -> bool:
        soon = at_s - run.last_at_s < self.QUIET_S and at_s - run.first_at_s < self.LONGEST_S
        return soon and controller == run.controller
