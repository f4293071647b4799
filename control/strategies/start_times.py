"""Learn how long workers take to start, by what they load, and keep those that would have to load again."""

from collections import Counter, deque
from collections.abc import Iterable

from compositions.model import Loads
from compositions.wording import figure

GAIN = 0.3


class StartTimes:
    """Counts from the request for workers until all are there. Classes that were asked for together share a time."""

    def __init__(self) -> None:
        self._took_s: dict[Loads, float] = {}
        self._asked: list[tuple[float, int, tuple[Loads, ...]]] = []
        """Workers that were requested and are not there yet: when, how many there should be then, and classes."""
        self._needed: dict[Loads, deque[tuple[float, int]]] = {}
        """Recent numbers of needed workers, by class that loads something."""
        self._begun = False

    def begin(self, now_s: float, crew: Counter[Loads], alive: int) -> None:
        """Count the start of the app where its workers load something. Of others its first workers tell little: they
        wait for the machine as well."""
        if not self._begun and alive < crew.total() and any(crew):
            self._asked.append((now_s, crew.total(), tuple(crew)))
        self._begun = True

    def ask(self, now_s: float, wanted: Counter[Loads], present: Counter[Loads], alive: int) -> None:
        """Note that these workers were asked for, beside those of the ``present`` composition."""
        self._asked = [each for each in self._asked if each[1] < wanted.total()]
        if wanted.total() > alive:
            self._asked.append((now_s, wanted.total(), tuple(wanted - present) or tuple(wanted)))

    def note(self, now_s: float, alive: int) -> None:
        """Learn from those that are there now."""
        while self._asked and alive >= self._asked[0][1]:
            at_s, _, classes = self._asked.pop(0)
            for loads in classes:
                before_s = self._took_s.get(loads, now_s - at_s)
                self._took_s[loads] = (1 - GAIN) * before_s + GAIN * (now_s - at_s)

    def keeps(self, now_s: float, wanted: Counter[Loads], present: Counter[Loads]) -> str | None:
        """Note what is ``wanted``; return why it waits, in words, if it gives back a worker that was needed within the
        time that it takes to load another. So a worker is kept for as long as it costs no more than its load would: the
        rule of ski rental, which costs at most twice what the best would that knows the future (Karlin et al. 1988)."""
        why = None
        for loads in filter(None, {*wanted, *present}):
            kept_s = self._took_s.get(loads, 0.0)
            needed = self._needed.setdefault(loads, deque())
            needed.append((now_s, wanted[loads]))
            while needed[0][0] < now_s - kept_s:
                needed.popleft()
            most = min(present[loads], max(count for _, count in needed))
            if wanted.total() <= present.total() and wanted[loads] < most:
                why = f"workers that have loaded {', '.join(loads)} are kept, as it takes {figure(kept_s)} s"
        return why

    def slowest_s(self, classes: Iterable[Loads], otherwise_s: float) -> float:
        """Return the longest time that workers of any of these take; ``otherwise_s`` where none is known."""
        return max((self._took_s[each] for each in classes if each in self._took_s), default=otherwise_s)
