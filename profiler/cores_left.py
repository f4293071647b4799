"""How many cores an app gets where other programs take some: told by the timings of its own stages, no clock of the
machine is asked.

Work that computes takes as long as its CPU time while it has a core, and longer while several share one. Where all of
it takes longer at once for the same CPU time, and the cores that the app may use are not busy with it, somebody else
has them. An operating system that divides them fairly gives more to who has more workers, so they are only short for
the app when more workers have brought no more: what it gets then is the CPU time that it was given. Stages that wait
tell nothing of cores.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import hypot, inf, sqrt

import numpy as np

from profiler.stats import Floats, Samples

_LOOKED_S = 2.0
"""What is measured is that of so long: some ten items of a slow app."""
_TELLING = 4
"""Timings of a stage from which on it tells something."""
_COMPUTES = 1.1
"""Wall time over CPU time up to which a stage computes and does not wait."""
_ALONE, _CROWDED = 1.1, 1.3
"""The same of all stages that compute: below the first the cores suffice, and from the second on they do not. Between
them it is as it was."""
_WITNESSES = 2
"""So many stages have to say so: one that takes longer by itself may have begun to wait for something."""
_AS_THEN = 0.75
"""Share of what it got then below which something else is the matter by now, and what was seen then tells nothing."""
_OWN_DOING = 0.8
"""Share of the cores from which on they are busy with the app's own work."""
_IN_VAIN = 0.25
"""Share of what each worker had, up to which a further one has brought nothing."""
_SURELY = 3.0
"""Standard errors by which work takes longer for it: what waits for a disk or another's answer, with each worker as
before, does so by chance only."""
_IN_SIGHT = 1
"""Cores beyond what the app gets: with as many workers as cores nothing would tell that there are more again."""
_BELIEVED_S = 10.0
"""For so long where no timings come."""
_KEPT = 64
"""Times in which cores were short."""


@dataclass(frozen=True, slots=True)
class _Recent:
    """What a stage took of late, seconds."""

    rows: int
    wall_s: float
    cpu_s: float
    off_s2: float
    """Sum of squares of what its wall times are off those that its stretch would give."""

    @property
    def stretch(self) -> float:
        """Wall time over CPU time."""
        return self.wall_s / self.cpu_s if self.cpu_s > 0 else inf


@dataclass(frozen=True, slots=True)
class _Use:
    """Of the cores, at a time, on average over the seconds before."""

    at_s: float
    busy: float
    """Calls at a time."""
    got: float
    """Cores' worth of CPU time."""
    stretch: float
    """Of the stages that compute."""
    error: float
    """Its standard error."""

    def in_vain(self, since: _Use) -> bool:
        """More work at a time than at ``since`` has brought no more, and takes the longer for it."""
        more = self.busy - since.busy
        longer = self.stretch - since.stretch > _SURELY * hypot(self.error, since.error)
        return more >= 1 and longer and self.got - since.got <= _IN_VAIN * more * since.got / since.busy


class CoresLeft:
    """Remembers which stages compute, and when the cores were short."""

    def __init__(self) -> None:
        self._computing: set[str] = set()
        self._crowded: _Use | None = None
        """With the least work at a time since it takes longer."""
        self._got = 0.0
        """The most cores that the app got since they are short; 0 while they are not."""
        self._told_s = -inf
        """When timings last said so."""
        self._short: deque[tuple[float, float]] = deque(maxlen=_KEPT)
        """From when to when they were."""

    def look(self, now_s: float, samples: Mapping[str, Samples], cores: int, *, waiting: bool) -> int | None:
        """Cores that there seem to be for an app which may use ``cores``; ``None``: all of them.

        ``samples``: of each stage, wall (``x``) and CPU (``y``) seconds an item; ``waiting``: items do, so that what
        the app gets is not what it asks for."""
        recent = {stage: _recent(kept, now_s) for stage, kept in samples.items()}
        known = {stage: each for stage, each in recent.items() if each.rows >= _TELLING}
        self._computing.update(stage for stage, each in known.items() if each.stretch <= _COMPUTES)
        witnesses = [each for stage, each in known.items() if stage in self._computing]
        if len(witnesses) >= _WITNESSES:
            busy, got = (sum(getattr(each, of) for each in recent.values()) / _LOOKED_S for of in ("wall_s", "cpu_s"))
            self._judge(_use(now_s, busy, got, witnesses), witnesses, cores, waiting=waiting)
        elif self._got and now_s - self._told_s > _BELIEVED_S:
            self._end(now_s)
        return min(cores, round(self._got) + _IN_SIGHT) if self._got else None

    def undisturbed(self, stage: str, at_s: Floats, wall_s: Floats, cpu_s: Floats) -> Floats:
        """``wall_s`` of timings of ``stage`` as they would have been without others: what was computed while the cores
        were short took its CPU time."""
        if stage not in self._computing:
            return wall_s
        for from_s, until_s in self._short:
            wall_s = np.where((at_s >= from_s) & (at_s <= until_s), cpu_s, wall_s)
        return wall_s

    def _judge(self, now: _Use, witnesses: Sequence[_Recent], cores: int, *, waiting: bool) -> None:
        if now.stretch < _ALONE or now.got >= _OWN_DOING * cores:
            self._crowded = None
            if self._got:
                self._end(now.at_s)
            return
        if waiting and now.stretch >= _CROWDED and min(each.stretch for each in witnesses) > _ALONE:
            then = self._crowded or now
            if now.busy < then.busy or now.got < _AS_THEN * then.got:
                then = now
            self._crowded = then
            if not self._got and now.in_vain(then) and round(now.got) + _IN_SIGHT < cores:
                self._short.append((then.at_s - _LOOKED_S, inf))
                self._got = now.got
        if self._got:
            self._got, self._told_s = max(self._got, now.got), now.at_s

    def _end(self, now_s: float) -> None:
        self._short[-1] = (self._short[-1][0], now_s)
        self._got = 0.0


def _use(now_s: float, busy: float, got: float, witnesses: Sequence[_Recent]) -> _Use:
    wall_s, cpu_s, off_s2 = (sum(getattr(each, of) for each in witnesses) for of in ("wall_s", "cpu_s", "off_s2"))
    return _Use(now_s, busy, got, wall_s / cpu_s, sqrt(off_s2) / cpu_s)


def _recent(samples: Samples, now_s: float) -> _Recent:
    start = samples.first_at_or_after(now_s - _LOOKED_S)
    wall_s, cpu_s, weights = samples.xs(start), samples.ys(start), samples.weights(start)
    items = np.ones_like(wall_s) if weights is None else weights
    wall, cpu = float((items * wall_s).sum()), float((items * cpu_s).sum())
    off_s = wall_s - (wall / cpu if cpu > 0 else 0.0) * cpu_s
    return _Recent(len(wall_s), wall, cpu, float((items * items * off_s * off_s).sum()))
