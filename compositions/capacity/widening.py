"""Ever more replicas where they are needed most: what lies beyond a list of compositions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import replace

from compositions.capacity.costs import StageCost, occupied_s
from compositions.model import Composition, Group, Pattern


def widened(
    composition: Composition, costs: Mapping[str, StageCost], hop_s: float, stateful: Set[str] = frozenset()
) -> Iterator[Composition]:
    """``composition``, then with twice the replicas of its weakest group, and so on; ends only where that group holds a
    ``stateful`` stage, of which there is one. ``costs`` of tasks. Raises: KeyError when a stage has no cost."""
    taken_s = [hop_s + occupied_s([costs[stage] for stage in group.stages]) for group in composition.groups]
    while True:
        yield composition
        if composition.dyn is not None:  # what it has is shared: no group of it is too narrow by itself
            return
        at = max(range(len(taken_s)), key=lambda index: taken_s[index] / composition.groups[index].replicas)
        if not stateful.isdisjoint(composition.groups[at].stages):
            return
        composition = _doubled(composition, at)


def _doubled(composition: Composition, at: int) -> Composition:
    group = composition.groups[at]
    more = Group(group.stages, Pattern.PAR, 2 * group.replicas)
    return replace(composition, groups=(*composition.groups[:at], more, *composition.groups[at + 1 :]))
