"""Describe a cluster: its nodes with what they have, what is taken of it, and how many cores that makes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class NodeState(StrEnum):
    """The state of a node. Workers are placed on ``up`` only, and on ``suspect`` where no other has room."""

    UP = "up"
    SUSPECT = "suspect"
    """It does not answer, or lost its last worker a short time ago."""
    DRAINING = "draining"
    """It keeps its workers until others have taken their place, and gets none."""
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Amounts:
    """Amounts of the resources that add up."""

    cpus: float = 0.0
    gpus: float = 0.0
    memory_bytes: float = 0.0
    custom: Mapping[str, float] = field(default_factory=dict, hash=False)

    def less(self, other: "Amounts") -> "Amounts":
        """Return what is left without ``other``, never less than nothing."""
        custom = {name: max(0.0, value - other.custom.get(name, 0.0)) for name, value in self.custom.items()}
        cpus, gpus = max(0.0, self.cpus - other.cpus), max(0.0, self.gpus - other.gpus)
        return Amounts(cpus, gpus, max(0.0, self.memory_bytes - other.memory_bytes), custom)


def total(of: Iterable[Amounts]) -> Amounts:
    """Return the sum."""
    cpus = gpus = memory = 0.0
    custom: dict[str, float] = {}
    for each in of:
        cpus, gpus, memory = cpus + each.cpus, gpus + each.gpus, memory + each.memory_bytes
        for name, value in each.custom.items():
            custom[name] = custom.get(name, 0.0) + value
    return Amounts(cpus, gpus, memory, custom)


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the cluster. A GPU can be shared; several are told apart."""

    id: str
    has: Amounts
    taken: Amounts = Amounts()
    """Amounts that others have reserved: other apps, other programs in the same Ray."""
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    state: NodeState = NodeState.UP
    address: str = ""
    seen: "NodeReport | None" = None
    """What a process there saw last; None: nothing yet."""

    @property
    def is_open(self) -> bool:
        """Return whether it may get workers."""
        return self.state in (NodeState.UP, NodeState.SUSPECT)


@dataclass(frozen=True, slots=True)
class Cluster:
    """All nodes that Ray knows; ``near`` is the id of the node on which a hop is cheapest, as the runner is there."""

    nodes: tuple[Node, ...]
    near: str | None = None

    @property
    def cores(self) -> float:
        """Return the number of cores of all nodes that may get workers; an integer unless it is fractional."""
        cores = round(sum(node.has.cpus for node in self.nodes if node.is_open), 3)
        return int(cores) if cores == int(cores) else cores

    @property
    def gpu_memory_bytes(self) -> int | None:
        """Return the memory of the smallest GPU; None if there is none, or not each node that has some tells."""
        devices = [node.seen.gpus if node.seen else () for node in self.nodes if node.is_open and node.has.gpus]
        found = [gpu.memory_bytes for gpus in devices for gpu in gpus]
        return None if not all(devices) or None in found else min(filter(None, found), default=None)

    @property
    def gpus_busy(self) -> float | None:
        """Return how many GPUs are at work, whosever; None unless each node that has some tells."""
        seen = [node.seen.gpus if node.seen else () for node in self.nodes if node.has.gpus]
        busy = [gpu.busy for gpus in seen for gpu in gpus]
        return sum(each or 0.0 for each in busy) if seen and all(seen) and None not in busy else None


@dataclass(frozen=True, slots=True)
class Gpu:
    """What a GPU tells of itself; None: it does not."""

    name: str
    busy: float | None
    """Share of the last second, or a part of it, in which it worked."""
    memory_bytes: int | None
    memory_used_bytes: int | None


@dataclass(frozen=True, slots=True)
class NodeReport:
    """What a process on a node sees of it."""

    cpus: "CpuReport"
    memory_bytes: int
    """Of the machine, or of its control group where that may use less."""
    memory_free_bytes: int
    """The part that programs could still take."""
    gpus: tuple[Gpu, ...] = ()


@dataclass(frozen=True, slots=True)
class CpuReport:
    """What a process on a node sees of its CPUs."""

    machine: int
    """CPUs of the machine."""
    affinity: int
    """CPUs that the process may run on."""
    quota: float | None
    """CPU time that its control group may use per second of wall time; None: no limit."""


def cores_of(declared: float, seen: CpuReport | None) -> float:
    """Return the cores of a node. ``declared`` is Ray's number of CPUs: an operator's choice where it differs from the
    machine's count, else the affinity decides; a quota caps both."""
    if seen is None:
        return declared
    cores = declared if declared != seen.machine else min(declared, seen.affinity)
    return cores if seen.quota is None else min(cores, round(seen.quota, 3))
