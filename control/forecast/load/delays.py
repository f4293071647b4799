"""What a change takes here, as measured: from when it is asked for until the next one may be."""

from __future__ import annotations

from collections import deque
from math import ceil

QUICK_S = 0.5
"""What a resize with warm workers takes at least: it is asked for at one turn, there at the next, and what is decided
then is there another turn later."""
_LONGEST_S = 5.0
"""A forecast beyond that helps nobody: what takes so long was held up by something else."""
_REMEMBERED = 16
_SHARE = 0.8
"""Of the changes of late that are to be in time."""


class Delays:
    """Of one app on its machine: on one that is busy with other things each step takes longer."""

    def __init__(self, start_s: float) -> None:
        """``start_s``: what it takes to start a worker, at least."""
        self._start_s = start_s
        self._left: tuple[float, bool] | None = None
        self._took_s: dict[bool, deque[float]] = {cold: deque(maxlen=_REMEMBERED) for cold in (False, True)}

    def left(self, now_s: float, *, cold: bool) -> None:
        """A change was asked for; ``cold``: it needs workers that have to be started."""
        self._left = now_s, cold

    def arrived(self, now_s: float, *, in_place: bool) -> None:
        """It is there. One that was not made ``in_place`` tells of its drain."""
        if self._left is not None and in_place:
            asked_s, cold = self._left
            self._took_s[cold].append(now_s - asked_s)
        self._left = None

    @property
    def quick_s(self) -> float:
        """Until what is decided at the next opportunity is there, where workers are warm: twice what one change takes,
        this one and the next."""
        return min(_LONGEST_S, max(QUICK_S, 2 * self._mostly(cold=False)))

    @property
    def start_s(self) -> float:
        """What workers that are not warm take beyond that."""
        return min(_LONGEST_S, max(self._start_s, self._mostly(cold=True) - self._mostly(cold=False)))

    def _mostly(self, *, cold: bool) -> float:
        took_s = sorted(self._took_s[cold])
        return took_s[ceil(_SHARE * len(took_s)) - 1] if took_s else 0.0
