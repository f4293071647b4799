"""What is known of a runner without asking it."""

from __future__ import annotations

from dataclasses import dataclass

from service.bodies.results import Result
from service.bodies.status import Sample, Status
from service.daemon.keeping.berth import Berth
from service.running.asking.requests import ReadHistory, ReadResults, ReadStatus
from service.running.asking.window import Window

RESULTS_KEPT = 10_000
"""Results that can still be read after the end of a run."""
HISTORY_KEPT_S = 900.0
"""Samples of a run's end that can still be read after it."""


@dataclass(frozen=True, slots=True)
class Remembered:
    status: Status | None = None
    """Of late, while it is up; its last when the run has ended."""
    results: tuple[Result, ...] = ()
    """Filled when the run has ended, as is ``history``."""
    history: tuple[Sample, ...] = ()

    @property
    def out(self) -> int:
        """Items that had left when it was last looked at."""
        if self.status is None:
            return 0
        items = self.status.items
        return items.delivered + items.failed + items.shed

    @property
    def unfinished(self) -> int:
        """Items that were accepted and not out when it was last looked at."""
        return 0 if self.status is None else max(0, self.status.items.accepted - self.out)

    def window(self, run: str | None) -> Window:
        """What can still be read of ``run``; nothing of one that is not remembered."""
        if self.status is None or self.status.run != run:
            return Window(run)
        given = self.status.items.accepted if self.results else None
        return Window(run, self.results, self.out, given)

    @classmethod
    def of(cls, berth: Berth) -> Remembered:
        """All that is asked for after the end. Raises: as the runner's port."""
        results = berth.ask(ReadResults(None, RESULTS_KEPT))
        history = berth.ask(ReadHistory(HISTORY_KEPT_S))
        return cls(berth.ask(ReadStatus()), tuple(results), tuple(history))
