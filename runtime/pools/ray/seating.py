"""Choose nodes for the workers of one pool, by the cluster's free resources and the pool's lost connections.

A node that lost all its workers may be gone, which lost connections show at once, and Ray after seconds.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from compositions.model import Loads, Room
from compositions.resources import Need
from runtime.dispatch.events import WorkerId
from runtime.placement.cluster import Amounts, Cluster, Node, NodeState, total
from runtime.placement.place import Seats, Shape, capacity, lacking_for, place
from runtime.placement.rebalance import Move, Regret, moves

NodeId = str
SHAPE = "the app"
LOOK_EVERY_S = 2.0
"""Interval at which the nodes are read."""
START_S = 5.0
"""Assumed start time of a worker until one of its class has started."""


class Seating:
    """Chooses nodes from the latest view of the cluster and the nodes under suspicion."""

    def __init__(self, look: Callable[[], Cluster], need: Callable[[Loads], Need], suspect_s: float) -> None:
        """``need``: returns the need of a worker of a class. ``suspect_s``: the time for which a node that lost its
        last worker gets others only if no other node has room."""
        self.look = look
        self.cluster = Cluster(())
        self._need, self._suspect_s = need, suspect_s
        self._suspects: dict[NodeId, float] = {}
        """The time until which each node is suspect."""
        self._look_again_s = 0.0
        self._regret = Regret()
        self._start_s: dict[Loads, float] = {}

    def is_due(self, now_s: float) -> bool:
        """Return whether it is time for another look; True once in ``LOOK_EVERY_S``."""
        due = now_s >= self._look_again_s
        self._look_again_s = now_s + LOOK_EVERY_S if due else self._look_again_s
        return due

    def note(self, cluster: Cluster) -> None:
        """Store the latest view of the cluster."""
        self.cluster = cluster

    @property
    def draining(self) -> set[NodeId]:
        """The nodes that are draining."""
        return {node.id for node in self.cluster.nodes if node.state is NodeState.DRAINING}

    def lost(self, node: NodeId, left: Collection[NodeId], now_s: float) -> None:
        """Record the loss of a worker on ``node``. ``left``: the nodes of the remaining workers."""
        if node and node not in left:
            self._suspects[node] = now_s + self._suspect_s

    def joined(self, node: NodeId, loads: Loads, start_s: float) -> None:
        """Record that a worker of a class on ``node`` was ready after ``start_s``; the node is no longer suspect."""
        self._suspects.pop(node, None)
        self._start_s[loads] = start_s

    def leaving(self, workers: Mapping[WorkerId, tuple[Loads, NodeId]], now_s: float) -> tuple[list[WorkerId], str]:
        """Return the workers to replace, of ``workers``, which are ready, and the reason: workers on draining nodes, or
        else workers whose move to a better node is worth another start."""
        going = [worker for worker, (_, node) in workers.items() if node in self.draining]
        if going:
            nodes = ", ".join(sorted({self._address(workers[worker][1]) for worker in going}))
            leaving = "a worker leaves" if len(going) == 1 else f"{len(going)} workers leave"
            return going, f"{leaving} {nodes}, which is to go; replacements start elsewhere"
        shapes, present = self._shapes(list(workers.values()))
        by_name = {shape.name: loads for shape, loads in shapes}
        found = moves(self._present(list(workers.values()), now_s), [shape for shape, _ in shapes], present)
        price_s = sum(self._start_s.get(by_name[move.shape], START_S) for move in found)
        if not self._regret.are_due(found, price_s, now_s):
            return [], ""
        moved: list[WorkerId] = []
        for move in found:
            here = by_name[move.shape], move.source
            moved += [worker for worker, at in workers.items() if at == here and worker not in moved][:1]
        return moved, self._why(found, price_s)

    def _why(self, found: Sequence[Move], price_s: float) -> str:
        ways = Counter(f"from {self._address(move.source)} to {self._address(move.target)}" for move in found)
        told = ", ".join(f"{count} {way}" for way, count in ways.items())
        gain = f"this gains {sum(move.gain for move in found):.2g} cores"
        return f"workers move, {told}: {gain}; staying has cost as much as their starts, {price_s:.2g} core-seconds"

    def _address(self, node: NodeId) -> str:
        return next((each.address for each in self.cluster.nodes if each.id == node), node)

    def _shapes(self, workers: Sequence[tuple[Loads, NodeId]]) -> tuple[list[tuple[Shape, Loads]], Seats]:
        there: dict[Loads, Counter[NodeId]] = {}
        for loads, node in workers:
            there.setdefault(loads, Counter())[node] += 1
        shapes = [(Shape(class_name(loads), self._need(loads), on.total()), loads) for loads, on in there.items()]
        return shapes, {class_name(loads): on for loads, on in there.items()}

    def choose(
        self, loads: Loads, count: int, workers: Sequence[tuple[Loads, NodeId]], now_s: float
    ) -> tuple[list[NodeId | None], str]:
        """Return nodes for ``count`` more workers of a class beside ``workers``, and, if the nodes are fewer, the
        reason. None as a node: Ray may choose, as there is one node and nothing to reserve."""
        need = self._need(loads)
        others = [each for each in workers if each[0] != loads and not _stands_beside(self._need(each[0]), need)]
        workers = [each for each in workers if each not in others]
        cluster = self._present(workers, now_s, others)
        if not need.is_declared and len(cluster.nodes) < 2:
            return [None] * count, ""
        trusted = tuple(node for node in cluster.nodes if node.state is NodeState.UP)
        if need.cpus is None and trusted:  # a crowded node is better than one that may be gone
            cluster = replace(cluster, nodes=trusted)
        open_ = {node.id for node in cluster.nodes if node.is_open}
        there: dict[Loads, Counter[NodeId]] = {loads: Counter()}
        for held, node in workers:
            there.setdefault(held, Counter()).update([node] if node in open_ else [])
        counts = {held: on.total() + (count if held == loads else 0) for held, on in there.items()}
        shapes = [Shape(class_name(held), self._need(held), counts[held]) for held in there]
        present = {class_name(held): on for held, on in there.items()}
        found = place(cluster, shapes, present)
        more = found.started(present).get(class_name(loads), {})
        nodes: list[NodeId | None] = []
        for node in sorted(more, key=lambda node: node != cluster.near):
            nodes += [node] * more[node]
        return nodes[:count], " ".join(found.reasons)

    def could_hold(self, loads: Loads) -> bool:
        """Return whether the present nodes could hold a worker of a class if nothing else were there."""
        return lacking_for(self.cluster, [Shape(class_name(loads), self._need(loads), 1)]) is None

    def room(self, classes: Collection[Loads], workers: Sequence[tuple[Loads, NodeId]]) -> Room:
        """Return the number of workers of each class with needs that fit if none of ``workers`` existed."""
        cluster = self._present(workers, self._look_again_s - LOOK_EVERY_S)
        needs = {loads: self._need(loads) for loads in classes}
        return {loads: capacity(cluster, need) for loads, need in needs.items() if need.is_declared}

    def _present(
        self, workers: Sequence[tuple[Loads, NodeId]], now_s: float, others: Sequence[tuple[Loads, NodeId]] = ()
    ) -> Cluster:
        """Return the cluster with suspect nodes marked, and without the reservations of ``workers``. The needs of
        ``others``, also of this app, count as reserved even if Ray has not reserved them yet."""
        self._suspects = {node: until_s for node, until_s in self._suspects.items() if now_s < until_s}
        nodes = (self._seen(node, *(self._on(node, each) for each in (workers, others))) for node in self.cluster.nodes)
        return replace(self.cluster, nodes=tuple(nodes))

    def _on(self, node: Node, workers: Sequence[tuple[Loads, NodeId]]) -> Amounts:
        """Return the total need of the workers on a node."""
        needs = [self._need(loads) for loads, on in workers if on == node.id]
        return total(Amounts(need.cpus or 0.0, need.gpus, need.memory_bytes, need.custom) for need in needs)

    def _seen(self, node: Node, own: Amounts, others: Amounts) -> Node:
        state = NodeState.SUSPECT if node.id in self._suspects and node.is_open else node.state
        beside = node.taken.less(own)
        return replace(node, state=state, taken=total([beside, others.less(beside)]))


def _stands_beside(other: Need, need: Need) -> bool:
    """Return whether present workers of another class are placed together with the new ones: those that share CPUs and
    cannot lose a reservation. All others count only as reserved amounts."""
    return other.cpus is None and (need.cpus is None or not other.is_declared)


def class_name(loads: Loads) -> str:
    """Return the name of a class of workers for messages."""
    return f"{SHAPE} for {', '.join(loads)}" if loads else SHAPE
