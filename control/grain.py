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
    work_s = sum(stage.service_time_s for stage in stages)
    hops_s = hop_s * len(composition.groups)
    wanted = hops_s / (HOP_SHARE * work_s) if work_s > 0 else MOST_ITEMS
    if wanted < 2:
        return Grain(1, f"a hop of {figure(hop_s * 1e3, 2)} ms is cheap against {figure(work_s * 1e3, 2)} ms of work")
    patience_s = PATIENCE_S if latency_target_s is None else PATIENCE_SHARE * latency_target_s
    bearable = patience_s / work_s if work_s > 0 else MOST_ITEMS
    size = _power_of_two(min(wanted, bearable, MOST_ITEMS))
    limit = "" if wanted <= bearable else f", which wait {figure(patience_s * 1e3)} ms for each other at most"
    shows = f"a hop of {figure(hop_s * 1e3, 2)} ms shows beside {figure(work_s * 1e3, 2)} ms of work{limit}"
    return Grain(size, shows, pays=True)


def _power_of_two(number: float) -> int:
    """The largest that is not above ``number``, one at least."""
    return 1 << max(0, int(number).bit_length() - 1)
