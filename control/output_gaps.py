"""Gaps between outputs: around a switch, and in steady state beside it, so that the two can be compared."""

from __future__ import annotations

from collections import deque

import numpy as np

from control.journal import SwitchRecord


class OutputGaps:
    """A gap counts to the switch from its request until the new composition's first result is out."""

    KEPT = 4096

    def __init__(self) -> None:
        self._steady: deque[float] = deque(maxlen=self.KEPT)
        self._switch: SwitchRecord | None = None
        self._last: tuple[float, str] | None = None

    def reset(self) -> None:
        """Forgets the steady gaps so far."""
        self._steady.clear()

    def switch_begins(self, record: SwitchRecord) -> None:
        self._switch = record

    def switch_ended(self) -> None:
        """The record says how; a failed switch brings no first result to wait for."""
        switch = self._switch
        if switch is not None and switch.ended is not None:
            self._close(over=switch.ended.error is not None)

    def delivered(self, at_s: float, composition: str) -> None:
        last, self._last = self._last, (at_s, composition)
        if last is None:
            return
        gap_s, changed = at_s - last[0], composition != last[1]
        if self._switch is None:
            self._steady.append(gap_s)
            return
        self._switch.longest_gap_s = max(self._switch.longest_gap_s or 0.0, gap_s)
        if changed:
            self._switch.gap_s = gap_s
        self._close(over=self._switch.ended is not None)

    def steady_s(self, percentile: float) -> float | None:
        """A percentile of the steady gaps, seconds; None before the first."""
        return float(np.percentile(list(self._steady), percentile)) if self._steady else None

    def _close(self, over: bool) -> None:
        if self._switch is not None and over and (self._switch.gap_s is not None or self._failed(self._switch)):
            self._switch = None

    @staticmethod
    def _failed(switch: SwitchRecord) -> bool:
        return switch.ended is not None and switch.ended.error is not None
