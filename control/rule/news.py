"""Detect changes of the stream: recent stretches of several lengths are tested against all turns before them.

After Page, "Continuous inspection schemes", Biometrika 41, 1954: every recent stretch is tested, not only one.
"""

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
_LENGTHS = np.array([4, 8, 16, 32, 64, 128, 256])
"""Lengths of the recent stretches that are tested, in turns of the manager."""
_BLOCK = 64
"""Length of the blocks whose scatter shows slow movements, in turns."""
ERRORS = 5.0
"""Number of standard errors from which on a difference counts as a change: one false alarm in hours."""
_MOVING = 3.0
"""Ratio of the scatter between blocks to that between turns, beyond which the stream counts as always moving."""
_FADES = 0.002
"""Part by which the weight of a turn decreases with each further turn, so that scatter is averaged over minutes."""


class News:
    """Detects changes of rate and work."""

    def __init__(self) -> None:
        self.since = 0
        """Turn of the last change."""
        self._off2 = self._count = 1.0
        self._work_off2 = self._work_items = 1e-9
        self._blocks = 0
        self._block_off2, self._block_count = 0.0, 1e-9

    @property
    def dispersion(self) -> float:
        """Variance of counts between neighbouring turns, over their mean: 0 for a camera, 1 for independent users."""
        return max(0.02, self._off2 / self._count)

    @property
    def moving(self) -> bool:
        """True if the rate moved in the last minutes by more than its scatter between turns explains."""
        usual = _MOVING * max(0.05, self.dispersion)
        return self._blocks >= 4 and self._block_off2 / self._block_count > usual

    def look(self, turns: int, came: Array, worked: Array) -> None:
        """Test for a change. By turn, cumulative: ``came`` counts arrived items, ``worked`` finished items and work."""
        if turns < 3:
            return
        here, there = came[turns] - came[turns - 1], came[turns - 1] - came[turns - 2]
        self._off2 += (here - there) ** 2 / 2 - _FADES * self._off2
        self._count += (here + there) / 2 - _FADES * self._count
        if turns % _BLOCK == 0 and turns >= 2 * _BLOCK:
            late, early = came[turns] - came[turns - _BLOCK], came[turns - _BLOCK] - came[turns - 2 * _BLOCK]
            self._blocks += 1
            self._block_off2 += (late - early) ** 2 / 2 - _BLOCK * _FADES / 4 * self._block_off2
            self._block_count += (late + early) / 2 - _BLOCK * _FADES / 4 * self._block_count
        lengths = _LENGTHS[(turns - _LENGTHS) - self.since >= np.maximum(20, _LENGTHS // 2)]
        if not len(lengths):
            return
        begins = turns - lengths
        moved = _contrast(came, self.since, begins, turns, self.dispersion)
        off = np.maximum(moved, self._work(worked, begins, turns))
        worst = int(np.argmax(off))
        if off[worst] > ERRORS:
            self.since = int(begins[worst])

    def forget(self, turns: int) -> None:
        """Shift all turns after the oldest ``turns`` were dropped."""
        self.since = max(0, self.since - turns)

    def _work(self, worked: Array, begins: npt.NDArray[np.int64], now: int) -> Array:
        """Return the difference of the work per item before and after ``begins``, in standard errors. Means are taken
        as gamma-distributed, and their cube roots as normal (Wilson and Hilferty, PNAS 17, 1931)."""
        items, work = worked
        done = items[now] - items[now - 1]
        if done:
            mean = work[now] / max(items[now], 1.0)
            self._work_off2 += (work[now] - work[now - 1] - done * mean) ** 2 - _FADES * self._work_off2
            self._work_items += done - _FADES * self._work_items
        recent, before = items[now] - items[begins], items[begins] - items[self.since]
        ok = (recent >= 4) & (before >= 10)
        recent, before = np.maximum(recent, 1.0), np.maximum(before, 1.0)
        ratio = (work[now] - work[begins]) / recent * before / np.maximum(work[begins] - work[self.since], 1e-12)
        mean = work[now] / max(items[now], 1.0)
        cv2 = max(1e-4, self._work_off2 / self._work_items / max(mean, 1e-12) ** 2)
        shape = 1 / (cv2 * (1 / recent + 1 / before))
        off = 3 * np.sqrt(shape) * (np.cbrt(ratio) - (1 - 1 / (9 * shape)))
        told: Array = np.where(ok, np.abs(off), 0.0)
        return told


def _contrast(came: Array, since: int, begins: npt.NDArray[np.int64], now: int, dispersion: float) -> Array:
    """Return the difference of the rate before and after ``begins``, in standard errors. Square roots of counts are
    compared: their variance does not depend on the count (Anscombe, Biometrika 35, 1948)."""
    recent, past = came[now] - came[begins], came[begins] - came[since]
    share = (now - begins) / np.maximum(begins - since, 1)
    off = 2 * (np.sqrt(recent + 0.375) - np.sqrt(share * (past + 0.375)))
    error = np.sqrt(dispersion * (1 + share) + 0.25 / np.maximum(recent, 1.0))
    told: Array = np.abs(off) / error
    return told
