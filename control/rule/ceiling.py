"""Tell when more workers bring nothing: a database of four connections, memory bandwidth, a licence.

Two rates are compared, both while items wait: that before workers were added, and that after. Where hardly more comes
out, the rate is a ceiling. It is believed for a while, then tried again, each time for longer if it still stands.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

_ENOUGH_S, _ENOUGH_ITEMS = 3.0, 20.0
"""Of a rate while items wait, before it counts."""
_IN_VAIN = 0.3
"""Part of what the added workers should have brought, below which they brought nothing."""
_BELIEVED_S, _LONGEST_S = 60.0, 1800.0


@dataclass(slots=True)
class _Level:
    """A stretch with the same workers in which items waited."""

    workers: int
    items: float = 0.0
    length_s: float = 0.0

    @property
    def known(self) -> bool:
        return self.length_s >= _ENOUGH_S and self.items >= _ENOUGH_ITEMS

    @property
    def per_s(self) -> float:
        return self.items / max(self.length_s, 1e-9)


class Ceiling:
    """Follows what comes out of a pipeline and the workers that are there."""

    def __init__(self) -> None:
        self._before: _Level | None = None
        self._level: _Level | None = None
        self._believed_s, self._until_s = _BELIEVED_S, -math.inf
        self._per_s = math.inf

    def look(self, at_s: float, elapsed_s: float, workers: int, finished: float, *, waiting: bool) -> None:
        """Note a turn. ``waiting``: items wait for workers."""
        if self._level is None or workers != self._level.workers:
            if self._level is not None and self._level.known:
                self._before = self._level
            self._level = _Level(workers)
        if not waiting:
            return
        level, before = self._level, self._before
        level.items += finished
        level.length_s += elapsed_s
        if not level.known or before is None or level.workers <= before.workers:
            return
        gained = math.log(max(level.per_s, 1e-9) / max(before.per_s, 1e-9)) / math.log(level.workers / before.workers)
        self._before = None
        if gained < _IN_VAIN:
            self._per_s = max(level.per_s, before.per_s)
            self._until_s = at_s + self._believed_s
            self._believed_s = min(_LONGEST_S, 2 * self._believed_s)
        else:
            self._believed_s, self._until_s = _BELIEVED_S, -math.inf

    def per_s(self, at_s: float) -> float:
        """Return the items a second beyond which workers bring nothing; infinite where none is known."""
        return self._per_s if at_s < self._until_s else math.inf
