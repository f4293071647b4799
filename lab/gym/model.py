"""Define what is played: an app with the costs of its items, a machine, arrivals, and an objective.

Costs belong to items, not to the clock: every policy meets the same work at the same times. Nothing here knows how a
policy decides or how the product predicts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from compositions.model import Composition, Group, Pattern, Stage, StageKind

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Groups = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class StageModel:
    """One stage of an app."""

    name: str
    stateful: bool = False
    """True if the stage takes its items in order, one at a time, so that replicas add nothing."""
    servers: int | None = None
    """Maximum number of items in the stage at once, such as connections of a database or licences. None: no limit."""
    bandwidth: float = 0.0
    """The share of the machine's memory bandwidth that one worker takes while it computes this stage."""
    price: int = 0
    """Extra cost of a worker that can run the stage, for its memory or accelerator."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine on which workers run."""

    cores: int
    most_workers: int
    """Workers that may be alive at a time."""
    start_s: float = 1.0
    """Time from the request for a worker until it joins, in seconds; the worker costs from the request on."""
    hop_s: float = 0.0001
    """Time on the way to a worker and back, in seconds; the worker is idle in it."""
    hop_cpu_s: float = 0.0001
    """Computing time of each task in addition to its stages, in seconds."""
    speeds: tuple[float, ...] = (1.0,)
    """Speed factors of workers in the order of their start; after the last, the first follows."""
    taken: tuple[tuple[float, int], ...] = ()
    """Times (s) and the cores that other programs use from then on. No policy is informed."""
    deaths_s: tuple[float, ...] = ()
    """Times at which the oldest worker dies."""


@dataclass(frozen=True, slots=True)
class Work:
    """The items: when each is due, and each stage's time for it. Arrays have a row per item, a column per stage."""

    due_s: Floats
    """Times when the items are due, ascending, from the beginning of the run."""
    cpu_s: Floats
    """Seconds of one core at full speed."""
    wait_s: Floats
    """Seconds for which the worker waits for something else, after computing."""

    def __len__(self) -> int:
        return len(self.due_s)


@dataclass(frozen=True, slots=True)
class Announced:
    """A load that every policy knew in advance."""

    from_s: float
    until_s: float
    rate_per_s: float


@dataclass(frozen=True, slots=True)
class Play:
    """One app under one load on one machine: the test of a policy."""

    name: str
    """``app/load``."""
    stages: tuple[StageModel, ...]
    machine: Machine
    work: Work
    bound_s: float
    """An item is in time if it is delivered, in order, within this time after it was due."""
    share: float = 0.95
    """Share of the items of each window that have to be in time."""
    duration_s: float = 3600.0
    announced: tuple[Announced, ...] = field(default=())
    opening: tuple[int, ...] = ()
    """Replicas of the stages at the beginning, with each stage in its own group; empty: one of each."""

    @property
    def app_stages(self) -> tuple[Stage, ...]:
        kinds = (StageKind.STATEFUL if each.stateful else StageKind.STATELESS for each in self.stages)
        return tuple(Stage(each.name, kind, price=each.price) for each, kind in zip(self.stages, kinds, strict=True))

    @property
    def apart(self) -> Groups:
        """Return the grouping in which each stage has its own group."""
        return tuple((stage.name,) for stage in self.stages)

    @property
    def merged(self) -> Groups:
        """Return the grouping with the fewest groups that can have replicas: neighbours merged, stateful alone."""
        return merged_groups(
            [stage.name for stage in self.stages], [stage.name for stage in self.stages if stage.stateful]
        )


def merged_groups(stages: Sequence[str], stateful: Sequence[str]) -> Groups:
    """Merge neighbouring stages without state; each stage with state stays alone."""
    groups: list[list[str]] = []
    for stage in stages:
        if groups and stage not in stateful and groups[-1][-1] not in stateful:
            groups[-1].append(stage)
        else:
            groups.append([stage])
    return tuple(tuple(group) for group in groups)


def compose(groups: Groups, replicas: tuple[int, ...]) -> Composition:
    """Return the composition with these groups and replicas, named by both."""
    made = tuple(Group(stages, Pattern.PAR, count) for stages, count in zip(groups, replicas, strict=True))
    name = " ".join(f"{'+'.join(group.stages)}*{group.replicas}" for group in made)
    return Composition(name, made)


WINDOW_S = 300.0
"""Length of the windows in which the objective must hold, in seconds; in the first one, policies learn."""


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of the objective in a play, by the times when their items are due."""

    starts_s: tuple[float, ...]
    end_s: float
    of_item: Ints
    """Window of each item; −1: none."""
    items: Ints
    """Number of items in each window."""

    @property
    def judged_s(self) -> float:
        """Return the total length of the windows."""
        return self.end_s - self.starts_s[0]


def windows_of(play: Play) -> Windows:
    """Return the windows of a play; a play that is too short for two has one window, in its later half.

    Items that are due so late that they need not be delivered by the end belong to no window.
    """
    count = int(play.duration_s / WINDOW_S) - 1
    first_s, length_s = (WINDOW_S, WINDOW_S) if count > 0 else (play.duration_s / 2, play.duration_s / 2)
    starts_s = tuple(first_s + length_s * number for number in range(max(1, count)))
    end_s = starts_s[-1] + length_s
    due_s = play.work.due_s
    judged = (due_s >= first_s) & (due_s < min(end_s, play.duration_s - play.bound_s))
    of_item = np.where(judged, ((due_s - first_s) / length_s).astype(np.int64), -1)
    return Windows(starts_s, end_s, of_item, np.bincount(of_item[judged], minlength=len(starts_s)))
