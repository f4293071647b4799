"""Choose nodes for the workers of one pool: from what the cluster has and others left, and what its sockets tell.

Sockets tell at once what Ray notices after seconds: a node that lost all its workers may be gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from compositions.resources import Need
from runtime.placement.cluster import Amounts, Cluster, Node, NodeState
from runtime.placement.place import Shape, place

NodeId = str
SHAPE = "the app"
LOOK_EVERY_S = 2.0
"""Nodes that come, go or drain are noticed within so long."""


class Seating:
    """Knows the cluster as of the last look, and the nodes under suspicion."""

    def __init__(self, look: Callable[[], Cluster], need: Need, suspect_s: float) -> None:
        """``need``: of each worker. ``suspect_s``: the time for which a node that lost its last worker gets others only
        where no other node has room."""
        self.look = look
        self.cluster = Cluster(())
        self._need, self._suspect_s = need, suspect_s
        self._suspects: dict[NodeId, float] = {}
        """Until when each is one."""
        self._look_again_s = 0.0

    def is_due(self, now_s: float) -> bool:
        """Return whether it is time for another look; True once in ``LOOK_EVERY_S``."""
        due = now_s >= self._look_again_s
        self._look_again_s = now_s + LOOK_EVERY_S if due else self._look_again_s
        return due

    def note(self, cluster: Cluster) -> None:
        """Take what was seen as the present state."""
        self.cluster = cluster

    @property
    def draining(self) -> set[NodeId]:
        """Return the nodes that are to go."""
        return {node.id for node in self.cluster.nodes if node.state is NodeState.DRAINING}

    def lost(self, node: NodeId, left: Collection[NodeId], now_s: float) -> None:
        """A worker on ``node`` was lost; ``left`` says where the others are."""
        if node and node not in left:
            self._suspects[node] = now_s + self._suspect_s

    def joined(self, node: NodeId) -> None:
        """A worker on ``node`` is ready: the node is there."""
        self._suspects.pop(node, None)

    def choose(self, count: int, workers_on: Sequence[NodeId], now_s: float) -> tuple[list[NodeId | None], str]:
        """Return nodes for ``count`` more workers beside those ``workers_on`` nodes; where they are fewer, the sentence
        says why. None: Ray may choose, as there is one node and nothing to reserve."""
        cluster = self._present(Counter(workers_on), now_s)
        if not self._need.is_declared and len(cluster.nodes) < 2:
            return [None] * count, ""
        trusted = tuple(node for node in cluster.nodes if node.state is NodeState.UP)
        if self._need.cpus is None and trusted:  # a crowded node is better than one that may be gone
            cluster = replace(cluster, nodes=trusted)
        open_ = {node.id for node in cluster.nodes if node.is_open}
        there = Counter(node for node in workers_on if node in open_)
        found = place(cluster, [Shape(SHAPE, self._need, there.total() + count)], {SHAPE: there})
        more = found.started({SHAPE: there}).get(SHAPE, {})
        nodes: list[NodeId | None] = []
        for node in sorted(more, key=lambda node: node != cluster.near):
            nodes += [node] * more[node]
        return nodes[:count], " ".join(found.reasons)

    def _present(self, workers: Mapping[NodeId, int], now_s: float) -> Cluster:
        """Return the cluster with suspects, and with what only others have taken."""
        self._suspects = {node: until_s for node, until_s in self._suspects.items() if now_s < until_s}
        return replace(self.cluster, nodes=tuple(self._seen(node, workers) for node in self.cluster.nodes))

    def _seen(self, node: Node, workers: Mapping[NodeId, int]) -> Node:
        state = NodeState.SUSPECT if node.id in self._suspects and node.is_open else node.state
        return replace(node, state=state, taken=_others(node.taken, self._need, workers.get(node.id, 0)))


def _others(taken: Amounts, need: Need, own: int) -> Amounts:
    """Return what is taken by others than ``own`` workers."""
    custom = {name: max(0.0, value - own * need.custom.get(name, 0.0)) for name, value in taken.custom.items()}
    return Amounts(
        max(0.0, taken.cpus - own * (need.cpus or 0.0)),
        max(0.0, taken.gpus - own * need.gpus),
        max(0.0, taken.memory_bytes - own * need.memory_bytes),
        custom,
    )
