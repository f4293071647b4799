"""Choose the default bundle size, the smallest that makes the hop cheap compared with the work, and log its changes.

A bundle of ``n`` items costs one hop per group, whatever ``n`` is, and its items wait for each other in every group. So
the size grows until the hop is cheap, but no further than the latency target allows.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from compositions.model import Composition
from compositions.wording import figure
from profiler.snapshot import StageProfile


@dataclass(slots=True)
class SizeRun:
    """Consecutive changes of the size by one controller, each soon after the one before. ``reason``: the last one's."""

    controller: str
    from_items: int
    to_items: int
    reason: str
    first_at_s: float
    last_at_s: float
    least: int
    most: int
    count: int = 1


class SizeRuns:
    """A bounded log of size changes; changes in quick succession share an entry of at most a minute."""

    KEPT = 1000
    QUIET_S = 10.0
    """If the size did not change for this long, its next change begins a new entry."""
    LONGEST_S = 60.0

    def __init__(self) -> None:
        self.kept: deque[SizeRun] = deque(maxlen=self.KEPT)
        self._used: dict[int, None] = {}
        self._now: tuple[str, int] | None = None

    @property
    def used(self) -> list[int]:
        """All sizes so far, in the order of their first use."""
        return list(self._used)

    def note(self, at_s: float, controller: str, items: int, reason: str) -> None:
        """Record the size and the controller from now on; ignored if neither changed."""
        before, self._now = self._now, (controller, items)
        self._used[items] = None
        if before is None or before == self._now:
            return
        last = self.kept[-1] if self.kept else None
        if last is None or not self._goes_on(last, at_s, controller):
            least, most = sorted((before[1], items))
            self.kept.append(SizeRun(controller, before[1], items, reason, at_s, at_s, least, most))
            return
        last.to_items, last.reason, last.last_at_s = items, reason, at_s
        last.least, last.most = min(last.least, items), max(last.most, items)
        last.count += 1

    def _goes_on(self, run: SizeRun, at_s: float, controller: str) -> bool:
        soon = at_s - run.last_at_s < self.QUIET_S and at_s - run.first_at_s < self.LONGEST_S
        return soon and controller == run.controller


HOP_SHARE = 0.1
"""Largest cost of the hops of a bundle, as a share of its work."""
PATIENCE_SHARE = 0.25
"""Longest time that the items of a bundle may wait for each other, as a share of the latency objective."""
PATIENCE_S = 0.01
"""Longest such wait if there is no latency objective, in seconds."""
MOST_ITEMS = 4096
"""Largest size: a hop then costs 0.05 µs per item, so larger bundles would only lengthen the wait."""
_PAYS_FROM = 2


@dataclass(frozen=True, slots=True)
class Grain:
    """A bundle size in items, and its reason."""

    items: int
    reason: str
    pays: bool = False
    """True if the hop costs much compared with the work, whether or not the objective allows larger bundles."""
    weight: int = 1
    """Largest size of a bundle in bytes, as a multiple of the usual limit."""


SINGLE = Grain(1, "no stage was measured yet")


def grain_of(
    stages: Sequence[StageProfile], composition: Composition, hop_s: float, latency_target_s: float | None
) -> Grain:
    """Return the default size for the profiled ``stages``: a power of two, so that small changes of times do not
    change the size.

    ``hop_s``: time from sending a task to its return, less its work. ``latency_target_s``: None without a latency goal.
    """
    if len(stages) < sum(1 for _ in composition.iter_stages()):
        return SINGLE
    work_s, patience_s = _work_s(stages), _patience_s(latency_target_s)
    wanted, bearable = _wanted(work_s, hop_s * len(composition.groups)), _bearable(work_s, patience_s)
    if wanted < _PAYS_FROM:
        return Grain(1, f"a hop takes {figure(hop_s * 1e3, 2)} ms, little against {figure(work_s * 1e3, 2)} ms of work")
    limit = "" if wanted <= bearable else f"; items wait at most {figure(patience_s * 1e3)} ms for a bundle to fill"
    shows = f"a hop takes {figure(hop_s * 1e3, 2)} ms, much against {figure(work_s * 1e3, 2)} ms of work{limit}"
    return Grain(_size(wanted, bearable), shows, pays=True)


def sizes_by_groups(
    stages: Sequence[StageProfile], hop_s: float, latency_target_s: float | None, most_groups: int
) -> list[int]:
    """Return the size that ``grain_of`` chooses for all these ``stages`` in 0, 1, … ``most_groups`` groups."""
    work_s = _work_s(stages)
    bearable = _bearable(work_s, _patience_s(latency_target_s))
    return [_size(_wanted(work_s, hop_s * groups), bearable) for groups in range(most_groups + 1)]


def _work_s(stages: Sequence[StageProfile]) -> float:
    return sum(stage.service_time_s for stage in stages)


def _patience_s(latency_target_s: float | None) -> float:
    return PATIENCE_S if latency_target_s is None else PATIENCE_SHARE * latency_target_s


def _wanted(work_s: float, hops_s: float) -> float:
    return hops_s / (HOP_SHARE * work_s) if work_s > 0 else MOST_ITEMS


def _bearable(work_s: float, patience_s: float) -> float:
    return patience_s / work_s if work_s > 0 else MOST_ITEMS


def _size(wanted: float, bearable: float) -> int:
    return 1 if wanted < _PAYS_FROM else _power_of_two(min(wanted, bearable, MOST_ITEMS))


def _power_of_two(number: float) -> int:
    """Return the largest power of two that is not above ``number``, but at least 1."""
    return 1 << max(0, int(number).bit_length() - 1)
