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
    """It sees its items in order, one at a time: replicas add nothing."""
    servers: int | None = None
    """Items that may be in it at once: connections of a database, licences, accelerators. None: no limit."""
    bandwidth: float = 0.0
    """The share of the machine's memory bandwidth that one worker takes while it computes this stage."""
    price: int = 0
    """A worker that is to run it costs so much more than one, for its memory or accelerator."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine on which workers run."""

    cores: int
    most_workers: int
    """Workers that may be alive at a time."""
    start_s: float = 1.0
    """Time from the request for a worker until it joins; it costs from the request on."""
    hop_s: float = 0.0001
    """Way to a worker and back, during which it has nothing to do."""
    hop_cpu_s: float = 0.0001
    """Computing time of each task besides its stages."""
    speeds: tuple[float, ...] = (1.0,)
    """Speed factors of workers, in the order of their start, again and again."""
    taken: tuple[tuple[float, int], ...] = ()
    """Times (s) and the cores that other programs use from then on. No policy is informed."""
    deaths_s: tuple[float, ...] = ()
    """Times at which the oldest worker dies."""


@dataclass(frozen=True, slots=True)
class Work:
    """The items: when each is due, and what each stage takes for it. Arrays have a row an item, a column a stage."""

    due_s: Floats
    """Rising, from the beginning of the run."""
    cpu_s: Floats
    """Seconds of one core at full speed."""
    wait_s: Floats
    """Seconds in which the worker waits for something else, after computing."""

    def __len__(self) -> int:
        return len(self.due_s)


@dataclass(frozen=True, slots=True)
class Announced:
    """A load that was announced to every policy before it came."""

    from_s: float
    until_s: float
    rate_per_s: float


@dataclass(frozen=True, slots=True)
class Play:
    """One app under one load on one machine: what a policy is put to."""

    name: str
    """``app/load``."""
    stages: tuple[StageModel, ...]
    machine: Machine
    work: Work
    bound_s: float
    """An item is in time if it is delivered, in order, within so long after it was due."""
    share: float = 0.95
    """Share of the items of each window that have to be in time."""
    duration_s: float = 3600.0
    announced: tuple[Announced, ...] = field(default=())
    opening: tuple[int, ...] = ()
    """Replicas of the stages at the beginning, each stage a group of its own; empty: one of each."""

    @property
    def app_stages(self) -> tuple[Stage, ...]:
        kinds = (StageKind.STATEFUL if each.stateful else StageKind.STATELESS for each in self.stages)
        return tuple(Stage(each.name, kind, price=each.price) for each, kind in zip(self.stages, kinds, strict=True))

    @property
    def apart(self) -> Groups:
        """Each stage is a group of its own."""
        return tuple((stage.name,) for stage in self.stages)

    @property
    def merged(self) -> Groups:
        """As few groups as can have replicas: neighbours together, a stage with state by itself."""
        return merged_groups(
            [stage.name for stage in self.stages], [stage.name for stage in self.stages if stage.stateful]
        )


def merged_groups(stages: Sequence[str], stateful: Sequence[str]) -> Groups:
    """Return neighbours without state together, and each stage with state alone."""
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
"""The objective is asked for in each stretch of so long; the first is for everybody to get to know the app."""


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of the objective in a play: by when their items are due."""

    starts_s: tuple[float, ...]
    end_s: float
    of_item: Ints
    """Which one an item belongs to; −1: none."""
    items: Ints
    """The number of each window's items."""

    @property
    def judged_s(self) -> float:
        """The length of all of them together."""
        return self.end_s - self.starts_s[0]


def windows_of(play: Play) -> Windows:
    """Return the windows of a play; one that is too short for two has one, in its later half.

    What is due so late that it need not be out at the end belongs to none.
    """
    count = int(play.duration_s / WINDOW_S) - 1
    first_s, length_s = (WINDOW_S, WINDOW_S) if count > 0 else (play.duration_s / 2, play.duration_s / 2)
    starts_s = tuple(first_s + length_s * number for number in range(max(1, count)))
    end_s = starts_s[-1] + length_s
    due_s = play.work.due_s
    judged = (due_s >= first_s) & (due_s < min(end_s, play.duration_s - play.bound_s))
    of_item = np.where(judged, ((due_s - first_s) / length_s).astype(np.int64), -1)
    return Windows(starts_s, end_s, of_item, np.bincount(of_item[judged], minlength=len(starts_s)))
