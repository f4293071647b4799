"""Stages, groups and compositions: frozen values that every other package uses."""

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
    """One state per key of its values; keys are divided into partitions."""


class Pattern(StrEnum):
    """The arrangement of a group's workers."""

    SEQ = "seq"
    PAR = "par"


class TransitionKind(StrEnum):
    """The kind of a change from one composition to another."""

    RESIZE = "resize"
    """A change in place: the groups stay, and their numbers of replicas change."""
    SWITCH = "switch"
    """A change of the groups: new groups take over, and the old ones drain."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One function of an app; ``time_limit_s`` is the wall time per item after which a call counts as hung."""

    name: str
    kind: StageKind = StageKind.STATELESS
    time_limit_s: float | None = None
    batch: bool = False
    """True if a call gets all values of a bundle; a partitioned stage also gets the states of their keys."""
    columns: tuple[tuple[str, str], ...] = ()
    """Names and Arrow types of columns: the batch stage gets its values, which are dicts, as a record batch."""
    concurrency: int = 1
    """Number of concurrent calls per worker, for a stage that is an ``async def``."""
    partitions: int = 64
    """Number of partitions of a partitioned stage, and so the most workers that can share its keys."""
    bounds: tuple[int | str, ...] = ()
    """For range partitioning: the first key of each partition except the first, ascending. Empty: by hash."""
    price: float = 0.0
    """Additional cost of a worker that runs it, in workers, for its memory or its accelerator."""
    ordered: bool = True
    """Must be True: results leave in the order of their items, and states see items in this order."""
    cpus: float | None = None
    """CPUs that a worker with this stage reserves; None: none."""
    gpus: float = 0.0
    """GPUs that a worker reserves: a share of one GPU, up to 1, or a whole number."""
    gpu_memory: int | str = 0
    """GPU memory that the stage needs, in bytes or as a text (``4GB``, ``25%``), reserved as a share of one GPU."""
    memory: int | str = 0
    """Memory that the stage needs, in bytes or as a text: ``2GB``, ``512MiB``."""
    custom: Mapping[str, Amount] = field(default_factory=dict, hash=False)
    """Amounts of custom Ray resources (``{"decoder": 1}``), and labels that the node must have (``{"zone": "a"}``)."""
    setup: Literal["all", "per-group"] = "all"
    """Workers that set it up: all workers of the app, or only those of the group that runs it."""

    @property
    def keeps_state(self) -> bool:
        """True if the stage has a state, so that it must see its items in order."""
        return self.kind is not StageKind.STATELESS


Loads = tuple[str, ...]
"""The class of a worker: names of the stages with ``setup="per-group"`` that it has set up."""


def loads_of(stages: Iterable[Stage]) -> Loads:
    """Return the class of the workers that run these stages."""
    return tuple(stage.name for stage in stages if stage.setup == "per-group")


Room = Mapping[Loads, int]
"""Number of workers that fit on the nodes, by class; classes that reserve no resources are missing."""


def most_workers(loads: Loads, room: Room) -> int | None:
    """Return the number of workers of a class that fit on the nodes; None: unlimited."""
    known = [room[each] for each in ((loads,) if loads in room else ((name,) for name in loads)) if each in room]
    return min(known, default=None)


def held_by(stages: Iterable[Stage], loads: Loads) -> tuple[Stage, ...]:
    """Return the stages of an app that a worker of class ``loads`` has set up."""
    return tuple(stage for stage in stages if stage.setup == "all" or stage.name in loads)


def concurrencies(stages: Iterable[Stage]) -> dict[str, int]:
    """Return the concurrent calls per worker, by stage, for stages with more than one."""
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
    """Bundle size while it is active; None: the app's setting. Not part of the shape."""
    dyn: Dyn | None = None
    """Settings if its workers choose their stage; each group is then one stage with its most workers. None: fixed."""

    @property
    def workers(self) -> int:
        """Number of workers: the sum of the groups' replicas, or the shared pool if workers choose their stage."""
        return self.dyn.workers if self.dyn is not None else sum(group.replicas for group in self.groups)

    @property
    def shape(self) -> tuple[tuple[tuple[str, ...], int], ...]:
        """The identity of a composition, apart from its name: stages and replicas of every group."""
        groups = tuple((group.stages, group.replicas) for group in self.groups)
        if self.dyn is None:
            return groups
        said = (f"{name}={value}" for name, value in self.dyn.said.items())
        return (*groups, ((self.dyn.scheduler, *said), self.dyn.workers))

    @property
    def grouping(self) -> tuple[tuple[str, ...], ...]:
        """The stages of every group: the shape without the numbers of replicas."""
        return tuple(group.stages for group in self.groups)

    def transition_to(self, other: "Composition") -> TransitionKind:
        """Return the kind of the change from this composition to ``other``."""
        alike = self.grouping == other.grouping and self.dyn is None and other.dyn is None
        return TransitionKind.RESIZE if alike else TransitionKind.SWITCH

    def crew(self, stages: Sequence[Stage]) -> Counter[Loads]:
        """Return the number of workers of each class; workers that choose their stage are all of one class."""
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
        """Return the group that runs ``stage``. Raises: KeyError if no group does."""
        for group in self.groups:
            if stage in group.stages:
                return group
        raise KeyError(stage)


def all_sequential(stages: Sequence[Stage], name: str = "sequential") -> Composition:
    """Return one sequential group per stage: the most accurate to profile (Vogel et al., section 3.2, step 1)."""
    return Composition(name, tuple(Group((stage.name,)) for stage in stages))


@dataclass(frozen=True, slots=True)
class Document:
    """A compositions file: listed compositions in file order, then generated ones of other shapes."""

    app: str
    compositions: tuple[Composition, ...] = ()
    resources: Resources = field(default_factory=dict, hash=False)
    """Resources by stage, which replace those of the stage itself."""

    def resources_of(self, stages: Iterable[Stage]) -> Resources:
        """Return the resources of the existing ``stages``; an app's options may add or remove stages."""
        return {stage.name: self.resources[stage.name] for stage in stages if stage.name in self.resources}
