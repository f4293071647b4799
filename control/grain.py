"""How many items are to travel together where nobody has said: as few as make the hop cheap against the work.

A bundle of ``n`` items costs a hop a group, whatever ``n`` is, and its items wait for each other in every group. So it
grows while the hop shows, and no further than the objective has patience for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compositions.model import Composition
from compositions.wording import figure
from profiler.snapshot import StageProfile

HOP_SHARE = 0.1
"""Of the work of a bundle, what its hops may cost beside it."""
PATIENCE_SHARE = 0.25
"""Of the latency that is wanted, what the items of a bundle may wait for each other."""
PATIENCE_S = 0.01
"""The same where no latency is wanted."""
MOST_ITEMS = 4096
"""The hop of so many trivial items is 0.05 µs each; more only lengthen the wait."""
_PAYS_FROM = 2


@dataclass(frozen=True, slots=True)
class Grain:
    """So many items, and why."""

    items: int
    reason: str
    pays: bool = False
    """The hop shows beside the work, whatever the objective bears."""


SINGLE = Grain(1, "nothing is measured yet")


def grain_of(
    stages: Sequence[StageProfile], composition: Composition, hop_s: float, latency_target_s: float | None
) -> Grain:
    """The size for a stream whose ``stages`` are profiled; a power of two, so that it rests while times
    change a little.

    ``hop_s``: from a task's sending to its return, less its work. ``latency_target_s`` None: no latency is wanted.
    """
    if len(stages) < sum(1 for _ in composition.iter_stages()):
        return SINGLE
    work_s, patience_s = _work_s(stages), _patience_s(latency_target_s)
    wanted, bearable = _wanted(work_s, hop_s * len(composition.groups)), _bearable(work_s, patience_s)
    if wanted < _PAYS_FROM:
        return Grain(1, f"a hop of {figure(hop_s * 1e3, 2)} ms is cheap against {figure(work_s * 1e3, 2)} ms of work")
    limit = "" if wanted <= bearable else f", which wait {figure(patience_s * 1e3)} ms for each other at most"
    shows = f"a hop of {figure(hop_s * 1e3, 2)} ms shows beside {figure(work_s * 1e3, 2)} ms of work{limit}"
    return Grain(_size(wanted, bearable), shows, pays=True)


def sizes_by_groups(
    stages: Sequence[StageProfile], hop_s: float, latency_target_s: float | None, most_groups: int
) -> list[int]:
    """What ``grain_of`` says for compositions of 0, 1, … ``most_groups`` groups of all these ``stages``."""
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
    """The largest that is not above ``number``, one at least."""
    return 1 << max(0, int(number).bit_length() - 1)
