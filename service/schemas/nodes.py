"""Bodies of ``/nodes``: the nodes of the cluster, and the request to drain one."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field

from runtime.placement.cluster import Node, NodeState
from service.schemas.base import Answer, Data, Time


class GpuBody(Answer):
    """A GPU of a node, as its driver tells; null: it does not."""

    name: str
    busy: float | None
    """Share of about the last second in which it worked, for whomever."""
    memory_bytes: int | None
    memory_used_bytes: int | None


class NodeBody(Answer):
    """A node that Ray knows, or that was lost in the last hour."""

    node: str
    """Ray's id of the node."""
    address: str
    state: NodeState
    since: Time
    """Time at which the state was first seen by this service."""
    cpus: float
    """Cores that workers may use: Ray's number of CPUs, less where a quota or an affinity allows less."""
    cpus_used: float
    """CPUs that are reserved in Ray, by workers of these apps and by others."""
    gpus: int
    gpus_used: float
    memory_bytes: int
    memory_used_bytes: int
    """Memory that is reserved in Ray."""
    custom: Mapping[str, float]
    labels: Mapping[str, str]
    workers: Mapping[str, int]
    """Workers of each running app; apart from those of another node that has the same address."""
    machine_memory_bytes: int | None = None
    """Memory of the machine, or of its container where that may use less; absent until the node has told."""
    machine_memory_free_bytes: int | None = None
    """The part of it that programs could still take."""
    workers_memory_bytes: int | None = None
    """Resident memory of these workers, with frames that they share counted in each; absent unless their runner is on
    this node."""
    devices: list[GpuBody] | None = None
    """Its GPUs; absent where they cannot be seen."""

    @classmethod
    def of(cls, node: Node, since: str, workers: Mapping[str, int], workers_memory: int | None = None) -> NodeBody:
        has, taken, seen = node.has, node.taken, node.seen
        known: Data = {} if workers_memory is None else {"workers_memory_bytes": workers_memory}
        if seen is not None:
            known |= {"machine_memory_bytes": seen.memory_bytes, "machine_memory_free_bytes": seen.memory_free_bytes}
            known |= {"devices": [GpuBody.model_validate(each) for each in seen.gpus]} if seen.gpus else {}
        return cls(
            node=node.id,
            address=node.address,
            state=node.state,
            since=since,
            cpus=has.cpus,
            cpus_used=round(taken.cpus, 2),
            gpus=int(has.gpus),
            gpus_used=round(taken.gpus, 4),
            memory_bytes=int(has.memory_bytes),
            memory_used_bytes=max(0, int(taken.memory_bytes)),
            custom=has.custom,
            labels=node.labels,
            workers=workers,
            **known,
        )


class DrainRequest(BaseModel):
    """A request to empty a node."""

    model_config = ConfigDict(extra="forbid")

    deadline_s: float = Field(
        30.0, ge=1, le=86_400, allow_inf_nan=False, description="Time until the node is ended with what is left on it."
    )
