"""Buffer of results between the run that makes them and the program that reads them."""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Mapping
from typing import Any

from service.runner.validation.resolution import Released
from service.schemas.results import Result

MOST = 20_000
"""Results of so many items may wait to be read; then the run waits for who reads."""


class Unread:
    """A bounded buffer: the run puts results in at one end and pauses while it is full; any thread takes them out."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._waiting: deque[Result] = deque()
        self._changed = threading.Condition()
        self._ended = self._unwanted = False

    # --- the run's end ----------------------------------------------------------------------------------------------

    @property
    def has_room(self) -> bool:
        return len(self._waiting) < self._most

    @property
    def failed(self) -> str | None:
        """Nothing can: it is memory."""
        return None

    def start(self) -> None:
        """There is nothing to open."""

    def take(self, results: Released) -> None:
        rows = [row for item in results.items() for row in _rows(item)]
        with self._changed:
            if not self._unwanted:
                self._waiting.extend(rows)
                self._changed.notify_all()

    def finish(self) -> None:
        """Nothing more will come."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    # --- the reader's end -------------------------------------------------------------------------------------------

    def next(self, timeout_s: float) -> Result | None:
        """The oldest one, which leaves; None when there was none in time."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._ended, timeout_s)
            return self._waiting.popleft() if self._waiting else None

    @property
    def over(self) -> bool:
        """True if no result is left and none will come."""
        return self._ended and not self._waiting

    def hold_all(self) -> None:
        """The run is to end: what it still has does not wait for who reads."""
        self._most = sys.maxsize

    def discard(self) -> None:
        """Nobody will read what is here and what is to come."""
        with self._changed:
            self._unwanted = True
            self._waiting.clear()


def _rows(result: Mapping[str, Any]) -> list[Result]:
    """One, or as many as the item has values."""
    if "values" not in result:
        return [Result(**result)]
    serial = result["serial"]
    return [Result(serial=serial, part=part, value=value) for part, value in enumerate(result["values"])]
