"""Where to start a worker while it is not sure that all machines of the cluster are still there."""

from __future__ import annotations

from collections.abc import Collection, Sequence

NodeId = str


class Places:
    """Sockets tell at once what Ray notices after seconds: a machine that lost all its workers may be gone."""

    def __init__(self, suspect_s: float) -> None:
        self._suspect_s = suspect_s
        self._suspects: dict[NodeId, float] = {}
        """Until when each is one."""

    def lost(self, node: NodeId, left: Collection[NodeId], now_s: float) -> None:
        """A worker on ``node`` was lost; ``left`` says where the others are."""
        if node and node not in left:
            self._suspects[node] = now_s + self._suspect_s

    def joined(self, node: NodeId) -> None:
        self._suspects.pop(node, None)

    def choose(self, nodes: Sequence[NodeId], workers_on: Sequence[NodeId], now_s: float) -> NodeId | None:
        """One of ``nodes`` that is above suspicion, with the fewest workers; None: it may be any."""
        self._suspects = {node: until_s for node, until_s in self._suspects.items() if now_s < until_s}
        trusted = [node for node in nodes if node not in self._suspects]
        if not trusted or len(trusted) == len(nodes):
            return None
        return min(trusted, key=workers_on.count)
