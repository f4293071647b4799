"""Stages, groups and compositions: frozen values that every other package speaks in."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from compositions.batching import Batching
from compositions.dynamic import Dyn
from compositions.resources import Amount, Resources


class StageKind(StrEnum):
    """The kinds of state that a stage may keep between items (Prasaad et al., section 2)."""

    STATELESS = "stateless"
    STATEFUL = "stateful"
    PARTITIONED = "partitioned"
    """A state for each key of its values; keys fall into partitions."""


class Pattern(StrEnum):
    """The arrangement of a group's workers."""

    SEQ = "seq"
    PAR = "par"


class TransitionKind(StrEnum):
    """The way one composition becomes another."""

    RESIZE = "resize"
    """In place: the groups stay, and have other numbers of replicas."""
    SWITCH = "switch"
    """The groups are others: the new ones take over, the old ones drain."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One function of an app; ``time_limit_s`` is the wall time after which a call counts as hung, for each item."""

    name: str
    kind: StageKind = StageKind.STATELESS
    time_limit_s: float | None = None
    batch: bool = False
    """It gets the values of a bundle together, with the states of their keys where it is partitioned."""
    columns: tuple[tuple[str, str], ...] = ()
    """Names and Arrow types: a batch stage with these gets a record batch of values that are dicts."""
    concurrency: int = 1
    """Calls that wait at a time in one worker, of a stage that is an ``async def``."""
    partitions: int = 64
    """Of a partitioned stage: no more workers than that can share its keys."""
    bounds: tuple[int | str, ...] = ()
    """Of range partitioning: the first key of each partition but the first, ascending. Empty: by hash."""
    price: float = 0.0
    """A worker that runs it costs so much more than another, for its memory or its accelerator."""
    ordered: bool = True
    """Results leave in the order of their items, and states see them in it. Who switches it off is told why."""
    cpus: float | None = None
    """CPUs that a worker reserves which runs it; None: none."""
    gpus: float = 0.0
    """Share of one GPU, up to 1, or a whole number of GPUs."""
    gpu_memory: int | str = 0
    """Memory of a GPU that it keeps, in bytes or as a text (``4GB``, ``25%``), reserved as a share of one GPU."""
    memory: int | str = 0
    """Memory that it keeps, in bytes or as a text: ``2GB``, ``512MiB``."""
    custom: Mapping[str, Amount] = field(default_factory=dict, hash=False)
    """Amounts of custom Ray resources (``{"decoder": 1}``), and labels that the node must have (``{"zone": "a"}``)."""
    setup: Literal["all", "per-group"] = "all"
    """The workers that set it up: all of the app, or only those of the group that runs it."""

    @property
    def keeps_state(self) -> bool:
        """Return whether it must see its items in order."""
        return self.kind is not StageKind.STATELESS


Loads = tuple[str, ...]
"""The class of a worker: names of the stages with ``setup="per-group"`` that it has set up."""


def loads_of(stages: Iterable[Stage]) -> Loads:
    """Return the class of the workers that run these stages."""
    return tuple(stage.name for stage in stages if stage.setup == "per-group")


Room = Mapping[Loads, int]
"""How many workers of a class the nodes could hold, by the names that the class has; classes that reserve nothing are
missing."""


def most_workers(loads: Loads, room: Room) -> int | None:
    """Return how many workers of a class the nodes could hold; None: as many as one likes."""
    known = [room[each] for each in ((loads,) if loads in room else ((name,) for name in loads)) if each in room]
    return min(known, default=None)


def held_by(stages: Iterable[Stage], loads: Loads) -> tuple[Stage, ...]:
    """Return the stages of an app that a worker of class ``loads`` has set up."""
    return tuple(stage for stage in stages if stage.setup == "all" or stage.name in loads)


def concurrencies(stages: Iterable[Stage]) -> dict[str, int]:
    """Calls that one worker has at a time, of the stages that wait with several."""
    return {stage.name: stage.concurrency for stage in stages if stage.concurrency > 1}


@dataclass(frozen=True, slots=True)
class Group:
    """Adjacent stages run by the same ``replicas`` workers."""

    stages: tuple[str, ...]
    pattern: Pattern = Pattern.SEQ
    replicas: int = 1


@dataclass(frozen=True, slots=True)
class Composition:
    """An arrangement of all stages of an app in groups. ``name`` is a label: equality of shape ignores it."""

    name: str
    groups: tuple[Group, ...]
    batch: Batching | None = None
    """How many items travel together while it is active; None: as is asked for the app. No part of its shape."""
    dyn: Dyn | None = None
    """Its workers choose the stage: a group each, with the most that may be at it; None: they are bound."""

    @property
    def workers(self) -> int:
        """Workers it needs: the sum of the replicas of its groups, unless its workers go from group to group."""
        return self.dyn.workers if self.dyn is not None else sum(group.replicas for group in self.groups)

    @property
    def shape(self) -> tuple[tuple[tuple[str, ...], int], ...]:
        """Return what makes two compositions the same: stages and replicas of every group, whatever the spelling."""
        groups = tuple((group.stages, group.replicas) for group in self.groups)
        if self.dyn is None:
            return groups
        said = (f"{name}={value}" for name, value in self.dyn.said.items())
        return (*groups, ((self.dyn.scheduler, *said), self.dyn.workers))

    @property
    def grouping(self) -> tuple[tuple[str, ...], ...]:
        """Return which stages run together: the shape without the numbers of replicas."""
        return tuple(group.stages for group in self.groups)

    def transition_to(self, other: "Composition") -> TransitionKind:
        """Return what it takes to go from this one to ``other``."""
        alike = self.grouping == other.grouping and self.dyn is None and other.dyn is None
        return TransitionKind.RESIZE if alike else TransitionKind.SWITCH

    def crew(self, stages: Sequence[Stage]) -> Counter[Loads]:
        """Return the number of workers of each class; workers that choose their group are all of one."""
        if self.dyn is not None:
            return Counter({loads_of(stages): self.dyn.workers})
        by_name = {stage.name: stage for stage in stages}
        found = Counter[Loads]()
        for group in self.groups:
            found[loads_of(by_name[name] for name in group.stages)] += group.replicas
        return found

    @property
    def stages(self) -> tuple[str, ...]:
        """All stage names, in the app's order."""
        return tuple(self.iter_stages())

    def iter_stages(self) -> Iterator[str]:
        for group in self.groups:
            yield from group.stages

    def group_of(self, stage: str) -> Group:
        """The group that runs ``stage``. Raises: KeyError when no group does."""
        for group in self.groups:
            if stage in group.stages:
                return group
        raise KeyError(stage)


def all_sequential(stages: Sequence[Stage], name: str = "sequential") -> Composition:
    """One sequential group per stage: the most accurate one to profile (Vogel et al., section 3.2, step 1)."""
    return Composition(name, tuple(Group((stage.name,)) for stage in stages))


@dataclass(frozen=True, slots=True)
class Document:
    """A compositions file: listed ones in file order, then generated ones whose shape is not among them."""

    app: str
    compositions: tuple[Composition, ...] = ()
    resources: Resources = field(default_factory=dict, hash=False)
    """By stage, in place of those that it asks for itself."""

    def resources_of(self, stages: Iterable[Stage]) -> Resources:
        """Return those of stages that are there: options of an app may change which are."""
        return {stage.name: self.resources[stage.name] for stage in stages if stage.name in self.resources}
