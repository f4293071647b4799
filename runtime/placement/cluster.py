"""Describe a cluster: its nodes, their resources, the reserved amounts, and the number of cores."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class NodeState(StrEnum):
    """The state of a node. Workers are placed on ``up`` nodes, or on ``suspect`` ones if no other has room."""

    UP = "up"
    SUSPECT = "suspect"
    """The node does not answer, or lost its last worker a short time ago."""
    DRAINING = "draining"
    """The node gets no workers, and keeps its own until they have been replaced."""
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Amounts:
    """Amounts of resources that can be added."""

    cpus: float = 0.0
    gpus: float = 0.0
    memory_bytes: float = 0.0
    custom: Mapping[str, float] = field(default_factory=dict, hash=False)

    def less(self, other: "Amounts") -> "Amounts":
        """Return the difference of each amount, at least 0."""
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
    """A node of the cluster. A GPU can be shared between workers; a node's GPUs are counted separately."""

    id: str
    has: Amounts
    taken: Amounts = Amounts()
    """Amounts that others have reserved: other apps, other programs in the same Ray."""
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    state: NodeState = NodeState.UP
    address: str = ""
    seen: "NodeReport | None" = None
    """The latest report of a process on the node; None before the first."""

    @property
    def is_open(self) -> bool:
        """True if the node may get workers."""
        return self.state in (NodeState.UP, NodeState.SUSPECT)


@dataclass(frozen=True, slots=True)
class Cluster:
    """All nodes that Ray knows. ``near``: the id of the runner's node, where a hop is cheapest."""

    nodes: tuple[Node, ...]
    near: str | None = None

    @property
    def cores(self) -> float:
        """Number of cores of all nodes that may get workers; an integer unless fractional."""
        cores = round(sum(node.has.cpus for node in self.nodes if node.is_open), 3)
        return int(cores) if cores == int(cores) else cores

    @property
    def gpu_memory_bytes(self) -> int | None:
        """Memory of the smallest GPU; None if there is no GPU or a node with GPUs does not report them."""
        devices = [node.seen.gpus if node.seen else () for node in self.nodes if node.is_open and node.has.gpus]
        found = [gpu.memory_bytes for gpus in devices for gpu in gpus]
        return None if not all(devices) or None in found else min(filter(None, found), default=None)

    @property
    def gpus_busy(self) -> float | None:
        """Number of busy GPUs, including use by other programs; None unless each node with GPUs reports them."""
        seen = [node.seen.gpus if node.seen else () for node in self.nodes if node.has.gpus]
        busy = [gpu.busy for gpus in seen for gpu in gpus]
        return sum(each or 0.0 for each in busy) if seen and all(seen) and None not in busy else None


@dataclass(frozen=True, slots=True)
class Gpu:
    """The values that a GPU reports; None: not reported."""

    name: str
    busy: float | None
    """Fraction of the last second, or of a part of it, in which the GPU worked."""
    memory_bytes: int | None
    memory_used_bytes: int | None


@dataclass(frozen=True, slots=True)
class NodeReport:
    """The resources of a node as a process on it sees them."""

    cpus: "CpuReport"
    memory_bytes: int
    """Memory of the machine, or the limit of the process's control group if that is less."""
    memory_free_bytes: int
    """The part that programs could still take."""
    gpus: tuple[Gpu, ...] = ()


@dataclass(frozen=True, slots=True)
class CpuReport:
    """The CPUs of a node as a process on it sees them."""

    machine: int
    """CPUs of the machine."""
    affinity: int
    """CPUs that the process may run on."""
    quota: float | None
    """CPU time that its control group may use per second of wall time; None: no limit."""


def cores_of(declared: float, seen: CpuReport | None) -> float:
    """Return the cores of a node. ``declared``: Ray's number of CPUs, which counts if it differs from the machine's, as
    then an operator chose it; otherwise the affinity limits it. A quota limits both."""
    if seen is None:
        return declared
    cores = declared if declared != seen.machine else min(declared, seen.affinity)
    return cores if seen.quota is None else min(cores, round(seen.quota, 3))
