"""Learn the start times of workers by the stages that they load, and keep workers that would have to load again."""

from collections import Counter, deque
from collections.abc import Iterable

from compositions.model import Loads
from compositions.wording import figure

GAIN = 0.3


class StartTimes:
    """Measures the time from a request for workers until all run, by class of worker (the stages that it loads)."""

    def __init__(self) -> None:
        self._took_s: dict[Loads, float] = {}
        self._asked: list[tuple[float, int, tuple[Loads, ...]]] = []
        """Pending requests: time, total number of workers when they are fulfilled, and the requested classes."""
        self._needed: dict[Loads, deque[tuple[float, int]]] = {}
        """Recent numbers of needed workers with their times, by class that loads a stage."""
        self._begun = False

    def begin(self, now_s: float, crew: Counter[Loads], alive: int) -> None:
        """Measure the start of the app if its workers load a stage. Other apps' first workers are not measured: their
        start also depends on the start of the machine."""
        if not self._begun and alive < crew.total() and any(crew):
            self._asked.append((now_s, crew.total(), tuple(crew)))
        self._begun = True

    def ask(self, now_s: float, wanted: Counter[Loads], present: Counter[Loads], alive: int) -> None:
        """Record a request for the ``wanted`` workers, some of which the ``present`` composition has."""
        self._asked = [each for each in self._asked if each[1] < wanted.total()]
        if wanted.total() > alive:
            self._asked.append((now_s, wanted.total(), tuple(wanted - present) or tuple(wanted)))

    def note(self, now_s: float, alive: int) -> None:
        """Learn the times of the requests that are fulfilled now that ``alive`` workers run."""
        while self._asked and alive >= self._asked[0][1]:
            at_s, _, classes = self._asked.pop(0)
            for loads in classes:
                before_s = self._took_s.get(loads, now_s - at_s)
                self._took_s[loads] = (1 - GAIN) * before_s + GAIN * (now_s - at_s)

    def keeps(self, now_s: float, wanted: Counter[Loads], present: Counter[Loads]) -> str | None:
        """Record the ``wanted`` workers; return a reason to keep a worker that they do not need, else None. A worker is
        kept for as long as its load took, after it was needed last. This rule of the ski-rental problem costs at most
        twice the optimum with a known future (Karlin et al. 1988)."""
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
        """Return the longest known start time of these ``classes``, in seconds; ``otherwise_s`` if none is known."""
        return max((self._took_s[each] for each in classes if each in self._took_s), default=otherwise_s)
