"""Tell whether the stream has changed: a test of the last seconds against all before, at several lengths.

After Page, "Continuous inspection schemes", Biometrika 41, 1954: what is tested is every recent stretch, not only one.
"""

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
_LENGTHS = np.array([4, 8, 16, 32, 64, 128, 256])
"""Turns that are compared with those before."""
_BLOCK = 64
"""Turns of the blocks whose scatter tells of slower movements."""
ERRORS = 5.0
"""Rate or work has changed if it differs by this many standard errors: one false alarm in hours."""
_MOVING = 3.0
"""Ratio of the scatter of longer stretches to that of turns, beyond which a stream moves all the time."""
_FADES = 0.002
"""Part by which a turn's weight fades with each further turn: scatter is that of some minutes."""


class News:
    """Counts scatter by an index of dispersion that is measured between neighbouring turns: 0 of a camera, 1 of
    independent users, more of bursts."""

    def __init__(self) -> None:
        self.since = 0
        """Turn of the last change."""
        self._off2 = self._count = 1.0
        self._work_off2 = self._work_items = 1e-9
        self._blocks = 0
        self._block_off2, self._block_count = 0.0, 1e-9

    @property
    def dispersion(self) -> float:
        """Return the variance of counts over their mean, as between neighbouring turns."""
        return max(0.02, self._off2 / self._count)

    @property
    def moving(self) -> bool:
        """Return whether the rate moved in the last minutes by more than its scatter from turn to turn explains: such
        a stream will move again, whatever the last seconds show."""
        usual = _MOVING * max(0.05, self.dispersion)
        return self._blocks >= 4 and self._block_off2 / self._block_count > usual

    def look(self, turns: int, came: Array, worked: Array) -> None:
        """Look at all up to now: ``came`` counts items up to each turn, ``worked`` finished ones and their work."""
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
        off = np.maximum(
            _contrast(came, self.since, begins, turns, self.dispersion),
            self._work(worked, begins, turns),
        )
        worst = int(np.argmax(off))
        if off[worst] > ERRORS:
            self.since = int(begins[worst])

    def forget(self, turns: int) -> None:
        """The oldest turns are gone."""
        self.since = max(0, self.since - turns)

    def _work(self, worked: Array, begins: npt.NDArray[np.int64], now: int) -> Array:
        """Return the contrast of the work of an item, in standard errors: its means are taken as gamma, and their cube
        roots as normal (Wilson and Hilferty, PNAS 17, 1931)."""
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
    """Return by how many standard errors the rate differs between before and after ``begins``; of the square roots of
    counts, which scatter alike whatever the count (Anscombe, Biometrika 35, 1948)."""
    recent, past = came[now] - came[begins], came[begins] - came[since]
    share = (now - begins) / np.maximum(begins - since, 1)
    off = 2 * (np.sqrt(recent + 0.375) - np.sqrt(share * (past + 0.375)))
    error = np.sqrt(dispersion * (1 + share) + 0.25 / np.maximum(recent, 1.0))
    told: Array = np.abs(off) / error
    return told
